"""Checks the files of certificates that the rules of hosts name."""

import ssl
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

_MAX_BYTES = 10_000_000


def certificate_problem(key: str, path: str) -> str | None:
    """Why the file that `ca` or `client` names cannot be used; None when it can."""
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:  # OpenSSL would read a device for ever
            return f"'{path}' is not a file of certificates"
        with Path(path).open("rb") as file:
            file.read(1)
        return _CHECKS[key](path)
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            return f"the file '{path}' cannot be used: {_ssl_reason(error)}"
        return f"cannot read the file '{path}': {(error.strerror or str(error)).lower()}"
    except ValueError as error:
        return f"the file '{path}' cannot be used: {error}"


def _authorities_problem(path: str) -> str | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        return f"the file '{path}' holds no certificate in PEM form"
    return None if context.cert_store_stats()["x509"] else f"the file '{path}' holds no certificate in PEM form"


def _client_problem(path: str) -> str | None:
    asked: list[bool] = []

    def refuse() -> str:
        asked.append(True)
        return ""  # a key with a password must not ask the terminal for it

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path, password=refuse)
    except ssl.SSLError as error:
        if asked:
            return f"the private key in '{path}' has a password; store it without one, readable by your user alone"
        if "KEY_VALUES_MISMATCH" in (error.reason or ""):
            return f"the private key in '{path}' does not belong to its first certificate"
        return f"the file '{path}' must hold a certificate and its private key in PEM form"
    return None


def _ssl_reason(error: ssl.SSLError) -> str:
    """The reason of an error of OpenSSL in plain words."""
    return (error.reason or "invalid").replace("_", " ").lower()


_CHECKS: Mapping[str, Callable[[str], str | None]] = {"ca": _authorities_problem, "client": _client_problem}
