"""A lake with one release, which is copied for each test that continues from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.model.window import Window
from changeledger.stages import publish
from sourcelab import sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.services import Postgres
from tests.faults.matrix.lab import State
from tests.integration.line import STAGES, cdc_feed, run, window
from tests.lake_states import lake_of

# The log of the fixture `one_release`, and how many of its transactions are released there.
LOG: Log = simulate(5, 24)
RELEASED = 12


class OneRelease(NamedTuple):
    """A published release.

    - `judged`, `state`: the stores before it was published, and after that.
    - `files`: the warehouse of all copies.
    - `over`: the released window.
    """

    judged: State
    state: State
    files: Path
    over: Window

    @classmethod
    def published(
        cls, spark: SparkSession, folder: Path, feed_of: Callable[[pytest.MonkeyPatch], Feed], over: Window
    ) -> OneRelease:
        state, files = State(folder / "now"), folder / "files"
        with pytest.MonkeyPatch.context() as patch:
            session, feed = lake_of(spark, state, files, patch), feed_of(patch)
            run(session, feed, over, STAGES[:-1])
            judged = state.copy(folder / "judged")
            publish.run(session, feed, over)
        return cls(judged, state, files, over)

    @classmethod
    def of_customers(cls, spark: SparkSession, source: Postgres, folder: Path) -> OneRelease:
        """Publishes the first half of `LOG` from the source, which is loaded for that."""
        sqlserver_cdc.load(source.url, LOG, to_tx=RELEASED)
        return cls.published(spark, folder, lambda patch: feed_of(source, patch), window())

    def copy(self, spark: SparkSession, folder: Path, patch: pytest.MonkeyPatch) -> SparkSession:
        """Returns a session on its own copy of the lake, which is the installation while `patch` lasts."""
        return lake_of(spark, self.state.copy(folder), self.files, patch)


def feed_of(source: Postgres, patch: pytest.MonkeyPatch, **settings: Any) -> Feed:
    """Returns the feed of the fixture `one_release` on a source of the test's own."""
    return cdc_feed("customers", source, patch, **{"tables": [{"table": "dbo.customers"}], **settings})
