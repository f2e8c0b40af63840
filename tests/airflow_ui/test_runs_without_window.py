"""The tab Ledger of an Airflow run that has no window yet, or will never have one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from changeledger.airflow_ui.airflow_runs import RunState
from changeledger.model.window import Request, Window
from tests.airflow_ui.pages import Installation

START = datetime(2026, 1, 31, tzinfo=UTC)
RUN = "manual__2"
PAGE = f"/changeledger/feeds/shop?run={RUN}"
WAITS, PAUSED = "is in Airflow, but it has read nothing yet", "The DAG is paused"
LOG = f'href="/dags/shop/runs/{RUN}/tasks/extract"'


def shown(ledger: Installation, state: str, *, is_paused: bool = False) -> str:
    ledger.add_feed("shop")
    window = Window(start=START, end=START + timedelta(hours=1), request=Request(run="manual__1"))
    ledger.control.windows.open("shop", window, None, {})
    ledger.airflow_runs[RUN] = RunState(RUN, state, is_paused)
    return ledger.client.get(PAGE).text


def test_a_run_that_is_to_begin(ledger: Installation) -> None:
    text = shown(ledger, "queued")
    assert WAITS in text
    assert "Look again" in text
    assert PAUSED not in text
    assert WAITS not in ledger.client.get("/changeledger/feeds/shop?run=manual__1").text


def test_a_run_of_a_paused_dag_waits_for_a_person(ledger: Installation) -> None:
    assert PAUSED in shown(ledger, "queued", is_paused=True)


def test_a_run_that_has_failed_gets_no_window(ledger: Installation) -> None:
    """For example, a run whose form had wrong values."""
    text = shown(ledger, "failed")
    assert "has failed, and it has no window of its own" in text
    assert LOG in text
    assert WAITS not in text
    assert "Look again" not in text


def test_a_run_of_what_another_one_has_released(ledger: Installation) -> None:
    text = shown(ledger, "success")
    assert "has succeeded, but it has no window of its own" in text
    assert LOG in text
    assert "Look again" not in text


def test_a_run_that_airflow_does_not_have(ledger: Installation) -> None:
    ledger.add_feed("shop")
    window = Window(start=START, end=START + timedelta(hours=1))
    ledger.control.windows.open("shop", window, None, {})
    text = ledger.client.get("/changeledger/feeds/shop?run=%3Cb%3E").text
    assert "Airflow has no run &lt;b&gt; of this feed" in text
