"""A terminal or pipe that is not UTF-8 receives what it can show, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import json
from changeledger.console.process import escape_unknown
from changeledger.console.terminal import print_json, print_table
escape_unknown()
print_table(["name"], [["é → 漢 \\U0001f600"]])
print_json([{"name": "é → 漢 \\U0001f600"}])
"""


def test_what_the_encoding_lacks_is_escaped_as_in_json() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "iso-8859-1", "PYTHONUTF8": "0"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, env=environment)
    lines = ended.stdout.decode("iso-8859-1").splitlines()
    assert "é \\u2192 \\u6f22 \\ud83d\\ude00" in lines[3]
    assert json.loads(lines[-1]) == {"name": "é → 漢 \U0001f600"}
