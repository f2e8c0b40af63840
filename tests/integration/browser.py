"""Chromium without a window, driven by Debian's chromedriver over the W3C WebDriver protocol."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from sourcelab.process import free_port

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_ENTER = "\ue007"
# Ctrl-A, so that typing replaces what is in the input.
_ALL = "\ue009a\ue000"
_ARGUMENTS = [
    "--headless=new",
    "--window-size=1600,1400",
    # For containers: tests may run as root, and /dev/shm may be small.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    # There is only one page: earlier pages are not kept alive, nor drawn in their own process.
    "--in-process-gpu",
    "--disable-features=BackForwardCache",
    "--renderer-process-limit=1",
    # Each frame costs CPU, since there is no GPU.
    "--force-prefers-reduced-motion",
    "--lang=en-US",
]


def missing() -> str | None:
    """Returns what to install if there is no browser, or None if there is one."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no {', no '.join(lacking)}: apt-get install chromium chromium-driver" if lacking else None


class Browser:
    """A browser with one page."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __enter__(self) -> Self:
        port = free_port()
        command = [
            shutil.which("chromedriver") or "chromedriver",
            f"--port={port}",
            f"--log-path={self._log}",
        ]
        self._driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        self._session = ""
        options = {"binary": shutil.which("chromium"), "args": _ARGUMENTS}
        asked = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        until(self._is_up, 30, lambda: "chromedriver does not answer")
        self._session = (
            self._http.post("/session", json=asked).raise_for_status().json()["value"]["sessionId"]
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            self._http.delete(f"/session/{self._session}")
        self._http.close()
        self._driver.terminate()
        self._driver.wait()

    def _is_up(self) -> bool:
        try:
            return bool(self._http.get("/status").json()["value"]["ready"])
        except httpx.TransportError:
            return False

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._http.request(method, f"/session/{self._session}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()["value"]

    def go(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        return str(self._call("GET", "/url"))

    @property
    def text(self) -> str:
        return str(self.script("return document.body ? document.body.innerText : ''"))

    def script(self, code: str, *arguments: Any) -> Any:
        return self._call("POST", "/execute/sync", {"script": code, "args": list(arguments)})

    def all(self, xpath: str) -> list[str]:
        elements = self._call("POST", "/elements", {"using": "xpath", "value": xpath})
        return [element[_ELEMENT] for element in elements]

    def find(self, xpath: str, seconds: float = 30) -> str:
        """Waits for a matching element, and returns the first."""
        until(lambda: self.all(xpath), seconds, lambda: f"{xpath} is not on {self.url}:\n{self.text[:3000]}")
        return self.all(xpath)[0]

    def click(self, xpath: str, seconds: float = 30) -> None:
        """Clicks an element once it can be clicked: what covers it may be fading out."""

        def clicked() -> bool:
            element = self.find(xpath, seconds)
            path = f"/session/{self._session}/element/{element}/click"
            return self._http.post(path, json={}).is_success

        until(clicked, seconds, lambda: f"{xpath} cannot be clicked on {self.url}")

    def type(self, xpath: str, text: str, *, enter: bool = False) -> None:
        """Types a text in place of the present one."""
        element = self.find(xpath)
        self._call("POST", f"/element/{element}/value", {"text": _ALL + text + (_ENTER if enter else "")})

    def value(self, xpath: str) -> str:
        """Returns the value of an input."""
        return str(self._call("GET", f"/element/{self.find(xpath)}/property/value"))

    def attribute(self, xpath: str, name: str) -> str | None:
        reported: str | None = self._call("GET", f"/element/{self.find(xpath)}/attribute/{name}")
        return reported

    def enter_frame(self) -> None:
        """Directs what follows to the page in the frame, until `leave_frame`."""
        element = self.find("//iframe")
        self._call("POST", "/frame", {"id": {_ELEMENT: element}})

    def leave_frame(self) -> None:
        self._call("POST", "/frame", {"id": None})


def until(holds: Callable[[], object], seconds: float, complaint: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.2)
