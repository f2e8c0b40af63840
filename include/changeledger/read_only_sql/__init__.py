"""Restricts the statements of `changeledger query --spark` to those that only read the lake and compute.

Spark's SQL can start programs (`TRANSFORM ... USING`), call any Java method (`reflect`), and read any file on
its server's machine as a table. So only what is listed runs: kinds of statements, tables of the lake,
functions, and parts of a query's tree as sqlglot parses it. Statements that cannot be parsed are refused.
"""
