"""Change event streaming of SQL Server 2025."""

from __future__ import annotations

from changeledger.dialects.ces import discovery, split
from changeledger.dialects.ces.decode import decode
from changeledger.dialects.ces.other_messages import decode_other
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import MessageKernel, Segments

CES = MessageDialect(
    MessageKernel(
        "ces",
        discovery.FACTS,
        discovery.facts,
        discovery.merged,
        discovery.discover,
        discovery.routes,
        decode,
        decode_other,
        segments=Segments(
            discovery.has_segments, split.keyed, split.KEYED, split.joined, split.JOINED, discovery.SEGMENT
        ),
    ),
    has_commit_lsns=True,
)
