"""The form that Airflow shows when somebody triggers a feed's DAG, and the request that its answers make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param
from pydantic import ValidationError

from changeledger.config.feed import Feed
from changeledger.model.errors import ConfigError
from changeledger.model.window import Request

_MODES = {
    "incremental": "incremental: what is new since the last release",
    "window": "window: from start to end",
    "replay": "replay: quarantined records, after a fix",
    "repair": "repair: the corrections that the last verification has planned",
}
_TOLERATE = {"nothing": "nothing: a failed rule stops the run", "error": "errors, with the reason below"}


def params(feed: Feed) -> dict[str, Param]:
    """Returns the form's fields. Airflow checks types and choices, `request` whether they fit together."""
    return {
        "mode": Param(
            "incremental",
            type="string",
            title="Mode",
            enum=list(_MODES),
            values_display=_MODES,
            description="A schedule or backfill is incremental over its data interval; a run by hand "
            "reads up to now.",
        ),
        "start": _moment("Start", "Only with the mode window."),
        "end": _moment("End", "Only with the mode window. Not included; not in the future."),
        "tables": _tables([t.table for t in feed.tables]),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description=("Run everything except publish; the branch is kept."),
        ),
        "tolerate": Param(
            "nothing",
            type="string",
            title="Tolerate failed rules",
            enum=list(_TOLERATE),
            values_display=_TOLERATE,
            description="Critical rules always stop the run: records or changes would be lost.",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            title="Reason",
            description=(
                "Why failed rules may be tolerated. It is kept with the release, and shown on the page "
                "Ledger."
            ),
        ),
    }


def _tables(names: list[str]) -> Param:
    return Param(
        None,
        type=["null", "array"],
        title="Tables",
        items={"type": "string", "enum": names},
        examples=names,
        uniqueItems=True,
        description=(
            "Empty: all tables. With the mode window: read these tables again, over a window that is "
            "released. With replay or repair: the quarantined records, or the drift, of these tables."
        ),
    )


def _moment(title: str, description: str) -> Param:
    return Param(None, title=title, description=description, type=["null", "string"], format="date-time")


def request(answers: Mapping[str, Any], feed: Feed, run_id: str) -> Request:
    """Returns the request. Raises ConfigError if the answers do not fit together or a table is unknown."""
    mode = answers.get("mode", "incremental")
    # In JSON an empty field may also be an empty text.
    times = [name for name in ("start", "end") if answers.get(name)]
    if mode == "window" and len(times) < 2:
        raise ConfigError("the mode `window` needs both `start` and `end`", "trigger the DAG with both")
    if mode != "window" and times:
        raise ConfigError(
            f"`{times[0]}` was given with the mode `{mode}`, which does not accept it",
            "choose the mode `window`, or leave start and end empty",
        )
    try:
        asked = Request(
            mode=mode,
            tables=tuple(sorted(answers.get("tables") or ())),
            dry_run=answers.get("dry_run", False),
            tolerate=answers.get("tolerate", "nothing"),
            reason=answers.get("reason") or "",
            run=run_id,
        )
    except ValidationError as error:
        said = "; ".join(detail["msg"].removeprefix("Value error, ") for detail in error.errors())
        raise ConfigError(said, "trigger the DAG again") from None
    feed.only(asked.tables)
    return asked
