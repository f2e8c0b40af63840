"""Runs several services at once, each in its own thread, and restarts one that ends unexpectedly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from sourcelab.losses import Losses
from sourcelab.process import Service

_LOOK_SECONDS = 0.5


class Together:
    """Starts all services on enter without waiting, and ends all on exit. `say` reports their state.

    The kernel ends a service with the thread that started it, so that thread lives as long as the service.
    """

    def __init__(self, *services: Service, say: Callable[[str], None]) -> None:
        self._services = services
        self._say, self._losses = say, Losses(say)
        self._given_up: BaseException | None = None
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
        """Waits until the services are ready. Raises what a service raised while it started."""
        for service in services or self._services:
            self._started[service].result()

    def require_running(self) -> None:
        """Raises the error of a service that could not be restarted."""
        if self._given_up is not None:
            raise self._given_up

    def _hold(self, service: Service) -> None:
        started = self._started[service]
        try:
            with service:
                self._say(f"{service.name} is up")
                started.set_result(None)
                while not self._end.wait(_LOOK_SECONDS):
                    if not service.running:
                        self._losses.note(service.name, service.returncode, service.log)
                        service.resume()
                        self._say(f"{service.name} is up again")
        except Exception as error:  # noqa: BLE001 - for the thread that waits, or looks
            if started.done():
                self._given_up = error
            else:
                started.set_exception(error)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Makes SIGTERM unwind the `with` blocks, as Ctrl-C does."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
