"""A receiver of posted rows that keeps what it got, and fails as it is told."""

import json
import random
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Fault = Literal["refuse", "lose"]
"""Answer 503 without storing; or store, and close the connection without an answer."""


class Receiver:
    """Stores by id, as a user's receiver would: a batch that comes again under its key is not stored again."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        """What it holds, by id: the objects as they came."""
        self.bodies: dict[str, bytes] = {}
        """The content of each key."""
        self.contents: dict[int, dict[str, Any]] = {}
        """The content of each row that ever came, by id."""
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        """How often it stored, and each fault."""
        self.headers: dict[str, str] = {}
        """Of the last request."""
        self.delay = 0.0
        """Seconds before an answer."""
        self.answer = (200, {}, b"null")
        """Status, headers and body while no fault is due."""
        self.rng = random.Random(1)
        self.refuses = self.loses = 0.0
        """Share of the requests."""
        self._lock = threading.Lock()
        self._port = 0
        self._server: _Server | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/rows"

    def start(self) -> None:
        """Listen, on the same port each time."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.receiver = self
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def die(self) -> None:
        """Close all connections, and listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.close_connections()

    def fault(self) -> Fault | None:
        """The fault of the next request."""
        with self._lock:
            drawn = self.rng.random()
        if drawn < self.refuses:
            return "refuse"
        return "lose" if drawn < self.refuses + self.loses else None

    def store(self, key: str, body: bytes) -> None:
        """Keep a batch, if its key is new."""
        with self._lock:
            if self.bodies.setdefault(key, body) != body:
                self.violations.append(f"{key} has two contents")
            self.counts["posts"] += 1
            for change in json.loads(body, parse_float=str):
                if change.get("deleted"):
                    if change.keys() != {"id", "run", "dataDef", "deleted"}:
                        self.violations.append(f"bad deletion: {change}")
                    self.rows.pop(change["id"], None)
                else:
                    if change.keys() != {"id", "run", "dataDef", "row"}:
                        self.violations.append(f"bad row: {change}")
                    if self.contents.setdefault(change["id"], change) != change:
                        self.violations.append(f"two contents: {change}")
                    self.rows[change["id"]] = change

    def values(self) -> Counter[tuple[str, ...]]:
        """The rows, as `Library.rows` counts them."""
        return Counter((change["dataDef"], *map(str, change["row"].values())) for change in self.rows.values())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    receiver: Receiver

    def __init__(self, *arguments: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self.connections):
            connection.close()

    def handle_error(self, *_: Any) -> None:
        """A client that is killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.headers = dict(self.headers)
        time.sleep(receiver.delay)
        fault = receiver.fault()
        receiver.counts[fault or "answered"] += 1
        status, headers, content = receiver.answer
        if fault == "refuse":
            status, headers, content = 503, {}, b"try again"
        elif 200 <= status < 300:
            receiver.store(self.headers["Idempotency-Key"], body)
        if fault == "lose":
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""
