"""The text of a Debezium JSON cell as a value of its type: adaptive temporal mode, precise decimals."""

from __future__ import annotations

from base64 import b64encode

from pyspark.sql import Column
from pyspark.sql import functions as F

from changeledger.contract import Column as ContractColumn
from changeledger.contract import SqlType

# SQL Server's own range, 0001-01-01 to 9999-12-31, in days and microseconds from 1970.
_DAYS = (-719_162, 2_932_896)
_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_MICROS_A_DAY = 86_400_000_000


def placeholder_texts(placeholder: str) -> tuple[str, ...]:
    """How the placeholder of an unavailable value is written: plain, and base64 in binary columns."""
    return placeholder, b64encode(placeholder.encode()).decode()


def cell(text: Column, column: ContractColumn) -> Column:  # noqa: PLR0911 - one return a type
    """The typed value; NULL where `text` is NULL or does not fit."""
    sql = column.sql_type
    if sql.base == "date":
        days = text.try_cast("int")
        return F.when(days.between(*_DAYS), F.date_from_unix_date(days))
    if sql.base == "time":
        return _time_text(text, sql)
    if sql.base in {"datetime", "smalldatetime", "datetime2"}:
        return _timestamp(text, sql)
    if sql.base == "uniqueidentifier":
        return F.upper(text)
    if sql.spark.startswith("decimal"):
        return _decimal(text, sql)
    if sql.spark == "binary":
        return F.try_to_binary(text, F.lit("base64"))
    return text if sql.spark == "string" else text.try_cast(sql.spark)


def _micros(text: Column, sql: SqlType) -> Column:
    """Microseconds: the wire counts ms up to 3 digits of a second, us up to 6, ns for 7."""
    count = text.try_cast("bigint")
    if sql.fraction_digits <= 3:
        return F.try_multiply(count, F.lit(1000))
    return count if sql.fraction_digits <= 6 else F.floor(count / F.lit(1000).cast("decimal(4,0)"))


def _seventh_digit(text: Column) -> Column:
    return F.floor(F.pmod(text.try_cast("bigint"), F.lit(1000)) / 100).cast("string")


def _timestamp(text: Column, sql: SqlType) -> Column:
    micros = _micros(text, sql).cast("bigint")
    value = F.when(micros.between(*_MICROS), F.timestamp_micros(micros))
    if sql.fraction_digits <= 6:
        return value.cast("timestamp_ntz")
    return F.concat(F.date_format(value, "yyyy-MM-dd HH:mm:ss.SSSSSS"), _seventh_digit(text))


def _time_text(text: Column, sql: SqlType) -> Column:
    micros = _micros(text, sql).cast("bigint")
    of_day = F.when(micros.between(0, _MICROS_A_DAY - 1), F.timestamp_micros(micros))
    digits = sql.fraction_digits
    clock = F.date_format(of_day, "HH:mm:ss.SSSSSS")
    if digits == 7:
        return F.concat(clock, _seventh_digit(text))
    return F.substring(clock, 1, 9 + digits if digits else 8)


def _decimal(text: Column, sql: SqlType) -> Column:
    """Base64 of a big-endian two's complement integer; the scale is the contract's."""
    unscaled = F.try_to_binary(text, F.lit("base64"))
    scale = SqlType.parse(sql.spark).scale or 0
    digits = F.hex(unscaled)
    # Up to 7 bytes, nearly all there are, the number is a bigint; its scale is an exact product.
    if scale <= 18:
        small = F.conv(digits, 16, 10).try_cast("bigint") - F.when(
            _is_negative(digits), F.call_function("shiftleft", F.lit(1).cast("bigint"), F.length(digits) * 4)
        ).otherwise(F.lit(0).cast("bigint"))
        power = F.lit(f"1e-{scale}").cast(f"decimal({max(scale, 1)},{scale})") if scale else F.lit(1)
        exact = (small.cast("decimal(18,0)") * power).try_cast(sql.spark)
        return F.when(F.length(digits).between(2, 14), exact).otherwise(
            _wide_decimal(digits, sql.spark, scale)
        )
    return _wide_decimal(digits, sql.spark, scale)


def _is_negative(digits: Column) -> Column:
    return F.substring(digits, 1, 1) >= "8"


def _wide_decimal(digits: Column, spark_type: str, scale: int) -> Column:
    """Up to 17 bytes, in three parts of 7 bytes, so that nothing passes through a double."""
    # -x is the complement of x - 1: the magnitude then stays within 38 digits.
    complement = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    magnitude = F.lpad(F.when(_is_negative(digits), complement).otherwise(digits), 42, "0")
    total = F.lit(0).cast("decimal(38,0)")
    for part, weight in enumerate((2**112, 2**56, 1)):
        chunk = F.conv(F.substring(magnitude, 1 + 14 * part, 14), 16, 10).cast("decimal(38,0)")
        total = F.try_add(total, F.try_multiply(chunk, F.lit(str(weight)).cast("decimal(38,0)")))
    signed = F.when(_is_negative(digits), F.try_subtract(-total, F.lit(1).cast("decimal(38,0)"))).otherwise(
        total
    )
    number = F.lpad(F.regexp_replace(signed.cast("string"), "^-", ""), 39, "0")
    sign = F.when(signed < 0, "-").otherwise("")
    text = F.concat(sign, F.substring(number, 1, 39 - scale), F.lit("."), F.right(number, F.lit(scale)))
    return F.when(F.length(digits).between(2, 34), text.try_cast(spark_type))
