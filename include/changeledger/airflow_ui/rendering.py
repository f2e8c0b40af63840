"""Templates filled in for a request: everything is escaped, values of rows are redacted if the installation
says so, and the browser fetches and runs nothing but this app's own."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, pass_context
from jinja2.runtime import Context

from changeledger.airflow_ui import filters
from changeledger.config.settings import Settings
from changeledger.pages.html import environment, stylesheet
from changeledger.pages.redaction import REDACTED

_FOLDER = Path(__file__).parent


# The one script. It is in the page, and the page's policy has its hash: no other one runs.
_SCRIPT = "frame.js"


@cache
def static(name: str) -> str:
    return (_FOLDER / "static" / name).read_text("utf-8")


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def headers() -> dict[str, str]:
    policy = (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self'",
        f"script-src 'sha256-{_digest(static(_SCRIPT))}'",
        "form-action 'self'",
        "frame-ancestors 'self'",
        "base-uri 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def root_of(request: Request) -> str:
    """Where the app's addresses begin."""
    return str(request.scope.get("root_path", ""))


@pass_context
def _value(context: Context, value: Any) -> Any:
    """What comes from a row of a source: see `Settings.redact_values`."""
    return REDACTED if context["redact"] else value


@cache
def _environment() -> Environment:
    return environment(_FOLDER / "templates", {"value": _value, **filters.ALL})


def render(request: Request, template: str, *, status: int = 200, **known: Any) -> HTMLResponse:
    """The template with what is `known`, and in every template:

    `root`: the address of this app; `airflow`: the one of Airflow, both without a slash at the end; `redact`:
    whether values of rows are hidden (the filter `value` does it); `status`: of HTTP.

    Raises UndefinedError for what the template does not find.
    """
    root = root_of(request)
    text = (
        _environment()
        .get_template(template)
        .render(
            root=root,
            airflow=root.removesuffix("/changeledger"),
            redact=Settings().redact_values,
            status=status,
            script=static(_SCRIPT),
            style_version=_digest(stylesheet())[:8],
            **known,
        )
    )
    return HTMLResponse(text, status, headers())
