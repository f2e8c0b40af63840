"""How OpenLineage names the tables of the lake."""

import pytest

from changeledger.orchestration.lineage import Place, place


@pytest.mark.parametrize(
    ("warehouse", "named"),
    [
        ("/var/lake", Place("file", "/var/lake/shop_cdc/dbo_customers")),
        ("file:///var/lake/", Place("file", "/var/lake/shop_cdc/dbo_customers")),
        ("s3://bucket/lake", Place("s3://bucket", "lake/shop_cdc/dbo_customers")),
        ("hdfs://name:8020/", Place("hdfs://name:8020", "shop_cdc/dbo_customers")),
    ],
)
def test_a_table_is_named_by_where_it_lies(warehouse: str, named: Place) -> None:
    assert place("lake.shop_cdc.dbo_customers", warehouse) == named
