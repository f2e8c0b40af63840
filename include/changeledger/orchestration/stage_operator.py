"""The Airflow operator of a feed's stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.model.window import STAGES, Window
from changeledger.orchestration import alerts
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.links import DataDocsLink
from changeledger.orchestration.windows import resolve_window

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


class StageOperator(JobOperator):
    """Runs a stage for one feed, over the window of the run.

    `_run` determines the window, not a template: an error while Airflow renders templates reaches no log.
    """

    # Shows the actual arguments among the rendered fields.
    overwrite_rtif_after_execution = True
    window: Window

    def __init__(self, *, stage: str, feed: Feed, **kwargs: Any) -> None:
        super().__init__(job=stage, arguments=[], name=f"changeledger-{feed.feed}-{stage}", **kwargs)
        # An idle window ends with extract and needs no Spark. Publish moves refs, and needs Spark only to
        # count records where messages waited, and in replays and repairs.
        self.asks_first = stage in ("extract", "publish")
        if stage == "audit":
            self.operator_extra_links = (DataDocsLink(),)
        self.stage = stage
        self.feed = feed

    def _run(self, context: Context) -> None:
        # Uses only what the run has stored, so that a retry or a cleared task has the same window.
        self.window = resolve_window(self.feed, context["params"], context["dag_run"])
        self.application_args = [
            "--feed", self.feed.feed,
            "--start", self.window.start.isoformat(), "--end", self.window.end.isoformat(),
            "--request", self.window.request.argument(),
        ]  # fmt: skip
        if self.stage == "publish" and self.window.request.dry_run:
            raise AirflowSkipException("a dry run: what it would publish is on the window's branch")
        try:
            super()._run(context)
        except DownstreamTasksSkipped:
            self._report(context, is_last=True)
            raise
        self._report(context, is_last=self.stage == STAGES[-1])

    def get_openlineage_facets_on_complete(self, _: object) -> OperatorLineage:
        """Returns the published tables. OpenLineage's provider calls the method by this name."""
        # An optional package, which is not in the lock.
        from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415
        from openlineage.client.event_v2 import Dataset  # noqa: PLC0415

        warehouse = Settings().warehouse
        return OperatorLineage(outputs=[Dataset(*place(asset.name, warehouse)) for asset in self.outlets])

    def _report(self, context: Context, *, is_last: bool) -> None:
        if self.outlets:
            self._note_assets(context)
        alerts.ended(self.feed, self.window, self.stage, context, is_last=is_last)

    def _note_assets(self, context: Context) -> None:
        """Adds release, window and counts to the asset event of each published table."""
        from changeledger.control import ControlStore  # noqa: PLC0415 - DAG files are parsed often

        window = self.window
        release = ControlStore(Settings().control_url).releases.of_window(self.feed.feed, window)
        if release is None:
            return
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {
                "release": release.id,
                "window": window.id,
                "start": window.start.isoformat(),
                "end": window.end.isoformat(),
                "counts": release.counts["tables"].get(asset.extra["table"], {}),
            }


def place(table: str, warehouse: str) -> tuple[str, str]:
    """Returns namespace and name of `lake.<feed>.<table>` by location, as OpenLineage's Spark listener does.

    Source: OpenLineage's naming of datasets on a local file system and in object stores.
    """
    root = urlsplit(warehouse)
    path = "/".join((root.path.rstrip("/"), *table.split(".")[1:]))
    if root.scheme in {"", "file"}:
        return "file", path
    return f"{root.scheme}://{root.netloc}", path.removeprefix("/")
