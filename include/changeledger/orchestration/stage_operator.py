"""The Airflow operator of one stage of a feed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from changeledger.config import Settings
from changeledger.orchestration import lineage
from changeledger.orchestration.job_operator import JobOperator
from changeledger.orchestration.links import DataDocsLink
from changeledger.window import Request, Window

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


class StageOperator(JobOperator):
    """Runs a stage for one feed and window; `start`, `end` and `request` are templates."""

    def __init__(self, *, stage: str, feed: str, start: str, end: str, request: str, **kwargs: Any) -> None:
        super().__init__(
            job=stage,
            arguments=["--feed", feed, "--start", start, "--end", end, "--request", request],
            name=f"changeledger-{feed}-{stage}",
            **kwargs,
        )
        if stage == "audit":
            self.operator_extra_links = (DataDocsLink(),)
        self.stage = stage
        self.feed = feed

    @property
    def window(self) -> Window:
        """Of the run, once Airflow has rendered the arguments."""
        arguments = [str(argument) for argument in self.application_args or []]
        told = dict(zip(arguments[::2], arguments[1::2], strict=True))
        request = Request.model_validate_json(told["--request"])
        start, end = (datetime.fromisoformat(told[name]) for name in ("--start", "--end"))
        return Window(start=start, end=end, request=request)

    def execute(self, context: Context) -> None:
        if self.stage == "publish" and context["params"].get("dry_run"):
            raise AirflowSkipException("a dry run: what it would publish is on the window's branch")
        try:
            super().execute(context)
        except DownstreamTasksSkipped:
            self._tell_assets(context)
            raise
        self._tell_assets(context)

    def get_openlineage_facets_on_complete(self, _: object) -> OperatorLineage:
        """OpenLineage's provider asks for it by this name."""
        tables = [t for a in self.outlets for t in (a.name, a.extra["history"], a.extra["changes"])]
        return lineage.written(tables, Settings().warehouse)

    def _tell_assets(self, context: Context) -> None:
        """Release, window and counts with the event of each published table."""
        if not self.outlets:
            return
        from changeledger.storage.control import ControlStore  # noqa: PLC0415 - DAG files are parsed often

        window = self.window
        release = ControlStore(Settings().control_url).release(self.feed, window)
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
