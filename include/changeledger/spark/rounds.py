"""Answers the questions of several threads together, so that Spark runs one job for all of them.

Each table of a feed has a thread of its own, whose code need not know of other tables. A thread that asks for
rows waits. Once all threads wait or have ended, one job answers every question. So a stage runs as many jobs
as a single table needs, however many tables there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from threading import Event, Lock, Thread, local
from types import TracebackType
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Asked = TypeVar("Asked")

# Threads that work at the same time: they mostly wait for commits and the catalog.
_AT_ONCE = 4


class _Round(Generic[Asked]):
    """The threads of one `Rounds.each`. They work in the order of their items, some at the same time."""

    def __init__(self, answer: Callable[[list[Asked]], list[Any]], members: int) -> None:
        self._answer, self._members, self._at_work = answer, 0, 0
        self._waiting: dict[int, tuple[Asked, Future[Any]]] = {}
        self._ready = deque[int]()
        self._turns = [Event() for _ in range(members)]
        self._lock = Lock()
        self._failed_at: TracebackType | None = None

    def begin(self, members: int) -> None:
        """Lets the first `members` work, whose threads have started. No other member takes part."""
        with self._lock:
            self._members, self._ready = members, deque(range(members))
            self._go_on()

    def work(self, at: int, work: Callable[[Item], Result], element: Item) -> Result:
        self._await_turn(at)
        try:
            return work(element)
        finally:
            with self._lock:
                self._at_work -= 1
                self._members -= 1
                self._go_on()

    def ask(self, at: int, asked: Asked) -> Any:
        answer: Future[Any] = Future()
        with self._lock:
            self._at_work -= 1
            self._waiting[at] = asked, answer
            self._go_on()
        self._await_turn(at)
        error = answer.exception()
        if error is not None:
            # All askers raise the same error, and each would add its frames to those of all others.
            raise error.with_traceback(self._failed_at)
        return answer.result()

    def _await_turn(self, at: int) -> None:
        self._turns[at].wait()
        self._turns[at].clear()

    def _go_on(self) -> None:
        if self._waiting and len(self._waiting) == self._members:
            in_order = sorted(self._waiting)
            self._answer_all([self._waiting.pop(at) for at in in_order])
            self._ready.extend(in_order)
        while self._ready and self._at_work < _AT_ONCE:
            self._at_work += 1
            self._turns[self._ready.popleft()].set()

    def _answer_all(self, questions: list[tuple[Asked, Future[Any]]]) -> None:
        try:
            answers = self._answer([asked for asked, _ in questions])
            answered = [*zip(questions, answers, strict=True)]
        except BaseException as error:  # noqa: BLE001 - every thread that has asked hears of it
            self._failed_at = error.__traceback__
            for _, answer in questions:
                answer.set_exception(error)
        else:
            for (_, answer), given in answered:
                answer.set_result(given)


class Rounds(Generic[Asked]):
    """Collects questions of threads. `answer`: returns the answers to several questions, in their order."""

    def __init__(self, answer: Callable[[list[Asked]], list[Any]]) -> None:
        self._answer = answer
        self._of_thread = local()

    def ask(self, asked: Asked) -> Any:
        """Returns the answer to a question.

        In a thread of `each` it is answered together with those of the other threads, otherwise at once.
        """
        current: tuple[_Round[Asked], int] | None = getattr(self._of_thread, "round", None)
        return self._answer([asked])[0] if current is None else current[0].ask(current[1], asked)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Applies `work` to each item, such as a table. Raises the first error once all have ended."""
        todo = list(items)
        if len(todo) < 2 or getattr(self._of_thread, "round", None) is not None:
            return [work(element) for element in todo]
        new_round, results = _Round(self._answer, len(todo)), [Future[Result]() for _ in todo]

        def member(at: int) -> None:
            self._of_thread.round = new_round, at
            try:
                results[at].set_result(new_round.work(at, work, todo[at]))
            except BaseException as error:  # noqa: BLE001 - raised below
                results[at].set_exception(error)

        threads = [Thread(target=member, args=(at,), daemon=True) for at in range(len(todo))]
        _run(new_round, threads, results)
        return [result.result() for result in results]


def _run(new_round: _Round[Any], threads: Sequence[Thread], results: Sequence[Future[Any]]) -> None:
    """Runs the members' threads until all have their results.

    A round waits for all its members, so each of them must run. A pool's `map` would cancel those that have
    not begun when the first one fails, and the system may refuse to start more threads.
    """
    started = 0
    try:
        try:
            for thread in threads:
                thread.start()
                started += 1
        finally:
            new_round.begin(started)
        wait(results[:started])
    finally:
        # After an interrupt, too: the caller gives up its lease, and nothing may be written after that. An
        # interrupted `join` of Python 3.11 takes the thread for ended.
        wait(results[:started])
