"""How often Python looks for garbage in a process of ours."""

from __future__ import annotations

import gc

# Objects made before Python looks at the youngest. With its own 700 it looks at all that has been imported
# again and again while more is imported: a fifth of an import's time.
_MADE = 50_000


def collect_rarely() -> None:
    """For a process that ends soon: a job or a command."""
    gc.set_threshold(_MADE, *gc.get_threshold()[1:])
