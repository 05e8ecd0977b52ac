"""Checks the keys of hosts that say how requests travel."""

from collections.abc import Mapping
from pathlib import Path

from crawl_engine.defs.language.keys import AUTH_KINDS
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.defs.yaml.redaction import shown_host
from crawl_engine.defs.yaml.sources import resolve_beside
from crawl_engine.errors import suggest
from crawl_engine.plugins.catalog import Catalog

_PLAIN_PORT = ":80"


def check(root: YamlNode, paths: Mapping[str, Path], catalog: Catalog, problems: Problems) -> None:
    """Checks each host. `paths` maps the names of the files of the defs, as they are shown, to the files."""
    for name, entry in root.entries_of("hosts"):
        node = entry.node
        if node.kind != "mapping":
            continue
        _check_auth(node, problems)
        _check_delay(node, problems)
        middleware = node.get("middleware")
        for part in [] if middleware is None else (middleware.items or [middleware]):
            _check_middleware(part, catalog, problems)
        if node.has_empty_list("proxy"):
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


def _check_delay(node: YamlNode, problems: Problems) -> None:
    delay = node.get("delay")
    if delay is None or delay.kind != "mapping":
        return
    least, most = (part.value() if (part := delay.get(key)) is not None else None for key in ("min", "max"))
    if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
        message = f"`min` ({least:g} s) is longer than `max` ({most:g} s); change one of them"
        problems.add(delay.key_place("min"), "conflict", message)


def _check_middleware(node: YamlNode, catalog: Catalog, problems: Problems) -> None:
    if node.kind != "scalar" or not node.text.strip():
        return
    plugin_class = catalog.find(node.text)
    if plugin_class is None:
        message = f"unknown middleware '{node.text}'{suggest(node.text, catalog.names('middleware'))}"
        problems.add(node.place, "unknown-middleware", message)
        return
    problem = plugin_class.problem_as("middleware") or plugin_class.problem_of_options(())
    if problem is not None:
        problems.add(node.place, "bad-middleware", plugin_class.describe(problem))


def _check_tls(node: YamlNode, file: Path, problems: Problems) -> None:
    if not node.entries:
        problems.add(node.place, "missing-key", "`tls` needs `verify`, `ca` or `client`")
    if node.text_of("verify") == "false" and "ca" in node.entries:
        message = "`ca` says what to trust, and `verify: false` trusts everything; keep one"
        problems.add(node.key_place("ca"), "conflict", message)
        return
    for key in ("ca", "client"):
        written = node.text_of(key)
        if written is not None and written.strip():
            from crawl_engine.defs.checks.certificates import (
                certificate_problem,  # OpenSSL, which other defs do not need
            )

            problem = certificate_problem(key, resolve_beside(file, written))
            if problem is not None:
                problems.add(node.entries[key].node.place, "bad-certificate", f"`{key}`: {problem}")
