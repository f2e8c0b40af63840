"""Takes screenshots of the pages in Airflow for README and docs, with Chromium.

Run it with `python -m sourcelab.screenshots`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from changeledger.airflow_ui.app import PREFIX
from changeledger.audit.page import ROWS
from changeledger.config.settings import PROJECT, Settings
from changeledger.control import ControlStore
from changeledger.pages.html import put
from sourcelab.filled_store import FilledFeed, fill
from sourcelab.page_client import page_client

_FEEDS = (
    FilledFeed("shop_reference"),
    FilledFeed("shop_debezium", "debezium", trouble="audit"),
    FilledFeed("shop_ces", "ces", quarantined=3, compared_days=31),
    FilledFeed("shop_qlik_messages", "qlik_messages", trouble="running"),
    FilledFeed("shop_qlik_tables", "qlik_tables", trouble="reset"),
)


class _Picture(NamedTuple):
    name: str
    path: str
    width: int
    height: int
    is_dark: bool = False


_PICTURES = (
    _Picture("feeds", "/", 1280, 640),
    _Picture("feeds-dark", "/", 1280, 640, is_dark=True),
    _Picture("feed", "/feeds/shop_debezium", 1280, 1060),
    _Picture("releases", "/feeds/shop_ces/releases", 1280, 640),
    _Picture("agreement", "/agreement/shop?reference=shop_reference&feed=shop_ces", 1280, 1000),
)


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("there is no chromium: apt-get install chromium")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            f"CHANGELEDGER_{name.upper()}": f"{folder}/{name}" for name in ("home", "feeds", "databases")
        }
        settings = Settings()
        fill(settings.control_url, settings.feeds, _FEEDS)
        _keep_offending_rows(settings)
        client = page_client()
        style = client.get(f"{PREFIX}/style.css").text
        for picture in _PICTURES:
            page = Path(folder) / f"{picture.name}.html"
            text = client.get(f"{PREFIX}{picture.path}").text
            page.write_text(re.sub("<link [^>]*>", lambda _: f"<style>{style}</style>", text), "utf-8")
            _take(chromium, page, picture, PROJECT / "docs" / "images" / f"page-{picture.name}.png")
    return 0


def _keep_offending_rows(settings: Settings) -> None:
    """Stores the offending rows of the failed audit, as the audit leaves them beside its page."""
    feed = next(feed.name for feed in _FEEDS if feed.trouble == "audit")
    window = ControlStore(settings.control_url).windows.last(feed)
    assert window is not None, "filled above"
    rows = [
        {
            "key": f"id={1041 + at // 2}",
            "operation": "update",
            "commit_lsn": "00000027000001C80003",
            "change_lsn": f"00000027000001C8000{4 + at // 2}",
            "source_position": f"shop.dbo.customers[0]@{5121 + at}",
        }
        for at in range(3)
    ]
    file = settings.data_docs / feed / window.window_id / ROWS
    put(file, json.dumps([{"table": "dbo.customers", "rule": "order_strict", "rows": rows}]))


def _take(chromium: str, page: Path, picture: _Picture, file: Path) -> None:
    size = f"--window-size={picture.width},{picture.height}"
    theme = ["--blink-settings=preferredColorScheme=0"] if picture.is_dark else []
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ]
    command = [chromium, *options, size, *theme, f"--screenshot={file}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)
    print(f"{file.relative_to(PROJECT)}: {file.stat().st_size / 1000:,.0f} KB")


if __name__ == "__main__":
    sys.exit(main())
