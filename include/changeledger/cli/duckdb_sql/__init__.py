"""How `changeledger query` answers without Spark: DuckDB over the lake's tables, read as Arrow.

DuckDB may do nothing but compute: it opens no file, loads no extension, and its settings are locked. What a
statement may consist of is listed all the same, and checked on the tree that DuckDB's own parser makes of it.
"""
