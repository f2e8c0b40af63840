"""Which statements `changeledger query --spark` gives to Spark: those that only read the lake and compute.

Spark's SQL can start programs (`TRANSFORM ... USING`), call any Java method (`reflect`), and read any file of
its server's machine as a table. So only what is listed runs: kinds of statements, tables of the lake,
functions, and the parts of which a query consists as sqlglot reads it. What cannot be read is refused.
"""
