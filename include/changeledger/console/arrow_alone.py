"""Loads Arrow without pandas, for short-lived processes and for Spark's workers."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec


class _NoPandas:
    """A module finder that pretends that pandas does not exist."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def load_arrow() -> None:
    """Imports pyarrow without pandas.

    pyarrow imports pandas, in a fifth of a second, for the first array that it makes of Python values, in
    case these are values of pandas. It looks for pandas again when it makes such values (`expect_pandas`).
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa  # noqa: PLC0415 - as above

        pa.array([])
    finally:
        sys.meta_path.remove(finder)


def expect_pandas() -> None:
    """Imports pandas and lets pyarrow recognize its values again: pyarrow reads a NaN of pandas as NULL."""
    import pyarrow as pa  # noqa: PLC0415

    pa.table({}).to_pandas()
