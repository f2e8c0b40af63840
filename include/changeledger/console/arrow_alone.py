"""Arrow for processes that end soon, and for Spark's workers: without pandas."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec


class _NoPandas:
    """Says that there is no pandas, where modules are looked for."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


def load_arrow() -> None:
    """Import pyarrow without pandas.

    pyarrow imports pandas for the first array that it makes of Python values, in case these are pandas' own:
    a fifth of a second. It looks for pandas again where it makes such values (`expect_pandas`).
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa  # noqa: PLC0415 - as above

        pa.array([])
    finally:
        sys.meta_path.remove(finder)


def expect_pandas() -> None:
    """Import pandas, and let pyarrow know again what is its own: a NaN of it is a NULL."""
    import pyarrow as pa  # noqa: PLC0415

    pa.table({}).to_pandas()
