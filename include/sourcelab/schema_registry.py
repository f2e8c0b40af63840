"""A schema registry for tests and the demo: as much of Confluent's REST interface as its clients need.

No registry can be started from published jars alone, so this is our own small server, in memory.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_FORMAT = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """Serves on a free port of the loopback address from enter to exit, with a login if one is given."""

    def __init__(self, login: str | None = None) -> None:
        self.schemas: dict[str, str] = {}
        # `schemaType` by id, of schemas that are not Avro.
        self.types: dict[str, str] = {}
        # All ids that clients asked for, in order.
        self.asked: list[str] = []
        self._login = login
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "the registry is not running"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def register(self, _subject: str, schema: str, kind: str = "AVRO") -> int:
        """Returns the id of a schema; the same text gets the same id. `kind`: AVRO, JSON or PROTOBUF."""
        for number, known in self.schemas.items():
            if known == schema:
                return int(number)
        number = str(len(self.schemas) + 1)
        self.schemas[number] = schema
        if kind != "AVRO":
            self.types[number] = kind
        return int(number)

    def __enter__(self) -> Self:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None, "entered before"
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, asked: BaseHTTPRequestHandler) -> None:
        code, body = self._looked_up(asked.path, asked.headers.get("Authorization"))
        text = json.dumps(body).encode()
        asked.send_response(code)
        asked.send_header("Content-Type", _FORMAT)
        asked.send_header("Content-Length", str(len(text)))
        asked.end_headers()
        asked.wfile.write(text)

    def _looked_up(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        if self._login is not None:
            wanted = f"Basic {base64.b64encode(self._login.encode()).decode()}"
            if authorization != wanted:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        prefix, _, number = path.partition("?")[0].rpartition("/")
        if prefix != "/schemas/ids" or not number.isdigit():
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        self.asked.append(number)
        schema = self.schemas.get(number)
        if schema is None:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        kind = self.types.get(number)
        return 200, {"schema": schema} if kind is None else {"schemaType": kind, "schema": schema}
