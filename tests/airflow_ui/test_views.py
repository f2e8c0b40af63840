"""The views of feeds: content, permissions, and actions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pyarrow as pa
import pytest

from changeledger.airflow_ui import actions, quarantine_views, release_views
from changeledger.airflow_ui.app import app
from changeledger.config.settings import Settings
from changeledger.control import AskedReset
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog
from changeledger.model import change
from changeledger.model.source_state import SourceState
from changeledger.model.table_names import FeedTables
from changeledger.model.window import Request, Window
from sourcelab.filled_store import FilledFeed, fill
from tests.airflow_ui.pages import SAME_ORIGIN, Installation
from tests.released import release

EVIL = "<script>alert(1)</script>"
BASE = "/changeledger/feeds/shop"
T0, T1 = datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 1, 31, 1, tzinfo=UTC)


@pytest.fixture
def shop(ledger: Installation) -> Installation:
    """A feed whose last window an audit has stopped."""
    fill_in(ledger, FilledFeed("shop", trouble="audit", windows=6, quarantined=2))
    return ledger


def fill_in(ledger: Installation, *feeds: FilledFeed) -> None:
    fill(Settings().control_url, ledger.folder, feeds)
    names = {feed.name for feed in feeds}
    ledger.user.sees = ledger.user.triggers = names


def quarantined(
    feed: str, *values: bytes, dialect_source: str = "t", tables: Sequence[str | None] = ()
) -> None:
    """Writes records to the lake's quarantine, as publish leaves them, each with its table or None."""
    schema = table_schema(change.QUARANTINE_COLUMNS)
    rows = [
        {
            "window_id": "w1", "table": tables[at] if tables else None, "reason": "not_json",
            "detail": EVIL, "raw_key": b"k",
            "source_position": {"source": dialect_source, "partition": 0, "offset": at, "row": None},
            "raw_value": value, "raw_headers": [],
        }
        for at, value in enumerate(values)
    ]  # fmt: skip
    catalog.create_namespace(feed)
    name = FeedTables.of(feed).quarantine
    table = catalog._catalog().create_table(tuple(name.split(".")[1:]), schema)
    table.append(pa.Table.from_pylist(rows, schema))


def test_rows_of_a_change_table_that_are_not_read_wait(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", windows=2))
    end = "20261129050426500000000000000001072"
    for read, says, silent in (
        (f"{end[:-4]}0971", "rows wait", "nothing waits"),
        (end, "nothing waits", "rows wait"),
    ):
        ledger.control.sources.save_states("shop", [SourceState("dbo.parts__ct", read, end, T1)])
        for path in ("/changeledger/", BASE):
            page = ledger.client.get(path).text
            assert says in page, path
            assert silent not in page, path
            assert (f"<br>of {end}" in page) is (read != end), path


def test_records_of_no_table_are_apart_from_those_of_tables(ledger: Installation) -> None:
    """A link leads to as many records as the number beside it."""
    fill_in(ledger, FilledFeed("shop", windows=2))
    quarantined("shop", b"nowhere", b"somewhere", b"elsewhere", tables=(None, "dbo.t", "dbo.t"))
    for path in (BASE, f"{BASE}/quarantine"):
        links = re.findall(r'href="([^"]+reason=not_json[^"]*)"', ledger.client.get(path).text)
        assert len(links) == 2
        of_tables, of_none = (ledger.client.get(unescape(link)).text for link in links)
        assert [value in of_none for value in ("nowhere", "somewhere", "elsewhere")] == [True, False, False]
        assert [value in of_tables for value in ("nowhere", "somewhere", "elsewhere")] == [False, True, True]
        assert of_none.count('aria-current="page"') == of_tables.count('aria-current="page"')
    assert ledger.client.get(f"{BASE}/quarantine?reason=not_json").text.count('class="record"') == 3


def test_a_table_that_is_not_listed_any_more_has_its_page(ledger: Installation) -> None:
    """The table's name is part of other tables' names."""
    fill_in(ledger, FilledFeed("shop", tables=("dbo.orders", "dbo.orders_2"), windows=2))
    ledger.add_feed("shop", "dbo.orders_2")
    assert f'href="{BASE}/tables/dbo.orders"' in ledger.client.get(BASE).text
    assert "no longer lists this table" in ledger.client.get(f"{BASE}/tables/dbo.orders").text


def test_a_failed_feed_says_why_with_the_way_to_its_window(shop: Installation) -> None:
    text = shop.client.get("/changeledger/").text
    assert "The audit has stopped a window: order_strict of dbo.customers is violated by 3 rows." in text
    assert f'href="{BASE}/windows/' in text


def test_every_view_answers(shop: Installation) -> None:
    window = shop.control.windows.last("shop")
    assert window is not None
    for path in ("", f"/windows/{window.window_id}", "/tables/dbo.customers", "/quarantine", "/releases"):
        answer = shop.client.get(BASE + path)
        assert answer.status_code == 200, path
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    page = shop.client.get(f"{BASE}/windows/{window.window_id}").text
    assert "order_strict" in page
    assert "Check whether the source has sent one position twice" in page
    assert "trigger the DAG with <code>Tolerate failed rules</code> set to errors" in page
    for path in ("/windows/..%2f..", "/windows/none", "/tables/none"):
        assert shop.client.get(BASE + path).status_code == 404


def test_who_may_not_see_the_dag_sees_nothing_of_the_feed(shop: Installation) -> None:
    shop.user.sees = shop.user.triggers = set()
    for path in ("", "/windows/w", "/tables/dbo.customers", "/quarantine", "/releases"):
        answer = shop.client.get(BASE + path)
        assert answer.status_code == 403, path
        assert "dbo.customers" not in answer.text
    assert "dbo.customers" not in shop.client.get("/changeledger/").text


def test_hostile_names_and_errors_stay_text(ledger: Installation) -> None:
    fill_in(
        ledger, FilledFeed("shop", tables=(f"dbo.{EVIL}", 'dbo."><img src=x>'), trouble="audit", windows=3)
    )
    window = ledger.control.windows.last("shop")
    assert window is not None
    ledger.control.failures.save(
        "shop", Window(start=window.start, end=window.end), "audit", f"{EVIL}\x1b[2J\n  Remedy: {EVIL}"
    )
    for path in ("/changeledger/", BASE, f"{BASE}/windows/{window.window_id}", f"{BASE}/releases"):
        text = ledger.client.get(path).text
        assert EVIL not in text
        assert "<img" not in text
        assert "\x1b" not in text
    assert "&lt;script&gt;" in text


def test_a_long_error_is_whole_where_it_is_dealt_with(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", windows=2))
    window = ledger.control.windows.last("shop")
    assert window is not None
    failed = Window(start=window.start, end=window.end)
    ledger.control.failures.save("shop", failed, "extract", "x" * 10_000)
    assert "x" * 301 not in ledger.client.get("/changeledger/").text
    assert "x" * 10_000 in ledger.client.get(f"{BASE}/windows/{failed.id}").text


def test_a_window_that_failed_before_it_was_stored_has_its_place(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", windows=2))
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    failed = Window(start=now, end=now + timedelta(hours=1))
    ledger.control.failures.save("shop", failed, "extract", "ConfigError: no connection")
    strip = f'<a href="{BASE}/windows/{failed.id}" class="bad"'
    assert strip in ledger.client.get("/changeledger/").text
    page = ledger.client.get(BASE).text
    assert f"{BASE}/windows/{failed.id}" in page
    assert "Every record could be read" in page, "of the windows before"
    page = ledger.client.get(f"{BASE}/windows/{failed.id}").text
    assert f"<h2>{now:%Y-%m-%d %H:%M} to" in page
    assert "It failed before it read anything" in page
    only = FilledFeed("first", windows=0)
    fill_in(ledger, only)
    ledger.control.failures.save("first", failed, "extract", "ConfigError: no connection")
    assert "No record has been read yet" in ledger.client.get("/changeledger/feeds/first").text


def test_quarantined_records_as_they_came_and_how_they_are_read_now(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", dialect="ces", tables=("dbo.t",), windows=2))
    quarantined("shop", f"{{{EVIL}".encode(), b"\xff\xfe")
    page = ledger.client.get(f"{BASE}/quarantine?reason=not_json").text
    assert "{&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert EVIL not in page
    assert "0xFFFE" in page
    assert page.count("still cannot be read") == 2
    assert "Every record could be read" not in ledger.client.get(BASE).text
    assert "No such record" in ledger.client.get(f"{BASE}/quarantine?reason=other").text


def test_redacted_values_are_on_no_page(ledger: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_in(ledger, FilledFeed("shop", dialect="ces", tables=("dbo.t",), windows=2))
    quarantined("shop", b"{salary: 99120")
    assert "99120" in ledger.client.get(f"{BASE}/quarantine").text
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", "true")
    page = ledger.client.get(f"{BASE}/quarantine").text
    assert "99120" not in page
    assert "***" in page


def test_a_thousand_tables_are_found_by_name(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", tables=tuple(f"dbo.t{n:04d}" for n in range(1000)), windows=1))
    whole = ledger.client.get(BASE).text
    assert whole.count(f"{BASE}/tables/") == 100
    assert "100 of 1,000" in whole
    wanted = ledger.client.get(f"{BASE}?tables=T0999").text
    assert wanted.count(f"{BASE}/tables/") == 1
    assert "1 of 1 with this text, 1,000 in all" in wanted
    assert "in 1,000 tables" in wanted, "as many as the rows beside it are of"
    assert "100 of 1,000<" in ledger.client.get(BASE).text


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Records what the pages ask of Airflow and the command. Airflow's log would need its database."""
    calls: list[Any] = []

    def trigger(feed: str, answers: Mapping[str, Any], by: str) -> str:
        calls.append((feed, dict(answers), by))
        return "manual__1+00:00"

    def roll_back(*arguments: Any) -> None:
        calls.append(arguments)

    monkeypatch.setattr(actions, "trigger", trigger)
    monkeypatch.setattr(actions, "roll_back", roll_back)
    for views in (quarantine_views, release_views):
        monkeypatch.setitem(app.dependency_overrides, views.LOGGED, lambda: None)
    return calls


def test_replay_triggers_the_feeds_dag_as_its_form_does(shop: Installation, asked: list[Any]) -> None:
    answer = shop.client.post(f"{BASE}/replay", data={"table": ["dbo.customers"]}, headers=SAME_ORIGIN)
    assert asked == [("shop", {"mode": "replay", "tables": ["dbo.customers"]}, "ann")]
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/changeledger/dags/shop/runs/manual__1%2B00%3A00"
    assert shop.client.post(f"{BASE}/replay", data={"table": "dbo.x"}, headers=SAME_ORIGIN).status_code == 409


def test_a_release_is_taken_back_with_a_reason_by_airflows_user(shop: Installation, asked: list[Any]) -> None:
    place = f"{BASE}/releases/2/main"
    assert shop.client.post(place, data={"reason": " "}, headers=SAME_ORIGIN).status_code == 422
    answer = shop.client.post(place, data={"reason": "--by=eve", "by": "eve"}, headers=SAME_ORIGIN)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{BASE}/releases")
    assert asked == [("shop", 2, "--by=eve", "ann", False)]


@pytest.mark.parametrize("path", ["/replay", "/releases/2/main"])
def test_nothing_changes_without_permission_or_from_elsewhere(
    shop: Installation, asked: list[Any], path: str
) -> None:
    form = {"reason": "why"}
    elsewhere = (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil"},
        {},
    )
    for headers in elsewhere:
        assert shop.client.post(BASE + path, data=form, headers=headers).status_code == 403
    assert shop.client.get(BASE + path).status_code in {404, 405}
    shop.user.triggers = set()
    assert shop.client.post(BASE + path, data=form, headers=SAME_ORIGIN).status_code == 403
    assert asked == []
    assert "<button" not in shop.client.get(f"{BASE}/releases").text


def test_releases_with_counts_against_the_one_before_and_who_took_back(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", trouble="taken back", windows=8))
    text = ledger.client.get(f"{BASE}/releases").text
    assert "by ann: a load of test rows was published" in text
    assert text.count(">taken back<") == 2
    assert text.count("Go forward to this release") == 2
    # There is no button for the release that main already is.
    newest = ledger.control.releases.latest("shop")
    assert newest is not None
    assert f"Make release {newest.rolled_back_to} main" not in text


def test_a_reset_says_since_when_by_whom_why_and_how_far(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", dialect="ces", tables=("dbo.t",), trouble="reset", windows=4))
    quarantined("shop", b"{")
    (reset,) = ledger.control.resets.of_feed("shop")
    since = f"{reset.asked_at:%Y-%m-%d %H:%M}"
    says = "asked by ann", "decimals were decoded wrongly until 0.2.1"
    far = "extract, normalize done, reconcile runs"
    for path in ("/changeledger/", BASE, f"{BASE}/releases"):
        text = ledger.client.get(path).text
        for part in (since, *says, far):
            assert part in text, (path, part)
    # A replay would be refused.
    for path in (BASE, f"{BASE}/quarantine"):
        text = ledger.client.get(path).text
        assert "Replay now" not in text
        assert "They can be replayed when the" in text


def test_resets_that_are_over_stay_with_the_releases(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("shop", windows=4))
    control = ledger.control
    control.resets.ask("shop", AskedReset("wrong <decimals>", "ann"))
    assert "no run has begun yet" in ledger.client.get(BASE).text
    control.resets.withdraw("shop", "bob", "they were right")
    text = ledger.client.get(f"{BASE}/releases").text
    assert "Asked by ann" in text
    assert "Withdrawn by bob" in text
    assert "they were right" in text
    assert "no run has begun yet" not in ledger.client.get(BASE).text
    control.resets.ask("shop", AskedReset("wrong <decimals>", "ann", accept_gap=True))
    newest = release(control, "shop", [], Window(start=T0, end=T1), {}, {"records": 1}, {"lsn": "0" * 20})
    text = ledger.client.get(f"{BASE}/releases").text
    _, _, after = text.partition(f'id="r{newest}"')
    assert "All tables were loaded again" in after.partition("</article>")[0]
    assert "wrong &lt;decimals&gt; <span" in text


def test_tabs_of_airflow_lead_to_the_right_place(ledger: Installation) -> None:
    ledger.add_feed("shop")
    ledger.user.sees = {"shop", "compare_shop", "other"}
    start = datetime(2026, 1, 31, tzinfo=UTC)
    window = Window(start=start, end=start.replace(hour=1), request=Request(run="manual__1"))
    ledger.control.windows.open("shop", window, None, {})
    places = {
        "shop": "/changeledger/feeds/shop",
        "compare_shop": "/changeledger/agreement/shop",
        "shop/runs/manual__1": f"/changeledger/feeds/shop/windows/{window.id}",
        "shop/runs/manual__1/tasks/audit": f"/changeledger/feeds/shop/windows/{window.id}",
        "shop/runs/manual__2": "/changeledger/feeds/shop?run=manual__2",
    }
    for path, place in places.items():
        answer = ledger.client.get(f"/changeledger/dags/{path}")
        assert (answer.status_code, answer.headers["Location"]) == (307, place)
    assert ledger.client.get("/changeledger/dags/other").status_code == 404


@pytest.mark.parametrize("section", ["agreement", "cutover"])
def test_the_only_database_needs_no_list(ledger: Installation, section: str) -> None:
    fill_in(ledger, FilledFeed("a", windows=2, database="seen"), FilledFeed("z", windows=2, database="seen"))
    answer = ledger.client.get(f"/changeledger/{section}")
    assert (answer.status_code, answer.headers["Location"]) == (307, f"/changeledger/{section}/seen")
    assert ledger.client.get(f"/changeledger/{section}/seen").status_code == 200
    ledger.add_feed("other", database="other")
    assert ledger.client.get(f"/changeledger/{section}").text.count("<li>") == 2


def test_cutover_begins_with_the_primary_feed_and_another_one(ledger: Installation) -> None:
    fill_in(ledger, FilledFeed("a", windows=2, database="seen"))
    ledger.add_feed("z", database="seen", primary=True)
    text = ledger.client.get("/changeledger/cutover/seen").text
    assert "Choose the feed of the capture tool in use" in text
    old, new = text.split("successor <select", 1)
    assert "<option selected>z" in old
    assert "<option selected>a" in new


def test_nothing_has_run_and_nothing_is_made(ledger: Installation) -> None:
    ledger.add_feed("shop")
    assert "Not run yet" in ledger.client.get("/changeledger/").text
    answer = ledger.client.get(BASE)
    assert answer.status_code == 404
    assert "Nothing to show yet" in answer.text
    assert not (Settings().home / "control.db").exists()
