"""A lake on S3 behind a REST catalog, each reached through a proxy that can misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path

from sourcelab.object_store import RestCatalog, S3Server
from tests.faults.matrix.proxy import Decision, Deed, Proxy, Request

_SLOW_SECONDS = 0.5
_RESTARTS_IN_SECONDS = 2.0
# The number of uploads that break off.
_HALVES = 2


class RemoteLake:
    """The lake's servers. `states`: the folder of the bucket and of the states with their `catalog.db`."""

    def __init__(self, jars: Path, folder: Path, states: Path) -> None:
        self._states = states
        self._server = S3Server(jars, folder, states / "objects")
        self._rest = RestCatalog(jars, folder, self._server, many_below=states)
        self._stack = ExitStack()

    def __enter__(self) -> RemoteLake:
        with ExitStack() as stack:
            stack.enter_context(self._server)
            stack.enter_context(self._rest)
            self.store = stack.enter_context(Proxy(self._server.port))
            self.rest = stack.enter_context(Proxy(self._rest.port))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def catalog(self, state: Path) -> dict[str, str]:
        """Returns the `CHANGELEDGER_CATALOG` of the state in that folder."""
        name = state.relative_to(self._states).as_posix().replace("/", "~")
        reached = {"uri": f"{self.rest.url}/{name}", "s3.endpoint": self.store.url}
        # An unresponsive store is given up soon, so that a cell takes seconds.
        return {**self._rest.settings, **reached, "s3.connect-timeout": "5", "s3.request-timeout": "20"}


def is_commit(request: Request) -> bool:
    """Returns whether the request commits a table's new state, or creates a table."""
    _, _, place = request.path.partition("/tables")
    return request.method == "POST" and "/tables" in request.path and place.count("/") < 2


def _first(
    wanted: Callable[[Request], bool], deed: Deed, then: Callable[[], None], times: int = 1
) -> Decision:
    """Decides on the deed at the first `times` matching requests, and calls `then` at the last of them."""
    numbers = count(1)
    lock = threading.Lock()

    def decide(request: Request) -> Deed:
        with lock:
            number = next(numbers) if wanted(request) else times + 1
        if number > times:
            return Deed.PASS
        if number == times:
            then()
        return deed

    return decide


def _pass() -> None:
    return


def _each_other() -> Decision:
    numbers = count()
    return lambda _request: Deed.FAIL if next(numbers) % 2 else Deed.PASS


def _restart(proxy: Proxy) -> None:
    proxy.leave()
    threading.Thread(target=lambda: (time.sleep(_RESTARTS_IN_SECONDS), proxy.come_back())).start()


def _slow(proxy: Proxy) -> None:
    proxy.delay_seconds = _SLOW_SECONDS


def _deciding(decision: Callable[[Proxy], Decision]) -> Callable[[Proxy], None]:
    def begin(proxy: Proxy) -> None:
        proxy.decide = decision(proxy)

    return begin


def _is_upload(request: Request) -> bool:
    return request.method == "PUT" and len(request.body) > 1


_FAILING = _deciding(lambda _: _each_other())
_REFUSING = _deciding(lambda _: lambda _request: Deed.FAIL)
# By fault: what begins at the proxy of the catalog, or of the store.
_AT_REST: dict[str, Callable[[Proxy], None]] = {
    "rest_away": Proxy.leave,
    "rest_cut": _deciding(lambda proxy: _first(is_commit, Deed.CUT, proxy.leave)),
    "rest_lost": _deciding(lambda _: _first(is_commit, Deed.LOSE, _pass)),
    "rest_lost_away": _deciding(lambda proxy: _first(is_commit, Deed.LOSE, proxy.leave_soon)),
    "rest_restarted": _restart,
    "rest_failing": _FAILING,
    "rest_refusing": _REFUSING,
}
_AT_STORE: dict[str, Callable[[Proxy], None]] = {
    "store_away": Proxy.leave,
    "store_slow": _slow,
    "store_failing": _FAILING,
    "store_refusing": _REFUSING,
    "store_half": _deciding(lambda _: _first(_is_upload, Deed.HALF, _pass, _HALVES)),
}


def is_at_proxy(fault: str) -> bool:
    return fault in _AT_REST or fault in _AT_STORE


def trouble(lake: RemoteLake, fault: str) -> AbstractContextManager[None]:
    proxy, begin = (lake.rest, _AT_REST[fault]) if fault in _AT_REST else (lake.store, _AT_STORE[fault])
    return _until_left(proxy, begin)


@contextmanager
def _until_left(proxy: Proxy, begin: Callable[[Proxy], None]) -> Iterator[None]:
    begin(proxy)
    try:
        yield
    finally:
        proxy.calm()
