"""Answers `changeledger query` without Spark: DuckDB over the lake's tables, read as Arrow.

DuckDB can only compute: it opens no file, loads no extension, and its settings are locked. In addition, a
statement may have only the parts that are listed here, which is checked on the tree of DuckDB's own parser.
"""
