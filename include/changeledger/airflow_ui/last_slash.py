"""The address of an app of this plugin without its last slash, as people type it or shorten it.

Airflow mounts an app at `<prefix>/`. It takes `<prefix>` for one of its own pages, and answers that there is
none, in the frame of `/plugin/ledger/changeledger`, too.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class LastSlash:
    """Middleware of Airflow's API server: leads from each prefix (`/changeledger`) to the app below it."""

    def __init__(self, app: ASGIApp, prefixes: Collection[str]) -> None:
        self._app, self._prefixes = app, prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            # Airflow may be served below a path, and a proxy may have taken it off.
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path in self._prefixes:
                query = scope["query_string"].decode("latin-1")
                # Relative to where the browser is.
                app = RedirectResponse(f"{path.rpartition('/')[2]}/{'?' if query else ''}{query}")
        await app(scope, receive, send)
