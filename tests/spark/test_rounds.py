"""Questions of several threads are answered together."""

from __future__ import annotations

import signal
from threading import Barrier, main_thread
from time import sleep
from traceback import extract_tb

import pytest

from changeledger.spark.rounds import Rounds


class Doubling(Rounds[int]):
    """Doubles numbers, and records which ones were asked together."""

    def __init__(self) -> None:
        super().__init__(self.doubled)
        self.together: list[list[int]] = []

    def doubled(self, asked: list[int]) -> list[int]:
        self.together.append(sorted(asked))
        if 13 in asked:
            raise ValueError("thirteen")
        return [2 * number for number in asked]


def test_one_round_for_all_however_many_threads() -> None:
    rounds = Doubling()

    def work(item: int) -> int:
        first = rounds.ask(item)
        return int(rounds.ask(first + 1))

    items = list(range(20, 70))
    assert rounds.each(work, items) == [2 * (2 * item + 1) for item in items]
    assert rounds.together == [items, [2 * item + 1 for item in items]]


def test_those_that_ask_less_keep_nobody_waiting() -> None:
    rounds = Doubling()

    def work(item: int) -> list[int]:
        return [rounds.ask(10 * item + at) for at in range(item)]

    assert [len(answered) for answered in rounds.each(work, range(5))] == [0, 1, 2, 3, 4]
    assert len(rounds.together) == 4


def test_an_answer_that_lacks_ends_all() -> None:
    rounds = Rounds(lambda asked: asked[:-1])
    with pytest.raises(ValueError, match="shorter"):
        rounds.each(rounds.ask, range(3))


def test_an_error_of_a_round_is_everybodys() -> None:
    rounds = Doubling()
    ended = []

    def work(item: int) -> None:
        try:
            rounds.ask(item)
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="thirteen"):
        rounds.each(work, range(10, 15))
    assert sorted(ended) == [10, 11, 12, 13, 14]


def test_the_error_of_a_round_shows_few_of_those_that_asked() -> None:
    """Of 400 tables, the log of one error had 9,000 lines."""
    rounds = Doubling()
    with pytest.raises(ValueError, match="thirteen") as raised:
        rounds.each(rounds.ask, range(50))
    names = [frame.name for frame in extract_tb(raised.value.__traceback__)]
    # Another thread may raise it at the same moment.
    assert names.count("member") < 5
    assert names[-1] == "doubled"


def test_an_error_of_one_thread_lets_the_others_end() -> None:
    rounds = Doubling()

    def work(item: int) -> int:
        if item == 3:
            raise KeyError(item)
        return int(rounds.ask(item))

    with pytest.raises(KeyError):
        rounds.each(work, range(6))
    assert rounds.together == [[0, 1, 2, 4, 5]]


def test_an_interrupt_lets_all_end() -> None:
    """The caller then gives up its lease, after which nothing may be written."""
    rounds, ended = Doubling(), list[int]()

    def work(item: int) -> None:
        if item == 0:
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        sleep(0.2)
        ended.append(rounds.ask(item))

    with pytest.raises(KeyboardInterrupt):
        rounds.each(work, range(3))
    assert sorted(ended) == [0, 2, 4]


def test_within_a_thread_one_after_the_other() -> None:
    """A nested `each` starts no threads, as they would wait for those of other items."""
    rounds = Doubling()
    both = Barrier(2)

    def work(item: int) -> list[int]:
        both.wait(10)
        return rounds.each(rounds.ask, [item, item + 1])

    assert rounds.each(work, [1, 5]) == [[2, 4], [10, 12]]
    assert rounds.together == [[1, 5], [2, 6]]


def test_alone_each_question_is_a_round() -> None:
    rounds = Doubling()
    assert (rounds.ask(1), rounds.ask(2)) == (2, 4)
    assert rounds.each(rounds.ask, [3]) == [6]
    assert rounds.each(rounds.ask, []) == []
    assert rounds.together == [[1], [2], [3]]
