"""What people write, and what is kept of it: a member that nobody knows is an error, not a silence."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A model without unknown members, that does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
