"""Reads texts of SQL Server's types as written, and refuses other texts."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.kernels import sql_text
from changeledger.model.sql_type import SqlType

EPOCH = datetime(1970, 1, 1)


def read(kind: str, text: str) -> object:
    return sql_text.reader(SqlType.parse(kind))(text)


@given(st.datetimes(), st.sampled_from(["T", " "]))
def test_a_datetime2_is_its_microseconds(moment: datetime, between: str) -> None:
    text = moment.isoformat(between, "microseconds")
    assert EPOCH + timedelta(microseconds=read("datetime2(6)", text)) == moment  # type: ignore[arg-type]


@given(st.dates())
def test_a_date_is_its_day(day: date) -> None:
    assert date.fromordinal(read("date", day.isoformat()) + 719_163) == day  # type: ignore[operator]


@given(st.times(), st.integers(0, 7))
def test_a_time_has_its_digits(clock: time, digits: int) -> None:
    fraction = f"{clock.microsecond:06}0"[:digits]
    whole = f"{clock:%H:%M:%S}"
    written = f"{whole}.{fraction}" if digits else whole
    assert read(f"time({digits})", written) == written
    # Missing or trailing zeros change nothing.
    assert read(f"time({digits})", written.rstrip("0") if digits else whole) == written
    assert read(f"time({digits})", f"{written}00" if digits else f"{whole}.00") == written


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**14), max_value=10**14))
def test_a_decimal_is_exact_or_none(number: Decimal) -> None:
    assert read("decimal(19,4)", f"{number:f}") == number
    assert read("decimal(19,4)", f"{number:E}") == number
    fits = number == number.quantize(Decimal("0.01"))
    assert (read("decimal(19,2)", f"{number:f}") == number) is fits


@pytest.mark.parametrize(("precision", "scale"), [(18, 3), (38, 10), (38, 38), (5, 0)])
def test_a_decimal_in_any_notation_is_exact_or_none(precision: int, scale: int) -> None:
    digits = ("0", "1", "-1.5", "12.50", "100", "0.001", "1.0005", ".5", "7.", "120.00", "49e0", "9" * 38)
    exponents = ("", "E0", "E3", "e-3", "E-10", "E+37", "E-38", "E-400", "E-002", "E+005")
    texts = [d + e for d in digits for e in exponents if not ("e" in d and e)]
    texts += ["1.00000000000000000049E0", "1E-1000000000", "1E1000000000", "0E-1000000000", "1E-30000000"]
    texts += ["1" * 2000, "0." + "1" * 2000, "1." + "0" * 300, "x", "1E", "E1", ""]
    values = {text: read(f"decimal({precision},{scale})", text) for text in texts}
    assert values == {text: exact(text, precision, scale) for text in texts}


def exact(text: str, precision: int, scale: int) -> Decimal | None:
    if len(text) > 1000 or re.search("[eE][+-]?[1-9][0-9]{2}", text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    with localcontext(prec=500):
        scaled = number.scaleb(scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < 10**precision
        return number.quantize(Decimal(1).scaleb(-scale)) if fits else None


@given(st.integers(-(2**64), 2**64))
def test_a_whole_number_is_in_its_range(number: int) -> None:
    for kind, least, most in (
        ("tinyint", 0, 255),
        ("smallint", -(2**15), 2**15 - 1),
        ("int", -(2**31), 2**31 - 1),
        ("bigint", -(2**63), 2**63 - 1),
    ):
        assert read(kind, str(number)) == (number if least <= number <= most else None)


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False, width=32))
def test_a_real_is_read_in_every_form_in_which_it_is_written(number: float) -> None:
    """Tools write the fewest digits that identify a number, nine digits, or all of them.

    Java writes the fewest digits, CONVERT with style 3 nine.
    """
    narrow = np.float32(number)
    texts = [str(narrow), f"{narrow:.8e}", f"{number:.9g}", repr(number), f"{number:.15g}", f"{number:.160f}"]
    for text in texts:
        assert read("real", text) == number, text


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_a_float_is_read_in_every_form_in_which_it_is_written(number: float) -> None:
    for text in (repr(number), f"{number:.16e}", f"{number:.17g}", f"{number:.400f}"):
        assert read("float", text) == number, text


# The types cannot hold these numbers, and values are never rounded (docs/types.md).
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("real", "16777217"),  # 2^24 + 1
        ("real", "0.30000000000000004"),
        ("real", "123456789.125"),
        ("real", "1E-46"),
        ("float", "9007199254740993"),  # 2^53 + 1
        ("float", "12345678901234567.8901"),
        ("float", "0.1000000000000000000001"),
        ("float", "1E-400"),
        # Beyond the exponents that Python's decimals have.
        ("real", "1E-99999999999999999999"),
        ("float", "1E-99999999999999999999"),
        ("float", "0E99999999999999999999"),
    ],
)
def test_a_number_of_more_digits_than_its_type_keeps_does_not_fit(kind: str, text: str) -> None:
    assert read(kind, text) is None
    assert read(kind, f"-{text}") is None


@pytest.mark.parametrize("kind", ["int", "real", "float", "decimal(38,10)", "datetime2(7)", "money", "bit"])
@pytest.mark.parametrize(
    "text", ["{0}x", "0.{0}x", "{0}.5x", "1e{0}x", "0.{0}", "{0}.{0}", "2026-08-07 16:25:00.{0}"]
)
def test_a_long_text_that_is_no_value_takes_no_time(kind: str, text: str) -> None:
    began = process_time()
    assert read(kind, text.format("1" * 1_200_000)) is None
    assert process_time() - began < 2


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        # docs/types.md: thirds of 10 ms are written with three digits.
        ("datetime", "2026-08-07 16:25:00.8833333", 1_786_119_900_883_000),
        ("datetime", "2026-08-07 16:25:00.8866667", 1_786_119_900_887_000),
        ("datetime", "2026-08-07 16:25:00.996667", 1_786_119_900_997_000),
        # Cut or rounded to four digits.
        ("datetime", "2026-08-07 16:25:00.8866", 1_786_119_900_887_000),
        ("datetime", "2026-08-07 16:25:00.8867", 1_786_119_900_887_000),
        ("datetime", "2026-08-07 16:25:00.8830000", 1_786_119_900_883_000),
        ("datetime2(7)", "2026-08-07T16:25:00.88", "2026-08-07 16:25:00.8800000"),
        ("datetimeoffset(7)", "2018-07-13 12:23:45.456 +11:00", "2018-07-13T12:23:45.4560000+11:00"),
        ("datetimeoffset(0)", "2018-07-13T12:23:45Z", "2018-07-13T12:23:45+00:00"),
        ("datetimeoffset(3)", "2018-07-13T12:23:45-00:00", "2018-07-13T12:23:45.000+00:00"),
        ("uniqueidentifier", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        ("char(5)", "ab", "ab   "),
        # The length in bytes of a code page is unknown.
        ("char(5)", "é", "é"),
        ("nchar(3)", "é", "é  "),
        # A character outside the first plane takes two UTF-16 units.
        ("nchar(3)", "\N{GRINNING FACE}", "\N{GRINNING FACE} "),
        ("bit", "1", True),
        ("bit", "false", False),
        ("varchar(9)", " null ", " null "),
    ],
)
def test_a_text_has_its_types_form(kind: str, text: str, expected: object) -> None:
    assert read(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "2026-02-30"), ("date", "2026-08-07\n"), ("date", "0000-01-01"),
        ("time(3)", "24:00:00"), ("time(3)", "16:25:00.8835"), ("datetime2(3)", "2026-08-07 16:25:00.88333"),
        # 0.8834567 s is no third of 10 ms.
        ("datetime", "2026-08-07 16:25:00.8834567"), ("datetime", "2026-08-07 16:25:00.8837"),
        # One unit beside a third: the first would become the next second.
        ("datetime", "2026-08-07 16:25:00.9999"), ("datetime", "2026-08-07 16:25:00.8834"),
        ("datetime", "2026-08-07 16:25:00.8866665"), ("datetime", "2026-08-07 16:25:00.000001"),
        ("datetimeoffset(7)", "2018-07-13T12:23:45"), ("datetimeoffset(7)", "2018-07-13T12:23:45+15:00"),
        # SQL Server's zones end at 14:00.
        ("datetimeoffset(7)", "2018-07-13T12:23:45+14:01"),
        ("datetimeoffset(7)", "2018-07-13T12:23:45-14:30"),
        ("uniqueidentifier", "6f9619ff8b86d011b42d00c04fc964ff"), ("bit", "maybe"), ("int", "1.0"),
        ("int", "٣"), ("int", ""), ("float", "NaN"), ("float", "1e999"), ("real", "1e39"),
        ("decimal(5,2)", "1.234"), ("decimal(5,2)", "1000"), ("decimal(5,2)", "1e100"),
        ("decimal(5,2)", "1_0"),
    ],
)  # fmt: skip
def test_what_is_no_value_of_the_type_is_none(kind: str, text: str) -> None:
    assert read(kind, text) is None


@given(st.one_of(st.integers(0, 2**63 - 1).map(str), st.integers(0, 10**6).map(lambda n: f"{n}.0")))
def test_a_count_is_digits_or_an_integral_float(text: str) -> None:
    assert sql_text.count(text) == int(Decimal(text))


@pytest.mark.parametrize("text", ["-1", "1.5", "one", "", "true", "9223372036854775808", "1e99", " 1"])
def test_what_is_no_count_is_none(text: str) -> None:
    assert sql_text.count(text) is None
