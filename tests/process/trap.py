"""Servers that must not be reached, and the notations of their address."""

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Iterator


class Trap:
    """Listens, counts the connections, and answers each with a page."""

    def __init__(self, *addresses: str, port: int = 0) -> None:
        self.connections: list[str] = []
        self._listeners: list[socket.socket] = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self._listeners.append(socket.create_server((address, port), family=family))
            port = self._listeners[-1].getsockname()[1]
        self.port = port
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.connections.append(str(listener.getsockname()[0]))
                connection.settimeout(5)
                with contextlib.suppress(OSError), connection:
                    self.answer(connection)

    def answer(self, connection: socket.socket) -> None:
        """Read a request and answer it."""
        connection.recv(65536)
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<b>secret</b>")

    def close(self) -> None:
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # else the thread stays in accept
            listener.close()


@contextlib.contextmanager
def trapping(*addresses: str) -> Iterator[Trap]:
    trap = Trap(*addresses)
    try:
        yield trap
    finally:
        trap.close()


def notations(address: str, port: int) -> list[str]:
    """URLs that a browser takes to an IPv4 address."""
    number = int(ipaddress.IPv4Address(address))
    a, b, c, d = (int(part) for part in address.split("."))
    groups = f"{number >> 16:x}:{number & 0xFFFF:x}"
    wide = address.translate({ord(digit): ord(digit) - ord("0") + 0xFF10 for digit in "0123456789"})
    encoded = "".join(f"%{ord(c):02x}" for c in address)
    hosts = [
        *(address, f"{address}.", str(number), f"{number:#x}", f"0{number:o}", f"{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        *(f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}", wide, encoded),
        *(f"[::ffff:{address}]", f"[::ffff:{groups}]", f"[0:0:0:0:0:ffff:{groups}]", f"[64:ff9b::{groups}]"),
        *(f"[2002:{groups}::1]", f"[::{groups}]", f"user@{address}", f"user:pw@{address}", f"public.example@{address}"),
    ]
    return [
        *(f"http://{host}:{port}/{index}" for index, host in enumerate(hosts)),
        *(
            f"http:\\\\{address}:{port}\\x",
            f"\\\\{address}:{port}\\y",
            f"//{address}:{port}/z",
            f"HTTP:////{address}:{port}",
        ),
    ]
