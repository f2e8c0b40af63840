"""What is done for a database is done by one process at a time."""

from __future__ import annotations

import os
import socket
from contextlib import AbstractContextManager

from changeledger.control import DATABASE_SECONDS, ControlStore, lease_held


def held(control: ControlStore, name: str) -> AbstractContextManager[None]:
    """The lease of a database's comparison or proofs. `name`: as `model.database_work` has it.

    Raises LeaseHeld while another process has it: a comparison, or an erasure of what would be compared.
    """
    holder = f"{name} (process {os.getpid()} on {socket.gethostname()})"
    return lease_held(control.leases, name, holder, DATABASE_SECONDS)
