"""A TCP server whose test writes each response byte by byte: drips, endless bodies, bodies that end too early."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Respond = Callable[[str, socket.socket], None]
"""Gets the path of a request, and writes the response; the connection is closed afterwards."""


class RawServer:
    """One thread for each connection; `paths` lists the requests in order."""

    def __init__(self, respond: Respond, *, with_head: bool = False) -> None:
        """`with_head`: `respond` gets the whole head of the request, not its path."""
        self._with_head = with_head
        self.paths: list[str] = []
        self._respond = respond
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(4096)
                if not part:
                    return
                head += part
            path = head.split(b" ", 2)[1].decode()
            self.paths.append(path)
            self._respond(head.decode("latin-1") if self._with_head else path, connection)


@contextlib.contextmanager
def serve_raw(respond: Respond, *, with_head: bool = False) -> Iterator[RawServer]:
    server = RawServer(respond, with_head=with_head)
    try:
        yield server
    finally:
        server.close()
