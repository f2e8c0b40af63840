"""A row's life, read with pyiceberg from a real ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from changeledger.control import ControlStore
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.model.publishing import PublishRule
from changeledger.model.window import Window
from changeledger.state.beside import beside
from changeledger.state.cells import image_cells
from changeledger.state.life import RowLife, life, placed
from changeledger.state.search import search
from tests.released import DAY
from tests.state.tables import CUSTOMERS, HOSTILE, life_of_one, publish, row

FEED, TABLE = "shop_cdc", "dbo.customers"


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def hour(number: int) -> datetime:
    return datetime(2026, 1, 31, number, tzinfo=UTC)


ANN, BOB = ({"id": at, "name": name, "photo": b"\1"} for at, name in ((1, "ann"), (2, "bob")))
AT_ONCE = {"transaction_id": "T", "committed_at": hour(3)}


def customer_of(control: ControlStore, key: str = "1") -> RowLife:
    return life(placed(control, FEED, TABLE), {"id": key})


def test_every_change_in_order_with_what_it_knows(control: ControlStore) -> None:
    publish(control, FEED)
    customer = life(placed(control, FEED, "DBO.customers"), {"ID": "1"})
    assert [version.change_id for version in customer.changes] == [
        "change-1",
        "change-2",
        "change-3",
        "change-4",
    ]
    update = customer.changes[1]
    name, photo = update.cells[1:]
    assert (name.before.text, name.after.text, name.named, name.changes) == ("ann", HOSTILE, True, True)
    assert (photo.before.text, photo.after.kind, photo.named, photo.changes) == (
        "0x01",
        "not_captured",
        False,
        False,
    )
    assert (update.release, update.record, update.position.commit_lsn) == (1, "t[0] 2", f"{2:020X}")
    assert customer.changes[2].moved_to == {"id": "7"}
    assert customer.changes[3].moved_from == {"id": "7"}


def test_as_of_a_time(control: ControlStore) -> None:
    publish(control, FEED)
    customer = customer_of(control)
    assert not customer.at(hour(0)).is_alive
    # A cell that is unknown in the change keeps its value.
    assert {name: cell.text for name, cell in customer.at(hour(2)).cells.items()} == {
        "id": "1", "name": HOSTILE, "photo": "0x01",
    }  # fmt: skip
    assert not customer.at(hour(3)).is_alive
    assert customer.at().cells["name"].text == "ann"


def test_of_two_rows_that_exchange_their_keys_the_covered_one_leaves_first(control: ControlStore) -> None:
    """As in history: Qlik writes a swap as two updates of one transaction (ADR 0016)."""
    rows = [
        row(1, "insert", 1, after=ANN),
        row(2, "insert", 2, after=BOB),
        row(3, "update", 2, previous_key={"id": 1}, before=ANN, after={**ANN, "id": 2}, **AT_ONCE),
        row(4, "update", 1, previous_key={"id": 2}, before=BOB, after={**BOB, "id": 1}, **AT_ONCE),
    ]
    publish(control, FEED, rows)
    names = {
        key: [customer_of(control, key).at(moment).cells["name"].text
              for moment in (hour(2), hour(3), None)]
        for key in "12"
    }  # fmt: skip
    assert names == {"1": ["ann", "bob", "bob"], "2": ["bob", "ann", "ann"]}


@pytest.mark.parametrize("leaves", [True, False], ids=["left", "lost"])
def test_a_row_that_comes_takes_nothing_from_the_row_that_it_covers(
    control: ControlStore, *, leaves: bool
) -> None:
    """As in history, the covered row has left before, even if its end was lost."""
    swap = {**AT_ONCE, "after_unknown_columns": [("photo", "unavailable")]}
    rows = [
        row(2, "insert", 2, after=BOB),
        row(
            3, "update", 2, previous_key={"id": 1}, before=ANN, after={**ANN, "id": 2, "photo": None}, **swap
        ),
        row(
            4, "update", 1, previous_key={"id": 2}, before=BOB, after={**BOB, "id": 1, "photo": None}, **swap
        ),
    ]
    publish(control, FEED, rows if leaves else rows[:2])
    cells = customer_of(control, "2").at().cells
    assert (cells["name"].text, cells["photo"].kind) == ("ann", "unavailable")


def test_a_row_passes_through_a_key_whose_row_has_gone_unseen(control: ControlStore) -> None:
    """As in history: by its image, the row that leaves is the one that came."""
    come, gone = {**ANN, "id": 2}, {**ANN, "id": 5}
    rows = [
        row(2, "insert", 2, after=BOB),
        row(3, "update", 2, previous_key={"id": 1}, before=ANN, after=come, **AT_ONCE),
        row(4, "update", 5, previous_key={"id": 2}, before=come, after=gone, **AT_ONCE),
    ]
    publish(control, FEED, rows)
    assert not customer_of(control, "2").at().is_alive


def test_a_row_is_deleted_behind_the_insert_that_takes_its_key(control: ControlStore) -> None:
    """As in history: an update written as insert and delete, in this reversed order."""
    rows = [
        row(1, "insert", 1, after=ANN),
        row(2, "insert", 1, after={**ANN, "name": "bob"}, **AT_ONCE),
        row(3, "delete", 1, before=ANN, **AT_ONCE),
    ]
    publish(control, FEED, rows)
    customer = customer_of(control)
    assert [customer.at(moment).cells["name"].text for moment in (hour(2), None)] == ["ann", "bob"]


@pytest.mark.parametrize("was_seen", [True, False], ids=["seen", "unseen"])
@pytest.mark.parametrize("name", ["ann", "bob"])
def test_a_delete_ends_the_row_that_was_there(control: ControlStore, name: str, *, was_seen: bool) -> None:
    """As in history, a delete ends the row that the key held, even if it shows both rows alike.

    If nothing was known of the key, it ends the inserted row only if it shows that row.
    """
    rows = [
        row(1, "insert", 1, after=ANN),
        row(2, "insert", 1, after={**ANN, "name": name}, **AT_ONCE),
        row(3, "delete", 1, before=ANN, **AT_ONCE),
    ]
    publish(control, FEED, rows if was_seen else rows[1:])
    customer = customer_of(control).at()
    assert customer.is_alive is (was_seen or name == "bob")
    assert not customer.is_alive or customer.cells["name"].text == name


@pytest.mark.parametrize("is_shown", [True, False], ids=["whole", "by its key alone"])
def test_a_row_is_deleted_behind_the_one_that_moves_to_its_key(
    control: ControlStore, *, is_shown: bool
) -> None:
    """As in history, for a MERGE. A delete of which only the key is known ends the row that came."""
    gap = [("name", "unavailable"), ("photo", "unavailable")]
    rows = [
        row(1, "insert", 1, after=ANN),
        row(2, "insert", 2, after=BOB),
        row(3, "update", 1, previous_key={"id": 2}, before=BOB, after={**BOB, "id": 1}, **AT_ONCE),
        row(4, "delete", 1, before=ANN, before_unknown_columns=None if is_shown else gap, **AT_ONCE),
    ]
    publish(control, FEED, rows)
    assert customer_of(control).at().is_alive is is_shown


@pytest.mark.parametrize("shows_again", ["snapshot", "insert"])
def test_as_of_a_time_a_row_is_as_in_the_published_tables(control: ControlStore, shows_again: str) -> None:
    """A snapshot row, or an insert of an existing row, keeps cells that it does not know.

    Positions decide the order, though the server's clock was put back an hour.
    """
    gap = {"after_unknown_columns": [("photo", "unavailable")]}
    rows = [
        row(1, "insert", 1, after=ANN),
        row(2, shows_again, 1, after={**ANN, "name": "bob", "photo": None}, **gap),
        row(4, "update", 1, before=ANN, after={**ANN, "name": "cid"}, committed_at=hour(5)),
        row(5, "update", 1, before=ANN, after={**ANN, "name": "dan"}, committed_at=hour(4)),
    ]
    publish(control, FEED, rows)
    customer = customer_of(control)
    at_two, at_four, now = (customer.at(moment).cells for moment in (hour(2), hour(4), None))
    assert (at_two["name"].text, at_two["photo"].text) == ("bob", "0x01")
    assert (at_four["name"].text, now["name"].text) == ("bob", "dan")


def test_a_full_load_that_comes_again_makes_no_change_later(control: ControlStore) -> None:
    """The loaded row precedes all changes, and was delivered after them. As in history (`begin_times`)."""
    loaded = {"flags": ["position_unknown"], "commit_lsn": None}
    rows = [
        row(1, "snapshot", 1, after={**ANN, "name": "eve"}, committed_at=hour(9), **loaded),
        row(2, "update", 1, before=ANN, after=ANN),
        row(4, "update", 1, before=ANN, after={**ANN, "name": "bob"}),
        row(5, "snapshot", 1, after={**ANN, "name": "cid"}, committed_at=hour(8)),
    ]
    publish(control, FEED, rows)
    customer = customer_of(control)
    assert not customer.at(hour(1)).is_alive
    assert [customer.at(hour(at)).cells["name"].text for at in (2, 4, 7, 8)] == ["ann", "bob", "bob", "cid"]


def test_a_truncate_ends_each_row(control: ControlStore) -> None:
    rows = [*life_of_one(), {**row(6, "truncate", 0), "key": None}]
    publish(control, FEED, rows)
    assert not customer_of(control, "2").at().is_alive


def test_what_disagrees_and_what_is_missing(control: ControlStore) -> None:
    publish(control, FEED)
    rows = [ledger_row for ledger_row in life_of_one() if ledger_row["change_id"] != "change-2"]
    rows[-2] = {**rows[-2], "after": {"id": 1, "name": "bob", "photo": b"\1"}}
    publish(control, "shop_ces", rows)
    customer = customer_of(control)
    comparison = beside(control, customer, ["shop_ces", "shop_none"])
    assert [column.column for column in comparison.columns if column.disagrees] == ["name"]
    assert comparison.missing_at(customer.changes[1].position.commit_lsn) == ["shop_ces"]
    assert comparison.missing_at(customer.changes[0].position.commit_lsn) == []
    assert "no table" in comparison.problems["shop_none"]


def complete(control: ControlStore, *feeds: str) -> None:
    """Every table of their newest release is moved."""
    for feed in feeds:
        release = control.releases.latest(feed)
        assert release is not None
        control.releases.complete(feed, release.id)


@pytest.mark.parametrize(("end", "is_behind"), [(2, True), (3, False)])
def test_a_feed_that_is_not_read_so_far_does_not_disagree(
    control: ControlStore, end: int, is_behind: bool
) -> None:
    publish(control, FEED)
    publish(control, "shop_ces", life_of_one()[:1], Window(start=hour(0), end=hour(end)))
    complete(control, FEED, "shop_ces")
    customer = customer_of(control)
    of_two = beside(control, customer, ["shop_ces"], hour(2))
    assert of_two.behind == ({"shop_ces": hour(end)} if is_behind else {})
    assert [column.column for column in of_two.columns if column.disagrees] == ([] if is_behind else ["name"])


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_table_that_a_release_has_not_moved_yet_does_not_disagree(
    control: ControlStore, *, is_moved: bool
) -> None:
    """The window is released at the commit point, and the tables show it later (ADR 0003)."""
    publish(control, FEED)
    publish(control, "shop_ces", life_of_one()[:1])
    complete(control, FEED, *(["shop_ces"] if is_moved else []))
    customer = customer_of(control)
    of_two = beside(control, customer, ["shop_ces"], hour(2))
    assert of_two.behind == ({} if is_moved else {"shop_ces": DAY.start})
    assert [column.column for column in of_two.columns if column.disagrees] == (["name"] if is_moved else [])


def test_rows_by_a_value(control: ControlStore) -> None:
    publish(control, FEED)
    place = placed(control, FEED, TABLE)
    assert [key["id"] for key in search(place, "ann").keys] == ["1", "2"]
    assert search(place, "nobody").keys == []
    assert not search(place, "ann", seconds=-1).is_whole


@pytest.mark.parametrize(
    ("key", "error"),
    [({}, "named was nothing"), ({"id": "x"}, "not of that type"), ({"name": "ann"}, "named was name")],
)
def test_a_key_is_named_whole_and_typed(control: ControlStore, key: dict[str, str], error: str) -> None:
    publish(control, FEED)
    with pytest.raises(ConfigError, match=error):
        life(placed(control, FEED, TABLE), key)


def test_a_row_by_a_key_that_is_published_otherwise(control: ControlStore) -> None:
    """The ledger has published names and values. Columns that are left out are not in it."""
    rules = {"id": PublishRule(hash=True, rename="person"), "photo": PublishRule(drop=True)}
    ann = {"person": "ab12", "name": "ann"}
    rows = [row(1, "insert", 1, after=ann) | {"key": {"person": "ab12"}}]
    publish(control, FEED, rows, contract=CUSTOMERS.published_by(rules, "key"))
    place = placed(control, FEED, TABLE)
    (insert,) = life(place, {"person": "ab12"}).changes
    assert [(cell.column, cell.after.text) for cell in insert.cells] == [("person", "ab12"), ("name", "ann")]
    with pytest.raises(ConfigError, match="is person; named was id"):
        life(place, {"id": "1"})


def test_a_hash_does_not_disagree_with_what_another_feed_publishes_plain(control: ControlStore) -> None:
    rules = {"name": PublishRule(hash=True)}
    hashed = [row(1, "insert", 1, after={"id": 1, "name": "ab12"})]
    plain = [row(1, "insert", 1, after={"id": 1, "name": "ann"})]
    publish(control, FEED, hashed, contract=CUSTOMERS.published_by(rules, "key"))
    publish(control, "other", plain)
    seen = beside(control, customer_of(control), ["other"])
    assert [(column.column, column.disagrees) for column in seen.columns][:2] == [
        ("id", False),
        ("name", False),
    ]


def test_columns_that_only_another_feed_has_follow_in_its_order(control: ControlStore) -> None:
    more = (Column(name=name, type="int", ordinal=at) for at, name in ((4, "Zip"), (5, "area")))
    wider = CUSTOMERS.model_copy(update={"columns": (*CUSTOMERS.columns, *more)})
    publish(control, FEED)
    publish(control, "shop_ces", [row(1, "insert", 1, after={"id": 1, "Zip": 7})], contract=wider)
    seen = beside(control, customer_of(control), ["shop_ces"])
    assert [column.column for column in seen.columns] == [*CUSTOMERS.names, "Zip", "area"]


def test_a_real_is_shown_by_its_fewest_digits() -> None:
    """As SQL Server prints it. A float keeps all of its digits, although it may once have been a real."""
    kinds = (("r", "real"), ("f", "float"))
    columns = tuple(Column(name=name, type=kind, ordinal=at) for at, (name, kind) in enumerate(kinds, 1))
    image = dict.fromkeys(("r", "f"), float(np.float32(0.1)))
    cells = image_cells(image, None, Contract(table="dbo.t", columns=columns))
    assert [cell.text for cell in cells.values()] == ["0.1", "0.10000000149011612"]
