"""The lease under which one process at a time works on a database."""

from __future__ import annotations

from contextlib import AbstractContextManager

from changeledger.control import PROCESS_SECONDS, ControlStore, holder_here, lease_held


def held(control: ControlStore, name: str) -> AbstractContextManager[None]:
    """The lease of a database's comparison or proofs, by the name that `model.database_work` gives it; or, by
    the name of their namespace, of the tables that all databases share.

    Raises LeaseHeld while another process has it: the same work, or an erasure of what it would read.
    """
    return lease_held(control.leases, name, holder_here(name), PROCESS_SECONDS)
