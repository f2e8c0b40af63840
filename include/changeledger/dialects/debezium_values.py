"""The text of a Debezium JSON cell as a value of its type, in the modes in which a connector writes it.

Temporal modes: `adaptive` counts in the unit of the column's precision, `connect` in milliseconds always;
`isostring` writes text, which no number looks like, so it needs no setting.
"""

from __future__ import annotations

from base64 import b64encode

from changeledger.change import literal
from changeledger.config import KafkaSource
from changeledger.contract import Column as ContractColumn
from changeledger.contract import SqlType
from changeledger.dialects import text_values
from changeledger.images import Wire, decimal

# SQL Server's own range, 0001-01-01 to 9999-12-31, in days and microseconds from 1970.
_DAYS = (-719_162, 2_932_896)
_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_MICROS_A_DAY = 86_400_000_000


def placeholder_texts(source: KafkaSource) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How the placeholder of an unavailable value is written: in text, and in columns of bytes."""
    raw = source.placeholder.encode()
    return (source.placeholder,), (raw.hex() if source.binaries == "hex" else b64encode(raw).decode(),)


# A column of the records: are their decimals JSON numbers, whatever the setting says?
AS_NUMBERS = "as_numbers"


def wire(source: KafkaSource, may_be_numbers: bool = False) -> Wire:
    """How the connector of a feed writes cells. `may_be_numbers`: the records have `AS_NUMBERS`."""

    def is_precise(column: ContractColumn) -> bool:
        return source.decimals == "precise" and column.spark_type.startswith("decimal")

    def form(told: str, column: ContractColumn) -> str:
        """Precise decimals as the hexadecimal digits of their bytes, everything else as it is written."""
        if not is_precise(column):
            return told
        digits = f"hex(try_to_binary({told}, 'base64'))"
        return f"IF({AS_NUMBERS}, {told}, {digits})" if may_be_numbers else digits

    def value(written: str, column: ContractColumn) -> str:
        sql = column.sql_type
        if is_precise(column):
            of_bytes = decimal_of_bytes(written, sql)
            return f"IF({AS_NUMBERS}, {decimal(written, sql)}, {of_bytes})" if may_be_numbers else of_bytes
        if sql.spark.startswith("decimal"):
            return decimal(written, sql)
        if sql.base in _TEMPORAL:
            return _temporal(written, sql, 3 if source.temporal == "connect" else sql.fraction_digits)
        if sql.spark == "binary":
            return _binary(written, source.binaries)
        if text_values.is_read_here(sql):
            return text_values.value(written, sql)
        return written if sql.spark == "string" else f"try_cast({written} AS {sql.spark})"

    return Wire(form, value)


def like_a_number(told: str) -> str:
    """SQL text: does a text begin and end as a number? Few texts in base64 do."""
    return f"({told} >= '-' AND {told} < ':' AND substring({told}, -1) BETWEEN '0' AND '9')"


_TEMPORAL = {"date", "time", "datetime", "smalldatetime", "datetime2"}


def _binary(written: str, mode: str) -> str:
    if mode == "hex":
        return f"try_to_binary({written}, 'hex')"
    # The alphabet for addresses has - and _ where the usual one has + and /.
    usual = f"translate({written}, '-_', '+/')"
    return f"coalesce(try_to_binary({written}, 'base64'), try_to_binary({usual}, 'base64'))"


def _temporal(written: str, sql: SqlType, unit_digits: int) -> str:
    """From a count of units, a second having `unit_digits` decimals of them; else from ISO text."""
    if sql.base == "date":
        days = f"try_cast({written} AS INT)"
        counted = f"CASE WHEN {_between(days, _DAYS)} THEN date_from_unix_date({days}) END"
    elif sql.base == "time":
        counted = _time_text(written, sql, unit_digits)
    else:
        counted = _timestamp(written, sql, unit_digits)
    return f"coalesce({counted}, {_iso(written, sql)})"


def _iso(written: str, sql: SqlType) -> str:
    """`2017-09-15Z`, `04:05:11.789Z`, `2018-06-20T15:13:16.945Z`."""
    bare = f"substring({written}, 1, length({written}) - 1)"
    is_iso = f"endswith({written}, 'Z') AND NOT contains({written}, ' ')"
    return f"CASE WHEN {is_iso} THEN {text_values.value(bare, sql)} END"


def _between(number: str, limits: tuple[int, int]) -> str:
    """Not BETWEEN: Spark gives each one a step of its own, which copies all rows."""
    return f"{number} >= {limits[0]} AND {number} <= {limits[1]}"


def _micros(form: str, unit_digits: int) -> str:
    """Microseconds: the wire counts ms up to 3 digits of a second, us up to 6, ns for 7."""
    count = f"try_cast({form} AS BIGINT)"
    if unit_digits <= 3:
        return f"try_multiply({count}, 1000L)"
    return count if unit_digits <= 6 else f"CAST(floor({count} / CAST(1000 AS DECIMAL(4,0))) AS BIGINT)"


def _seventh_digit(form: str, unit_digits: int) -> str:
    return f"CAST(pmod(try_cast({form} AS BIGINT), 1000L) DIV 100 AS STRING)" if unit_digits > 6 else "'0'"


def _timestamp(form: str, sql: SqlType, unit_digits: int) -> str:
    micros = _micros(form, unit_digits)
    value = f"CASE WHEN {_between(micros, _MICROS)} THEN timestamp_micros({micros}) END"
    if sql.fraction_digits <= 6:
        return f"CAST({value} AS TIMESTAMP_NTZ)"
    return f"concat(date_format({value}, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), {_seventh_digit(form, unit_digits)})"


def _time_text(form: str, sql: SqlType, unit_digits: int) -> str:
    micros = _micros(form, unit_digits)
    of_day = f"CASE WHEN {_between(micros, (0, _MICROS_A_DAY - 1))} THEN timestamp_micros({micros}) END"
    digits = sql.fraction_digits
    clock = f"date_format({of_day}, 'HH:mm:ss.SSSSSS')"
    if digits == 7:
        return f"concat({clock}, {_seventh_digit(form, unit_digits)})"
    return f"substring({clock}, 1, {9 + digits if digits else 8})"


def decimal_of_bytes(digits: str, sql: SqlType) -> str:
    """A decimal from the hex digits of a big-endian two's complement integer; the scale is the contract's."""
    lake = SqlType.parse(sql.spark)
    precision, scale = lake.length or 0, lake.scale or 0
    if precision > 18:
        return (
            f"CASE WHEN {_between(f'length({digits})', (2, 34))} "
            f"THEN {_wide_decimal(digits, sql.spark, scale)} END"
        )
    # Up to 18 digits the number has at most 8 bytes: extended by its sign to 64 bits, read as signed.
    extended = f"lpad({digits}, 16, CASE WHEN {_is_negative(digits)} THEN 'F' ELSE '0' END)"
    integer = f"try_cast(CAST(conv({extended}, 16, -10) AS BIGINT) AS DECIMAL({precision},0))"
    # The product with a power of ten is exact: twice 18 digits fit in 38.
    power = f" * CAST({literal(f'1e-{scale}')} AS DECIMAL({scale},{scale}))" if scale else ""
    number = f"try_cast({integer}{power} AS {sql.spark})"
    return f"CASE WHEN {_between(f'length({digits})', (2, 16))} THEN {number} END"


def _is_negative(digits: str) -> str:
    return f"substring({digits}, 1, 1) >= '8'"


def _wide_decimal(digits: str, spark_type: str, scale: int) -> str:
    """Up to 17 bytes, in three parts of 7 bytes, so that nothing passes through a double."""
    # -x is the complement of x - 1: the magnitude then stays within 38 digits.
    complement = f"translate({digits}, '0123456789ABCDEF', 'FEDCBA9876543210')"
    magnitude = f"lpad(CASE WHEN {_is_negative(digits)} THEN {complement} ELSE {digits} END, 42, '0')"
    total = "CAST(0 AS DECIMAL(38,0))"
    for part, weight in enumerate((2**112, 2**56, 1)):
        chunk = f"CAST(conv(substring({magnitude}, {1 + 14 * part}, 14), 16, 10) AS DECIMAL(38,0))"
        total = f"try_add({total}, try_multiply({chunk}, CAST('{weight}' AS DECIMAL(38,0))))"
    # The digits of the magnitude, with the point set in: dividing would cost digits beyond 38.
    beyond = f"CAST(CASE WHEN {_is_negative(digits)} THEN 1 ELSE 0 END AS DECIMAL(38,0))"
    number = f"lpad(CAST(try_add({total}, {beyond}) AS STRING), 39, '0')"
    sign = f"CASE WHEN {_is_negative(digits)} THEN '-' ELSE '' END"
    whole, fraction = f"1, {39 - scale}", f"{40 - scale}, {scale}"
    written = f"concat({sign}, substring({number}, {whole}), '.', substring({number}, {fraction}))"
    return f"try_cast({written} AS {spark_type})"
