"""A service that ends unexpectedly is reported and restarted at its address and with its data."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import psycopg
import pytest

from changeledger.config.connection import Connection
from changeledger.kafka.topics import Kafka
from sourcelab import ces, debezium, qlik_messages, qlik_tables, sqlserver_cdc
from sourcelab.children import Child
from sourcelab.lab import SEGMENT, SourceLost, Sources
from sourcelab.log import Log
from sourcelab.postgres import plain_url
from sourcelab.process import Service, ServiceError
from sourcelab.together import Together
from sourcelab.traffic import Traffic
from sourcelab.up import Running

pytestmark = [pytest.mark.integration, pytest.mark.long]


def lose(service: Service) -> None:
    assert service._process is not None
    os.killpg(service._process.pid, signal.SIGKILL)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def messages_of(log: Log) -> int:
    to_tx = len(log.transactions)
    return sum(
        1
        for _ in chain(
            debezium.messages(log, schemas=True, snapshot=False, to_tx=to_tx),
            ces.messages(log, split_at=SEGMENT, to_tx=to_tx),
            qlik_messages.messages(log, envelope=True, snapshot=False, to_tx=to_tx),
        )
    )


def messages_in(sources: Sources) -> int:
    extra = {"bootstrap.servers": sources.kafka.bootstrap}
    kafka = Kafka("shop", Connection(conn_type="kafka", extra=extra))
    ends = kafka.latest(kafka.topics(["*"]))
    return sum(end for partitions in ends.values() for end in partitions.values())


def rows_in(url: str) -> list[int]:
    """Counts the rows of one change table of each kind, and of the transactions."""
    names = ('cdc."dbo_customers_CT"', 'cdc."sales_orders_CT"', 'dbo."customers__ct"', "cdc.lsn_time_mapping")
    with psycopg.connect(plain_url(url)) as session:
        return [row[0] for name in names for row in session.execute(f"SELECT count(*) FROM {name}")]


def test_broker_and_database_come_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    sources, traffic = Sources(tmp_path), Traffic(7, datetime.now(UTC))
    with Together(*sources.services, say=said.append) as together:
        together.wait_for()
        count = len(traffic.log.transactions)
        sources.load(Log(traffic.log.tables, traffic.log.transactions[: count - 20]), count - 20)
        addresses = sources.kafka.bootstrap, sources.postgres.url
        capfd.readouterr()
        for service in sources.services:
            lose(service)
        # What cannot be written now is written after all are back: each writer resumes where it was.
        lost = 0
        for to_tx in range(count - 19, count + 1):
            try:
                sources.append(traffic.log, to_tx)
            except SourceLost:
                lost += 1
                time.sleep(0.2)
        until(lambda: len(said) == 6)
        sources.append(traffic.log, count)
        together.require_running()
        assert lost > 0
        assert (sources.kafka.bootstrap, sources.postgres.url) == addresses
        straight = sources.postgres.create_database("straight")
        sqlserver_cdc.load(straight, traffic.log)
        qlik_tables.load(straight, traffic.log, count)
        assert rows_in(sources.postgres.url) == rows_in(straight)
        # A message that the lost broker had accepted may be there twice.
        assert messages_of(traffic.log) <= messages_in(sources) < messages_of(traffic.log) * 1.1
    text = "\n".join(said)
    for service in sources.services:
        assert f"{service.name} has ended with code -9, see {service.log}; it is started again" in text
        assert f"{service.name} is up again" in text
    output = capfd.readouterr()
    assert output.out + output.err == "", "a client's complaints are not for the terminal"


def test_a_part_of_airflow_is_started_again_but_not_for_ever(tmp_path: Path) -> None:
    said: list[str] = []
    lives = tmp_path / "lives"
    program = f"print('life', file=open({str(lives)!r}, 'a')); print('a reason'); raise SystemExit(3)"
    part = Child("airflow part", [sys.executable, "-c", program], dict(os.environ), tmp_path / "part.log")
    with Together(say=said.append) as together, part:
        running = Running(together, [part], said.append)
        for _ in range(3):
            until(lambda: not part.running)
            running.keep()
        until(lambda: not part.running)
        with pytest.raises(ServiceError, match=r"(?s)airflow part has ended 4 times.*a reason"):
            running.keep()
    assert said == [f"airflow part has ended with code 3, see {part.log}; it is started again"] * 3
    assert lives.read_text() == "life\n" * 4
    assert part.log.read_text() == "a reason\n" * 4
