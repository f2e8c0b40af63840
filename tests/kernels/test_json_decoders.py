"""Threads build decoders of types that share a struct, as the tables of a feed do."""

from __future__ import annotations

import subprocess
import sys
from threading import Barrier, Thread
from typing import Literal

import msgspec

from changeledger.kernels import json_text

_THREADS, _ROUNDS = 4, 200


def build_at_once() -> None:
    # Threads take turns within a struct's fields, not just after 5 ms.
    sys.setswitchinterval(1e-6)
    for number in range(_ROUNDS):
        fields = [(f"f{at}", Literal[f"{number} {at}", "x"] | None, None) for at in range(30)]
        shared = msgspec.defstruct("Headers", fields)
        begin = Barrier(_THREADS)

        def read(begin: Barrier, shared: type) -> None:
            message = msgspec.defstruct("Message", [("headers", shared | None, None)])
            begin.wait()
            json_text.decoder(message).decode(b'{"headers": {"f28": "x", "f29": "x"}}')

        threads = [Thread(target=read, args=(begin, shared)) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_threads_build_decoders_of_a_shared_struct() -> None:
    """Without a lock the process ends with SIGSEGV, so it is one of its own."""
    subprocess.run([sys.executable, "-m", __name__], check=True)


if __name__ == "__main__":
    build_at_once()
