"""Lists files over 300 lines and functions over 40. Part of `make lint`.

`--rooms` prints the lines of each room instead.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("include", "jobs", "dags", "scripts", "benchmarks")
MOST_OF_FILE, MOST_OF_FUNCTION = 300, 40


def too_long(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    name, lines = path.relative_to(ROOT), text.count("\n")
    if lines > MOST_OF_FILE:
        yield f"{name}: {lines} lines, at most {MOST_OF_FILE}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > MOST_OF_FUNCTION:
                yield f"{name}:{node.lineno}: {node.name} has {size} lines, at most {MOST_OF_FUNCTION}"


def rooms() -> Iterator[str]:
    """Yields the lines of Python in each room of the package, largest first, and in the whole package."""
    package = ROOT / "include" / "changeledger"
    lines: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        lines[path.relative_to(package).parts[0]] += path.read_text("utf-8").count("\n")
    yield from (f"{count:7,}  {room}" for room, count in lines.most_common())
    yield f"{lines.total():7,}  the package"


def main() -> int:
    if "--rooms" in sys.argv:
        sys.stdout.write("\n".join(rooms()) + "\n")
        return 0
    lines = [
        line
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "versions" not in path.parts  # a migration stays as it was released
        for line in too_long(path)
    ]
    sys.stdout.write("\n".join(lines) + "\n" if lines else "no file and no function is too long\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
