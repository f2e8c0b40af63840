"""Several services at once, each entered in a thread of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from sourcelab.process import Service


class Together:
    """Starts all on enter without waiting, and ends all on exit.

    The kernel ends a service with the thread that started it, so its thread stays as long as it.
    """

    def __init__(self, *services: Service, on_start: Callable[[Service], None]) -> None:
        self._services = services
        self._on_start = on_start
        self._started: dict[Service, Future[None]] = {service: Future() for service in services}
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._hold, args=(s,), name=s.name) for s in services]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, *services: Service) -> None:
        """Until they are ready. Raises what a service raised while it started."""
        for service in services or self._services:
            self._started[service].result()

    def _hold(self, service: Service) -> None:
        started = self._started[service]
        try:
            with service:
                self._on_start(service)
                started.set_result(None)
                self._end.wait()
        except BaseException as error:
            if started.done():
                raise
            # For the thread that waits.
            started.set_exception(error)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the `with` blocks, as Ctrl-C does."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
