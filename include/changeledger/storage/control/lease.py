"""A lease that is kept while work goes on, and let go where nobody will go on with it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from changeledger.errors import ChangeledgerError, LeaseHeld, SourceUnavailable
from changeledger.storage.control.store import ControlStore

log = logging.getLogger("changeledger")

# How long a feed stays with a run that gives no sign: between two stages, and when it died.
LEASE_SECONDS = 3600.0
_RENEW_SECONDS = 600.0


@contextmanager
def kept(control: ControlStore, feed: str, holder: str) -> Iterator[None]:
    """Renews the lease meanwhile: a stage may take longer than it lasts.

    It stays with the holder afterwards, for the next stage or another try; an error that no try can mend
    lets the feed's other runs in.
    """
    over = threading.Event()
    thread = threading.Thread(target=_renew, args=(control, feed, holder, over), daemon=True)
    thread.start()
    try:
        yield
    except ChangeledgerError as error:
        if not error.retryable:
            control.release_lease(feed, holder)
        raise
    finally:
        over.set()


def _renew(control: ControlStore, feed: str, holder: str, over: threading.Event) -> None:
    while not over.wait(_RENEW_SECONDS):
        try:
            if control.lease(feed) is None:
                # The stage has let it go: it is at its end.
                return
            control.acquire_lease(feed, holder, LEASE_SECONDS)
        except (LeaseHeld, SourceUnavailable) as error:
            log.warning("%s", error)
