"""Recognizes messages that have the same schema block and table as sampled messages of their topic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from changeledger.dialects.debezium.plain import beginning
from changeledger.dialects.debezium.schema_block import TableMessage

# The members of `source` that name the table.
NAMED = re.compile(rb'"schema"\s*:\s*"[^"\\]*"\s*,\s*"table"\s*:\s*"[^"\\]*"')
# Bytes by which the text from these members to the end may exceed the longest in the samples.
_SLACK = 32


class Alike:
    """How messages of a table begin, and in which words they name it.

    `holds` tells whether a message begins like one of them and names its table in the same words.
    """

    def __init__(self, ends: Sequence[TableMessage]) -> None:
        begins, names, tail = set(), set(), 0
        for message in ends:
            text = message.sample.value or b""
            begins.add(beginning(text) or text.partition(b":")[0])
            for named in NAMED.finditer(text):
                names.add(named[0])
                tail = max(tail, len(text) - named.start() + _SLACK)
        self._begins, self._names, self._tail = tuple(begins), names, tail

    def holds(self, value: bytes) -> bool:
        # Debezium 0.x names the table in the topic only.
        near_end = value[-self._tail :]
        named = not self._names or any(name in near_end for name in self._names)
        return named and value.startswith(self._begins)
