"""An SMTP server that keeps the messages it receives."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType
from typing import Self


class SmtpServer:
    """Serves a free port of this machine, without login or TLS (as much of RFC 5321 as clients need)."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        messages = self.messages

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 sourcelab")
                while line := self.rfile.readline():
                    command = line.split()[0].upper()
                    if command == b"DATA":
                        self._say("354 go on")
                        messages.append(self._message())
                    self._say("221 bye" if command == b"QUIT" else "250 ok")

            def _message(self) -> str:
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line.removeprefix(b".").decode())
                return "".join(lines)

            def _say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
