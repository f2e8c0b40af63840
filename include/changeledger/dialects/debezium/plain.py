"""Sample messages as plain objects, for what is found out of a window before its messages are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from changeledger.kernels import json_text


def json_object(raw: bytes | None) -> Mapping[str, Any]:
    """The JSON object in `raw`, empty if there is none: a broken sample is ignored.

    So is one that no decoder reads: one that is not UTF-8, or has half a surrogate pair in it.
    """
    text = raw or b"{}"
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and not json_text.has_lone_surrogate(text) else {}


def payload_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = message.get("payload")
    return inner if isinstance(inner, dict) else message
