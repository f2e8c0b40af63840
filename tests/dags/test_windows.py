"""The window and the request of a run, for every way in which Airflow starts one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict, ParamValidationError

from changeledger.config.files import load_feeds
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.model.window import Request, Window
from changeledger.orchestration import form
from changeledger.orchestration.windows import resolve_window

FEED = load_feeds(Settings().feeds)["shop_cdc"]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LAST_HOUR = (NOON - HOUR, NOON)
RUN = "manual__1"
WEEK = {"mode": "window", "start": "2026-01-01T00:00:00+02:00", "end": "2026-01-08"}


def started(run_type: str, interval: Any = (None, None), run_after: datetime = NOON) -> Any:
    return SimpleNamespace(
        run_id=RUN,
        run_type=run_type,
        data_interval_start=interval[0],
        data_interval_end=interval[1],
        run_after=run_after,
    )


def window(params: dict[str, Any], run: Any) -> Window:
    return resolve_window(FEED, params, run)


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_a_schedule_and_a_backfill_have_their_interval(run_type: str) -> None:
    over = window({}, started(run_type, LAST_HOUR, NOON + HOUR))
    assert (over.start, over.end) == LAST_HOUR
    assert over.request == Request(run=RUN)


@pytest.mark.parametrize("run_type", ["manual", "asset_triggered"])
@pytest.mark.parametrize(
    ("run_after", "start"),
    [(NOON + timedelta(minutes=20), NOON), (NOON, NOON - HOUR)],
    ids=["between", "on the hour"],
)
def test_by_hand_and_by_an_asset_up_to_now(run_type: str, run_after: datetime, start: datetime) -> None:
    """For a manual run, Airflow invents the last full interval, which the schedule has already covered."""
    over = window({}, started(run_type, LAST_HOUR, run_after))
    assert (over.start, over.end) == (start, run_after)


def test_times_that_are_empty_texts_are_not_given() -> None:
    assert window({"start": "", "end": ""}, started("manual")) == window({}, started("manual"))


def test_the_mode_window_has_its_own_times() -> None:
    over = window(WEEK, started("manual", LAST_HOUR))
    assert over.start == datetime(2025, 12, 31, 22, tzinfo=UTC)
    assert over.end == datetime(2026, 1, 8, tzinfo=UTC)
    assert over.id == "20251231T220000000000Z_20260108T000000000000Z"


def test_the_answers_reach_the_request() -> None:
    answers = {**WEEK, "tables": ["sales.orders", "dbo.parts"], "dry_run": True, "tolerate": "error"}
    request = window({**answers, "reason": "known fault of the source"}, started("manual")).request
    assert request == Request(
        mode="window",
        tables=("dbo.parts", "sales.orders"),
        dry_run=True,
        tolerate="error",
        reason="known fault of the source",
        run=RUN,
    )
    assert Request.model_validate_json(request.argument()) == request


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "window", "start": "2026-01-01T00:00:00Z"}, "needs both `start` and `end`"),
        ({"mode": "window"}, "needs both `start` and `end`"),
        ({**WEEK, "start": ""}, "needs both `start` and `end`"),
        ({"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}, "choose the mode `window`"),
        ({"mode": "replay", "end": "2026-01-02T00:00:00Z"}, "choose the mode `window`"),
        ({**WEEK, "end": WEEK["start"]}, "empty or reversed"),
        ({**WEEK, "end": "2025-01-01T00:00:00Z"}, "`start` before `end`"),
        ({**WEEK, "end": "2026-01-31T12:00:01Z"}, "in the future"),
        ({**WEEK, "start": "yesterday"}, "yesterday.*write for example"),
        ({**WEEK, "start": "0001-01-01T00:00+10:00"}, "0001.*write for example"),
        ({"tables": ["dbo.parts"]}, "accounts for the records of all tables"),
        ({**WEEK, "tables": ["dbo.nothing"]}, "has no table dbo.nothing.*choose from dbo.customers"),
        ({"mode": "replay", "dry_run": True}, "no dry run"),
        ({"mode": "repair", "start": "2026-01-01T00:00:00Z"}, "choose the mode `window`"),
        ({"tolerate": "error"}, "needs a `reason`"),
        ({"tolerate": "error", "reason": "  "}, "needs a `reason`"),
        ({"reason": "because"}, "leave the reason empty"),
    ],
)
def test_what_does_not_fit_together_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        window(params, started("manual"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "everything"},
        {"tables": ["dbo.nothing"]},
        {"tables": ["dbo.parts", "dbo.parts"]},
        {"tolerate": "critical"},
        {"dry_run": "perhaps"},
    ],
    ids=str,
)
def test_airflow_refuses_other_answers_before_it_makes_a_run(wrong: dict[str, Any]) -> None:
    asked = ParamsDict({**form.params(FEED)})  # type: ignore[arg-type]
    asked.validate()
    with pytest.raises(ParamValidationError):
        asked.update(wrong)


class TestWindowId:
    TIMES: Any = {"start": NOON - HOUR, "end": NOON}  # noqa: RUF012

    def id(self, **request: Any) -> str:
        return Window(**self.TIMES, request=Request(**request)).id

    def test_the_same_interval_is_the_same_window_whoever_asks(self) -> None:
        plain = Window(**self.TIMES).id
        assert self.id(run="scheduled__1") == plain
        assert self.id(run="manual__1", mode="window", dry_run=True) == plain
        assert self.id(run="manual__1", tolerate="error", reason="known") == plain

    def test_what_reads_again_is_a_window_of_its_own(self) -> None:
        again = {"mode": "window", "tables": ("dbo.parts",)}
        ids = [
            self.id(run="a"),
            self.id(run="a", **again),
            self.id(run="b", **again),
            self.id(run="a", mode="replay"),
            self.id(run="b", mode="replay"),
            self.id(run="a", mode="repair"),
            self.id(run="a", mode="repair", tables=("dbo.parts",)),
        ]
        assert len(set(ids)) == len(ids)
        assert self.id(run="a", **again) == ids[1], "of a retry, too"

    def test_two_runs_over_one_window_do_not_share_a_lease(self) -> None:
        first, second = (Window(**self.TIMES, request=Request(run=run)) for run in ("a", "b"))
        assert first.id == second.id
        assert first.holder != second.holder
