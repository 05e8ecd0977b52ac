"""Imports aiohttp without the certificates of the machine, which it would load twice."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Variables with other values until the end of the block. To be used before the process has threads."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def import_aiohttp() -> None:
    """Import aiohttp for the first time in a process, before it has threads.

    Its connector makes two TLS contexts as it is imported. `Transport` uses neither: it makes its own at the first
    https request. httpx is spared its command line, with rich and click.
    """
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    with environment(SSL_CERT_FILE=os.devnull, SSL_CERT_DIR=os.devnull):  # where OpenSSL looks for certificates
        import aiohttp.connector  # noqa: F401


def load_certificates() -> None:
    """Give aiohttp's own context the certificates that it lacks: plugin code may send requests with it."""
    from aiohttp import connector

    connector._SSL_CONTEXT_VERIFIED.load_default_certs()
