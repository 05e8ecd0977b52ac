"""Checks the keys of hosts that say how requests travel, and the certificates that they name."""

import ssl
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from engine.defs.problems import Problems
from engine.defs.redaction import shown_host
from engine.defs.sources import resolve_beside
from engine.defs.transport_terms import AUTH_KINDS
from engine.defs.yaml_node import YamlNode

_PLAIN_PORT = ":80"
_MAX_BYTES = 10_000_000


def check(root: YamlNode, paths: Mapping[str, Path], problems: Problems) -> None:
    """Checks each host. `paths` maps the names of the files of the defs, as they are shown, to the files."""
    for name, entry in root.entries_of("hosts"):
        node = entry.node
        if node.kind != "mapping":
            continue
        _check_auth(node, problems)
        if "proxy" in node.entries and node.entries["proxy"].node.kind == "list" and not node.list_of("proxy"):
            problems.add(node.key_place("proxy"), "bad-proxy", "the list of proxies is empty; name one")
        tls = node.get("tls")
        if tls is not None and tls.kind == "mapping":
            _check_tls(tls, paths[entry.place.file], problems)
        for key in ("tls", "http2"):
            if name.endswith(_PLAIN_PORT) and key in node.entries and node.text_of(key) != "false":
                message = f"`{key}` needs https, and '{shown_host(name)}' is the port of http; name 443 or no port"
                problems.add(node.key_place(key), "conflict", message)


def _check_auth(node: YamlNode, problems: Problems) -> None:
    auth = node.get("auth")
    if auth is None or auth.kind != "mapping":
        return
    written = [key for key in auth.entries if key in AUTH_KINDS]
    if not auth.entries:
        problems.add(node.key_place("auth"), "missing-key", "`auth` needs one of `basic`, `bearer`, `digest`")
    for key in written[1:]:
        message = f"`{key}` and `{written[0]}` exclude each other; keep one"
        problems.add(auth.key_place(key), "conflict", message)
    for name, entry in node.entries_of("headers"):
        if name.lower() == "authorization":
            problems.add(entry.place, "conflict", f"`{name}` and `auth` set the same header; keep one")


def _check_tls(node: YamlNode, file: Path, problems: Problems) -> None:
    if not node.entries:
        problems.add(node.place, "missing-key", "`tls` needs `verify`, `ca` or `client`")
    if node.text_of("verify") == "false" and "ca" in node.entries:
        message = "`ca` says what to trust, and `verify: false` trusts everything; keep one"
        problems.add(node.key_place("ca"), "conflict", message)
        return
    for key, problem_of in _FILE_CHECKS.items():
        written = node.text_of(key)
        if written is not None and written.strip():
            problem = _file_problem(resolve_beside(file, written), problem_of)
            if problem is not None:
                problems.add(node.entries[key].node.place, "bad-certificate", f"`{key}`: {problem}")


def _file_problem(path: str, problem_of: Callable[[str], str | None]) -> str | None:
    try:
        found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:  # OpenSSL would read a device for ever
            return f"'{path}' is not a file of certificates"
        with Path(path).open("rb") as file:
            file.read(1)
        return problem_of(path)
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            return f"the file '{path}' cannot be used: {ssl_reason(error)}"
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


def ssl_reason(error: ssl.SSLError) -> str:
    """The reason of an error of OpenSSL in plain words."""
    return (error.reason or "invalid").replace("_", " ").lower()


_FILE_CHECKS: Mapping[str, Callable[[str], str | None]] = {"ca": _authorities_problem, "client": _client_problem}
