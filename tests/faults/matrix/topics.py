"""Faults of a broker and its topics. Each cell has its own topic, so it runs the first window itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import NewTopic

from changeledger.model.window import STAGES
from sourcelab import debezium
from sourcelab.log import simulate
from sourcelab.messages import Message, in_order
from tests.faults.matrix.base import Base, code, dumped
from tests.faults.matrix.cells import Cell
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.judge import BOOKS, differences
from tests.faults.matrix.lab import FEED, TABLE, WINDOWS, State
from tests.faults.matrix.operator import Defect, Operator, Stopped

TOPIC = "shop.shop.dbo.customers"
_SECONDS = 60


class _Next(NamedTuple):
    """How to go on after a fault: with these stages of a window. `unlike`: the tables that may differ."""

    window: int = 2
    unlike: tuple[str, ...] = ()
    stages: Sequence[str] = STAGES


def play(who: Operator, base: Base, cell: Cell) -> tuple[str, str]:
    """Releases the first window, then plays the fault and what goes on after it."""
    _set_up(who)
    wanted = _undisturbed(who)
    _begin(who)
    who.carry(1)
    try:
        last, unlike, stages = _ACTS[cell.fault](who)
        who.carry(last, stages)
    except Stopped as stopped:
        _same(who, wanted["1"])
        return "stopped", f"{stopped} (the published tables are as before; the remedy's new feed was not run)"
    _same(who, wanted[str(min(last, 3))], unlike)
    return "survived", ""


def _same(who: Operator, wanted: Mapping[str, Any], unlike: tuple[str, ...] = ()) -> None:
    actual = dumped(who.lab, who.place, who.folder, who.folder / "tables.json")
    wrong = differences(wanted, actual, unlike=unlike)
    if len(wanted["raw"]) != len(actual["raw"]):
        wrong.append(f"raw has {len(actual['raw'])} records of {len(wanted['raw'])}")
    if wrong:
        raise Defect(f"the tables are wrong: {'; '.join(wrong)}")


def _set_up(who: Operator) -> None:
    """Sets up the same feed in another dialect, from nothing."""
    _forget(who)
    feeds = who.lab.folder / "feeds_of_topics"
    feeds.mkdir(exist_ok=True)
    source = {"topics": [TOPIC]}
    reported = {
        "feed": FEED,
        "dialect": "debezium",
        "database": "shop",
        "connection": "shop",
        "source": source,
    }
    (feeds / f"{FEED}.yaml").write_text(json.dumps({**reported, "tables": [{"table": TABLE}]}))
    who.place = _place(who, who.state, who.lab.kafka.bootstrap)


def _place(who: Operator, state: State, bootstrap: str) -> Any:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
    feeds = str(who.lab.folder / "feeds_of_topics")
    return who.lab.place(state, AIRFLOW_CONN_SHOP=json.dumps(connection), CHANGELEDGER_FEEDS=feeds)


def _undisturbed(who: Operator) -> dict[str, Any]:
    """Returns the tables after each window, stored from the last time if the product has not changed."""
    file = who.lab.folder / f"topics-{code()}.json"
    if not file.exists():
        _begin(who)
        reported = {}
        state = State(who.lab.disk / "cells" / "undisturbed-topic")
        state.folder.mkdir(parents=True, exist_ok=True)
        undisturbed = Operator(who.lab, state, _place(who, state, who.lab.kafka.bootstrap), who.folder)
        for window in (1, 2, 3):
            undisturbed.carry(window)
            reported[str(window)] = dumped(who.lab, undisturbed.place, who.folder, who.folder / "tables.json")
        file.write_text(json.dumps(reported))
    tables: dict[str, Any] = json.loads(file.read_text())
    return tables


def messages(window: int) -> list[Message]:
    """Returns the table's messages whose time is in the window."""
    start, end = (moment.timestamp() * 1000 for moment in WINDOWS[window - 1])
    reported = debezium.messages(simulate(5, 24), schemas=True, snapshot=False, heartbeats=False)
    return [m for m in reported if m.topic.endswith(TABLE) and start <= m.timestamp_ms < end]


def _begin(who: Operator, windows: tuple[int, ...] = (1, 2, 3)) -> None:
    """Creates the topic anew, with the messages of these windows."""
    admin = _admin(who)
    if TOPIC in admin.list_topics(timeout=_SECONDS).topics:
        _done(admin.delete_topics([TOPIC]))
    for _ in range(_SECONDS):
        try:
            _done(admin.create_topics([NewTopic(TOPIC, 1, 1, config={"retention.ms": "-1"})]))
            break
        except Exception:  # noqa: BLE001 - the broker removes the old one in its own time
            time.sleep(1)
    for window in windows:
        _send(who, messages(window))


def _send(who: Operator, reported: list[Message], partition: int = 0) -> None:
    producer = in_order({"bootstrap.servers": who.lab.kafka.bootstrap})
    for message in reported:
        producer.produce(TOPIC, message.value, message.key, partition, timestamp=message.timestamp_ms)
    assert producer.flush(_SECONDS) == 0


def _admin(who: Operator) -> AdminClient:
    return AdminClient({"bootstrap.servers": who.lab.kafka.bootstrap})


def _done(futures: Mapping[Any, Any]) -> None:
    """Waits for all results. The caller must hold the client, which otherwise ends with its requests."""
    for future in futures.values():
        future.result(_SECONDS)


def _extract(who: Operator, place: Any = None, fault: Fault | None = None) -> Any:
    return who.lab.stage(place or who.place, who.folder, "extract", 2, fault)


def _gone(who: Operator) -> _Next:
    job = _extract(who, _place(who, who.state, "127.0.0.1:9"))
    who._note(job, job.wait())
    return _Next()


def _remove(who: Operator) -> None:
    """Removes all records of the first window, and two more."""
    offset = len(messages(1)) + 2
    admin = _admin(who)
    _done(admin.delete_records([TopicPartition(TOPIC, 0, offset)]))  # type: ignore[arg-type]


def _retention(who: Operator) -> _Next:
    _remove(who)
    return _Next()


def _while_read(effect: str, act: Callable[[Operator], None]) -> Callable[[Operator], _Next]:
    """Acts just before the first effect with that label. A successful extract is not run again."""

    def play(who: Operator) -> _Next:
        lab, state = who.lab, who.state.copy(who.lab.disk / "cells" / "undisturbed-extract")
        whole = lab.stage(_place(who, state, lab.kafka.bootstrap), who.folder, "extract", 2)
        whole.wait()
        at = next(e["at"] for e in whole.written() if effect in e["label"])
        job = _extract(who, fault=Fault("meet", at))
        job.await_meeting()
        act(who)
        job.go_on()
        code = job.wait()
        if code != 0:
            who._note(job, code)
        return _Next(stages=STAGES[code == 0 :])

    return play


def _again(windows: tuple[int, ...]) -> Callable[[Operator], _Next]:
    def act(who: Operator) -> _Next:
        _begin(who, windows)
        return _Next()

    return act


def _partitions(who: Operator) -> _Next:
    """The third window's messages are in a new partition, so the tables of records differ."""
    _begin_again(who, (1, 2))
    admin = _admin(who)
    _done(admin.create_partitions([NewPartitions(TOPIC, 2)]))
    _send(who, messages(3), partition=1)
    return _Next(3, ("raw", "dbo_customers_changes", *BOOKS))


def _begin_again(who: Operator, windows: tuple[int, ...]) -> None:
    """Creates another topic, forgets the feed, and runs the first window again."""
    _begin(who, windows)
    _forget(who)
    who.carry(1)


def _forget(who: Operator) -> None:
    for file in who.state.folder.iterdir():
        if file.is_file():
            file.unlink()


def _ahead(who: Operator) -> _Next:
    """The windows after the early message find nothing, until the clock reaches it."""
    _begin_again(who, (1,))
    first, *others = messages(2)
    _send(who, [first._replace(timestamp_ms=first.timestamp_ms + 86_400_000), *others, *messages(3)])
    who.carry(2)
    who.carry(3)
    return _Next(4)


def _hanging(who: Operator) -> _Next:
    """Nothing after the open transaction can be read until it is aborted.

    The record of the transaction is then no message, but has an offset.
    """
    _begin_again(who, (1,))
    settings = {"bootstrap.servers": who.lab.kafka.bootstrap, "transactional.id": f"t{datetime.now(UTC)}"}
    producer = in_order(
        {**settings, "transaction.timeout.ms": int(timedelta(minutes=10).total_seconds() * 1000)}
    )
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    (first, *_) = messages(2)
    producer.produce(TOPIC, first.value, first.key, 0, timestamp=first.timestamp_ms)
    producer.flush(_SECONDS)
    _send(who, [*messages(2), *messages(3)])
    who.carry(2)
    producer.abort_transaction(_SECONDS)
    return _Next(3, ("raw", "dbo_customers_changes", *BOOKS))


_ACTS: dict[str, Callable[[Operator], _Next]] = {
    "broker_gone": _gone,
    "retention": _retention,
    "retention_during": _while_read("append raw", _remove),
    "topic_replaced": _while_read("append raw", lambda who: _begin(who, (2, 3, 1))),
    "topic_shorter": _again((3,)),
    "topic_longer": _again((1, 2, 3)),
    "partitions_added": _partitions,
    "producer_ahead": _ahead,
    "hanging_transaction": _hanging,
}
