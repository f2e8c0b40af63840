"""The extreme values of every SQL Server type, as each dialect writes them and as they are published.

A value is listed with its type and its canonical form (docs/types.md). A dialect writes the canonical form,
unless the value states another one. `row` is the form in an export of a change table, of CDC and of Qlik.

The values come from outside the code:

* Ranges: Microsoft's page of each type ("money and smallmoney", "float and real", "datetime2", ...).
* Debezium's forms: WIRE.md, part "debezium". Base64 and counts were computed with `xxd -r -p | base64`,
  `bc` and GNU `date +%s`.
* CES: `specs/001`, all values as text. No page says how a float is written; here it is C's `%.16e`, the form
  of SQL Server's style 3. The product does not stream the types that are NOT_SENT (docs/feeds.md).
* Qlik: "Supported data types" of Replicate's SQL Server source, which maps `time`, `datetimeoffset`,
  `uniqueidentifier`, `char` and `nchar` to text.
"""

from __future__ import annotations

from typing import Any

# A dialect that has no such type, or writes it in a form that nobody documents.
NOT_SENT = object()


class Rare:
    """A value of a type: its canonical form, and the forms of the dialects that write another one."""

    def __init__(self, sql_type: str, canonical: Any, *, nanos: bool = False, **forms: Any) -> None:
        """`nanos`: Debezium counts nanoseconds, instead of writing ISO text."""
        self.sql_type = sql_type
        self.canonical = canonical
        self.nanos = nanos
        self._forms = forms

    def written(self, form: str) -> Any:
        """Returns the value in the form `debezium`, `ces`, `qlik` or `row`."""
        return self._forms.get(form, self.canonical)

    def __repr__(self) -> str:
        return f"{self.sql_type} {self.canonical!r}"


_GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"

NUMBERS = (
    Rare("bit", True, ces="1", row="1"),
    Rare("bit", False, ces="0", qlik="0", row="0"),
    Rare("tinyint", 255),
    Rare("tinyint", 0, qlik="0"),
    Rare("smallint", -32768),
    Rare("smallint", 32767),
    Rare("int", -2147483648),
    Rare("int", 2147483647, qlik="2147483647"),
    # No double has this number: 2^63 is the next one.
    Rare("bigint", 9223372036854775807),
    Rare("bigint", -9223372036854775808, qlik="-9223372036854775808"),
    Rare("smallmoney", "-214748.3648", debezium="gAAAAA=="),
    Rare("smallmoney", "214748.3647", debezium="f////w=="),
    Rare("money", "-922337203685477.5808", debezium="gAAAAAAAAAA="),
    Rare("money", "922337203685477.5807", debezium="f/////////8="),
    Rare("money", "0.0000", debezium="AA==", row="0.00"),
    # 38 nines are 0x4B3B4CA85A86C47A098A223FFFFFFFFF units.
    Rare("decimal(38,0)", "9" * 38, debezium="SztMqFqGxHoJiiI//////w=="),
    Rare("decimal(38,0)", "-" + "9" * 38, debezium="tMSzV6V5O4X2dd3AAAAAAQ=="),
    # SQL Server's CONVERT writes a zero before the point, and its bcp omits it.
    Rare("decimal(38,38)", "-0." + "9" * 38, debezium="tMSzV6V5O4X2dd3AAAAAAQ==", ces="-." + "9" * 38),
    Rare("numeric(5,2)", "-0.01", debezium="/w==", qlik=-0.01, row="-.01"),
    # IEEE 754: the least denormal, the least normal and the greatest double.
    Rare("float", -0.0, ces="-0", row="-0.0"),
    Rare("float", 5e-324, ces="4.9406564584124654e-324", row="4.9E-324"),
    Rare("float", 2.2250738585072014e-308, ces="2.2250738585072014e-308", row="2.2250738585072014E-308"),
    Rare("float", 1.7976931348623157e308, ces="1.7976931348623157e+308", row="1.7976931348623157E308"),
    Rare("float", -1e308, ces="-1.0000000000000000e+308", row="-1.0E308"),
    # The same of 32 bits. A published `real` has the fewest digits that identify it.
    Rare("real", -0.0, ces="-0", row="-0.0"),
    Rare("real", 1e-45, debezium=1.4e-45, ces="1.4012985e-045", qlik=1.4e-45, row="1.4E-45"),
    Rare("real", 1.1754944e-38, debezium=1.17549435e-38, ces="1.1754944e-38", row="1.17549435E-38"),
    Rare("real", -3.4028235e38, ces="-3.4028235e+38", row="-3.4028235E38"),
)

# `char` and `nchar` are padded by Debezium and in rows (WIRE.md, part "debezium").
TEXT = (
    Rare("char(5)", "ab   ", ces="ab", qlik="ab"),
    Rare("char(5)", "     ", ces="", qlik=""),
    Rare("nchar(3)", "é  ", ces="é", qlik="é"),
    Rare("varchar(20)", "ab  "),
    Rare("varchar(20)", ""),
    # Texts that a parser may take for another value.
    Rare("varchar(20)", "NaN"),
    Rare("varchar(20)", "0x00"),
    Rare("nvarchar(20)", "null"),
    Rare("nvarchar(20)", "日本 \U0001f600"),
    Rare("nvarchar(20)", '\\"\u2028\t'),
    Rare("uniqueidentifier", _GUID, ces=_GUID.lower(), qlik=_GUID.lower(), row=_GUID.lower()),
)

# Debezium: base64. Qlik: hex without 0x.
BYTES = (
    Rare("binary(4)", "0x01000000", debezium="AQAAAA==", qlik="01000000"),
    Rare("varbinary(10)", "0x", debezium="", qlik=""),
    Rare("varbinary(10)", "0x00", debezium="AA==", qlik="00"),
    Rare("rowversion", "0x00000000000007D1", debezium="AAAAAAAAB9E=", ces=NOT_SENT, qlik="00000000000007D1"),
    Rare("rowversion", "0xFFFFFFFFFFFFFFFF", debezium="//////////8=", ces=NOT_SENT, qlik="FFFFFFFFFFFFFFFF"),
    # The bytes of the path /1/2/.
    Rare("hierarchyid", "0x5B40", debezium="W0A=", ces=NOT_SENT, qlik=NOT_SENT),
)

# Debezium: days, or a count of the unit that the type's block names. Qlik: ISO text with a T.
TIMES = (
    Rare("date", "0001-01-01", debezium=-719162),
    Rare("date", "9999-12-31", debezium=2932896),
    Rare("time(0)", "23:59:59", debezium=86_399_000),
    Rare("time(3)", "23:59:59.999", debezium=86_399_999),
    Rare("time(5)", "00:00:00.00001", debezium=10),
    Rare("time(7)", "23:59:59.9999999", debezium=86_399_999_999_900),
    Rare("time(7)", "00:00:00.0000000", debezium=0, ces="00:00:00", row="00:00:00"),
    Rare("smalldatetime", "1900-01-01 00:00:00", debezium=-2_208_988_800_000, qlik="1900-01-01T00:00:00"),
    Rare("smalldatetime", "2079-06-06 23:59:00", debezium=3_453_321_540_000, qlik="2079-06-06T23:59:00"),
    Rare("datetime", "1753-01-01 00:00:00", debezium=-6_847_804_800_000, ces="1753-01-01 00:00:00.000",
         qlik="1753-01-01T00:00:00"),
    Rare("datetime", "9999-12-31 23:59:59.997000", debezium=253_402_300_799_997,
         ces="9999-12-31 23:59:59.997", qlik="9999-12-31T23:59:59.997", row="9999-12-31 23:59:59.997"),
    Rare("datetime2(3)", "0001-01-01 00:00:00.001000", debezium=-62_135_596_799_999,
         ces="0001-01-01 00:00:00.001", qlik="0001-01-01T00:00:00.001", row="0001-01-01 00:00:00.001"),
    Rare("datetime2(6)", "9999-12-31 23:59:59.999999", debezium=253_402_300_799_999_999,
         qlik="9999-12-31T23:59:59.999999"),
    Rare("datetime2(7)", "0001-01-01 00:00:00.0000001", debezium="0001-01-01T00:00:00.0000001Z",
         qlik="0001-01-01T00:00:00.0000001"),
    Rare("datetime2(7)", "9999-12-31 23:59:59.9999999", debezium="9999-12-31T23:59:59.9999999Z",
         qlik="9999-12-31T23:59:59.9999999"),
    # The first and the last time that nanoseconds in 64 bits can represent.
    Rare("datetime2(7)", "1677-09-21 00:12:43.1452242", debezium=-9_223_372_036_854_775_800, nanos=True,
         qlik="1677-09-21T00:12:43.1452242"),
    Rare("datetime2(7)", "2262-04-11 23:47:16.8547758", debezium=9_223_372_036_854_775_800, nanos=True,
         qlik="2262-04-11T23:47:16.8547758"),
    # Debezium omits zeros at the end; the others write SQL Server's text, with a space before the offset.
    Rare("datetimeoffset(7)", "0001-01-01T00:00:00.0000000-14:00", debezium="0001-01-01T00:00:00-14:00",
         ces="0001-01-01 00:00:00.0000000 -14:00", qlik="0001-01-01 00:00:00.0000000 -14:00",
         row="0001-01-01 00:00:00.0000000 -14:00"),
    Rare("datetimeoffset(7)", "9999-12-31T23:59:59.9999999+14:00",
         ces="9999-12-31 23:59:59.9999999 +14:00", qlik="9999-12-31 23:59:59.9999999 +14:00",
         row="9999-12-31 23:59:59.9999999 +14:00"),
    Rare("datetimeoffset(0)", "2026-01-01T00:00:00+00:00", debezium="2026-01-01T00:00:00Z",
         ces="2026-01-01 00:00:00 +00:00", qlik="2026-01-01 00:00:00 +00:00",
         row="2026-01-01 00:00:00 +00:00"),
)  # fmt: skip

# Types that no key can have. Their old values are often not sent ("Large values" in docs/types.md).
LARGE = (
    Rare("varchar(max)", ""),
    Rare("nvarchar(max)", "é" * 5000),
    Rare("varbinary(max)", "0x", debezium="", qlik=""),
    Rare("xml", "<a/>", ces=NOT_SENT),
    Rare("text", "x ", ces=NOT_SENT),
    Rare("ntext", "\U0001f600", ces=NOT_SENT),
    Rare("image", "0x01", debezium="AQ==", ces=NOT_SENT, qlik="01"),
)

RARE = (*NUMBERS, *TEXT, *BYTES, *TIMES, *LARGE)
