"""Every function of the locked DuckDB version is listed as allowed or left out."""

from __future__ import annotations

import re

from changeledger.cli.duckdb_sql.engine import connected
from changeledger.cli.duckdb_sql.functions import COMPUTING, TABLES


def test_every_function_of_duckdb_is_listed_or_left_out() -> None:
    """Functions of a newer DuckDB fail this test.

    Someone must read about them, and list them or leave them out here.
    """
    connection = connected()
    kinds = "'scalar', 'aggregate', 'window', 'macro'"
    names = connection.execute(
        f"SELECT function_name FROM duckdb_functions() WHERE function_type IN ({kinds})"
    )
    known = {name for (name,) in names.fetchall()}
    left_out = re.compile(
        r"""__\w+ | (icu_)?collate_\w+ | pg_\w+ | has_\w+_privilege | inet_\w+ | st_\w+
        | [^a-z]+ | IS\ [A-Z ]+
        | current_(catalog|connection_id|database|query|query_id|role|schemas?|setting|transaction_id|user)
        | (next|curr|set)val | setseed | getvariable | in_search_path | session_user | user
        | txid_current | version
        | sleep_ms | write_log | error | assert_true | stats | vector_type | parse_duckdb_log_message
        | json_(de)?serialize_\w+ | json_copy_\w+ | (col|obj|shobj)_description | format_(pg_)?type
        | get_block_size
        | map_(type_id_)?to_pg_oid | variant_(normalize|bytes_\w+|comparator|to_\w+|group_\w+)
        | \w+_byte_comparable
        | \w+_sort_key | index_key | invoke | remap_struct | (replace|make|cast_to)_type | combine(_aggr)?
        | finalize | to_aggregate_state | is_histogram_other_bin | decimal_(average|division) | vertex_extract
        | array_to_string_comma_default | hive_partition_component | md5_number_(lower|upper)""",
        re.VERBOSE,
    )
    assert {name for name in known - COMPUTING if not left_out.fullmatch(name)} == set()
    assert {name for name in COMPUTING if left_out.fullmatch(name)} == set()
    # These belong to DuckDB's grammar.
    assert COMPUTING - known == {"unnest", "grouping", "grouping_id"}
    names = connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()
    assert {name for (name,) in names} > TABLES
