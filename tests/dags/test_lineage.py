"""How OpenLineage names the lake's tables, and which of them a stage reports."""

import sys
from dataclasses import dataclass
from types import ModuleType

import pytest
from airflow.dag_processing.dagbag import DagBag

from changeledger.config.files import load_feeds
from changeledger.config.settings import PROJECT, Settings
from changeledger.model.table_names import TableNames
from changeledger.orchestration.stage_operator import place


@pytest.mark.parametrize(
    ("warehouse", "named"),
    [
        ("/var/lake", ("file", "/var/lake/shop_cdc/dbo_customers")),
        ("file:///var/lake/", ("file", "/var/lake/shop_cdc/dbo_customers")),
        ("s3://bucket/lake", ("s3://bucket", "lake/shop_cdc/dbo_customers")),
        ("hdfs://name:8020/", ("hdfs://name:8020", "shop_cdc/dbo_customers")),
    ],
)
def test_a_table_is_named_by_where_it_lies(warehouse: str, named: tuple[str, str]) -> None:
    assert place("lake.shop_cdc.dbo_customers", warehouse) == named


@dataclass(frozen=True)
class Dataset:
    namespace: str
    name: str


@dataclass(frozen=True)
class OperatorLineage:
    outputs: list[Dataset]


def test_publish_alone_has_written_all_three_tables_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two classes stand in for OpenLineage's provider, which the lock file does not include."""
    for module, member in (
        ("airflow.providers.openlineage", None),
        ("airflow.providers.openlineage.extractors", OperatorLineage),
        ("openlineage", None),
        ("openlineage.client", None),
        ("openlineage.client.event_v2", Dataset),
    ):
        stand_in = ModuleType(module)
        if member is not None:
            setattr(stand_in, member.__name__, member)
        monkeypatch.setitem(sys.modules, module, stand_in)
    monkeypatch.setenv("CHANGELEDGER_CATALOG", '{"warehouse": "s3://lake"}')
    bag = DagBag(str(PROJECT / "dags" / "feeds.py"))
    stages = bag.dags["shop_cdc"].tasks
    reported = {stage.task_id: stage.get_openlineage_facets_on_complete(None) for stage in stages}
    feed = load_feeds(Settings().feeds)["shop_cdc"]
    tables = [TableNames.of(feed.namespace, table.table) for table in feed.tables]
    written = [name for names in tables for name in (names.current, names.history, names.changes)]
    assert len(written) == 12
    assert {(dataset.namespace, dataset.name) for dataset in reported["publish"].outputs} == {
        ("s3://lake", "/".join(name.split(".")[1:])) for name in written
    }
    assert not any(lineage.outputs for stage, lineage in reported.items() if stage != "publish")
