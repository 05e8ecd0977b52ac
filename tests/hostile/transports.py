"""The ways in which hostile answers reach a crawl: plain, over TLS, through a proxy or a tunnel."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.process.certificates import Authority
from tests.process.proxy import serve_proxy

NAMES = ("plain", "tls", "proxy", "tunnel")


@dataclass(frozen=True, slots=True)
class HostileTransport:
    """What the server speaks, and the keys of its host that lead a crawl there."""

    name: str
    tls: ssl.SSLContext | None
    host_keys: str


@contextmanager
def open_transport(name: str, folder: Path) -> Iterator[HostileTransport]:
    """Certificates are written into the folder; a proxy serves meanwhile."""
    with ExitStack() as stack:
        context, keys = None, ""
        if name in ("tls", "tunnel"):
            authority = Authority(folder)
            context = authority.server_context()
            keys += f", tls: {{ca: '{authority.path}'}}"
        if name in ("proxy", "tunnel"):
            proxy = stack.enter_context(serve_proxy("us:er"))
            keys += f", proxy: 'http://us:er@127.0.0.1:{proxy.port}'"
        yield HostileTransport(name, context, keys)
