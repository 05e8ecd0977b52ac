"""Imports aiohttp without the certificates of the machine, which it would load twice."""

import os

from engine.runtime.environment import environment


def import_aiohttp() -> None:
    """Import aiohttp for the first time in a process, before it has threads.

    Its connector makes two TLS contexts as it is imported, which takes 40 ms. `Transport` uses neither: it makes its
    own at the first https request.
    """
    with environment(SSL_CERT_FILE=os.devnull, SSL_CERT_DIR=os.devnull):  # where OpenSSL looks for certificates
        import aiohttp.connector  # noqa: F401


def load_certificates() -> None:
    """Give aiohttp's own context the certificates that it lacks: users' code may send requests with it."""
    from aiohttp import connector

    connector._SSL_CONTEXT_VERIFIED.load_default_certs()
