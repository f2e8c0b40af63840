"""No member of a round waits for one that never runs. Each scene is a process: it could wait for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from changeledger.spark.rounds import Rounds

_SECONDS = 60


def _rounds() -> Rounds[int]:
    return Rounds(lambda asked: asked)


def first_fails_before_last_begins() -> None:
    run = threading.Thread.run

    def late(thread: threading.Thread) -> None:
        # The last of three begins late, as on a busy machine.
        time.sleep(0.1 * (threading.active_count() > 3))
        run(thread)

    threading.Thread.run = late  # type: ignore[method-assign]
    rounds, ended = _rounds(), list[int]()

    def work(item: int) -> None:
        if item == 0:
            raise KeyError(item)
        ended.append(rounds.ask(item))

    with pytest.raises(KeyError):
        rounds.each(work, range(3))
    assert sorted(ended) == [1, 2]


def no_thread_is_left() -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def limited(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    threading.Thread.start = limited  # type: ignore[method-assign]
    rounds, ended = _rounds(), list[int]()
    with pytest.raises(RuntimeError, match="new thread"):
        rounds.each(lambda item: ended.append(rounds.ask(item)), range(5))
    assert sorted(ended) == [0, 1, 2]


@pytest.mark.parametrize("scene", ["first_fails_before_last_begins", "no_thread_is_left"])
def test_all_that_have_begun_end(scene: str) -> None:
    subprocess.run([sys.executable, "-m", __name__, scene], check=True, timeout=_SECONDS)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
