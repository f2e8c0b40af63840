"""Renders templates for a request.

Everything is escaped, and row values are redacted if the installation says so. The browser fetches and runs
only what belongs to this app.
"""

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


# The only script. It is part of the page, whose policy contains its hash, so that no other script runs.
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
    """Returns the path at which the app's addresses begin."""
    return str(request.scope.get("root_path", ""))


@pass_context
def _value(context: Context, value: Any) -> Any:
    """Returns a row's value, or hides it, see `Settings.redact_values`."""
    return REDACTED if context["redact"] else value


@cache
def _environment() -> Environment:
    return environment(_FOLDER / "templates", {"value": _value, **filters.ALL})


def render(request: Request, template: str, *, status: int = 200, **known: Any) -> HTMLResponse:
    """Renders the template with the variables `known`, and with those that every template has.

    These are `root`, the address of this app, and `airflow`, that of Airflow, both without a final slash;
    `redact`, whether values of rows are hidden (by the filter `value`); and `status`, the HTTP status.

    Raises UndefinedError for an unknown variable.
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
