"""The text of a Debezium JSON cell as a value of its type: adaptive temporal mode, precise decimals."""

from __future__ import annotations

from base64 import b64encode

from pyspark.sql import Column
from pyspark.sql import functions as F

from changeledger.contract import Column as ContractColumn
from changeledger.contract import SqlType
from changeledger.images import Wire

# SQL Server's own range, 0001-01-01 to 9999-12-31, in days and microseconds from 1970.
_DAYS = (-719_162, 2_932_896)
_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_MICROS_A_DAY = 86_400_000_000


def placeholder_texts(placeholder: str) -> tuple[str, ...]:
    """How the placeholder of an unavailable value is written: plain, and base64 in binary columns."""
    return placeholder, b64encode(placeholder.encode()).decode()


def _form(text: Column, column: ContractColumn) -> Column:
    """Decimals as the hexadecimal digits of their bytes, everything else as it is written."""
    if column.spark_type.startswith("decimal"):
        return F.hex(F.try_to_binary(text, F.lit("base64")))
    return text


def _value(form: Column, column: ContractColumn) -> Column:  # noqa: PLR0911 - one return a type
    sql = column.sql_type
    if sql.base == "date":
        days = form.try_cast("int")
        return F.when(days.between(*_DAYS), F.date_from_unix_date(days))
    if sql.base == "time":
        return _time_text(form, sql)
    if sql.base in {"datetime", "smalldatetime", "datetime2"}:
        return _timestamp(form, sql)
    if sql.base == "uniqueidentifier":
        return F.upper(form)
    if sql.spark.startswith("decimal"):
        return _decimal(form, sql)
    if sql.spark == "binary":
        return F.try_to_binary(form, F.lit("base64"))
    return form if sql.spark == "string" else form.try_cast(sql.spark)


def _text_value(form: Column, column: ContractColumn) -> Column:
    decimal = column.spark_type.startswith("decimal")
    return form.try_cast(column.spark_type) if decimal else _value(form, column)


WIRES = {"precise": Wire(_form, _value), "text": Wire(lambda text, _: text, _text_value)}


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


def _decimal(digits: Column, sql: SqlType) -> Column:
    """A decimal from the hex digits of a big-endian two's complement integer; the scale is the contract's."""
    lake = SqlType.parse(sql.spark)
    precision, scale = lake.length or 0, lake.scale or 0
    if precision > 18:
        return F.when(F.length(digits).between(2, 34), _wide_decimal(digits, sql.spark, scale))
    # Up to 18 digits the number has at most 8 bytes. They are read as unsigned; a negative number is
    # then too large by two to the power of its bits.
    unsigned = F.conv(digits, 16, 10).cast("decimal(20,0)")
    beyond = F.when(F.length(digits) == 16, F.lit(str(2**64)).cast("decimal(20,0)")).otherwise(
        F.call_function("shiftleft", F.lit(1).cast("bigint"), F.length(digits) * 4).cast("decimal(20,0)")
    )
    small = (unsigned - F.when(_is_negative(digits), beyond).otherwise(F.lit(0))).try_cast("decimal(19,0)")
    # The product with a power of ten is exact: 19 and 18 digits fit in 38.
    power = F.lit(f"1e-{scale}").cast(f"decimal({scale},{scale})") if scale else F.lit(1)
    return F.when(F.length(digits).between(2, 16), (small * power).try_cast(sql.spark))


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
    # The digits of the magnitude, with the point set in: dividing would cost digits beyond 38.
    beyond = F.when(_is_negative(digits), F.lit(1)).otherwise(F.lit(0)).cast("decimal(38,0)")
    number = F.lpad(F.try_add(total, beyond).cast("string"), 39, "0")
    sign = F.when(_is_negative(digits), F.lit("-")).otherwise(F.lit(""))
    return F.concat(
        sign, F.substring(number, 1, 39 - scale), F.lit("."), F.substring(number, 40 - scale, scale)
    ).try_cast(spark_type)
