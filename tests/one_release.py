"""A lake with one release, which is copied for each test that continues from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.model.window import Window
from tests.faults.matrix.lab import State
from tests.integration.line import run
from tests.lake_states import lake_of


class OneRelease(NamedTuple):
    """A published release. `files`: the warehouse of all copies; `over`: the released window."""

    state: State
    files: Path
    over: Window

    @classmethod
    def published(
        cls, spark: SparkSession, folder: Path, feed_of: Callable[[pytest.MonkeyPatch], Feed], over: Window
    ) -> OneRelease:
        state = State(folder / "now")
        with pytest.MonkeyPatch.context() as patch:
            run(lake_of(spark, state, folder / "files", patch), feed_of(patch), over)
        return cls(state, folder / "files", over)

    def copy(self, spark: SparkSession, folder: Path, patch: pytest.MonkeyPatch) -> SparkSession:
        """Returns a session on its own copy of the lake, which is the installation while `patch` lasts."""
        return lake_of(spark, self.state.copy(folder), self.files, patch)
