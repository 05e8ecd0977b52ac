"""Checks the names of hosts, and what stands below a pattern: it names no host.

So no guard is opened for it, and no secret is entrusted to it.
"""

from crawl_engine.defs.builders.definitions import canonical_host
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.defs.yaml.redaction import shown_host
from crawl_engine.host_rules import ANY, is_pattern
from crawl_engine.model.host import SAFE_HEADERS
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import has_secrets

_OF_NAMED_HOSTS = ("private", "login", "auth", "proxy", "tls", "cookies")
"""Keys by which the guard opens a way, or a secret goes out."""


def check(root: YamlNode, problems: Problems) -> None:
    """Check each host."""
    seen: dict[str, SourcePosition] = {}
    for name, entry in root.entries_of("hosts"):
        _check_name(name, entry.place, seen, problems)
        if is_pattern(name):
            _check_pattern(name, entry.node, problems)
        elif entry.node.is_true("shared"):
            message = "`shared` makes one limit of the hosts of a pattern, such as `*.shop.example`; remove it"
            problems.add(entry.node.key_place("shared"), "no-effect", message)


def _check_name(name: str, place: SourcePosition, seen: dict[str, SourcePosition], problems: Problems) -> None:
    host = canonical_host(name)
    if host is None:
        wanted = "write a name or address, optionally with a port: `shop.example`"
        if is_pattern(name):
            wanted = f"a pattern has one `{ANY}` in a name or IPv4 address, optionally with a port: `*.shop.example`"
        problems.add(place, "bad-host", f"'{shown_host(name)}' is not a host; {wanted}")
    elif host in seen:
        problems.add(place, "duplicate-name", f"'{name}' is already defined at {seen[host]}")
    else:
        seen[host] = place


def _check_pattern(name: str, node: YamlNode, problems: Problems) -> None:
    for key in _OF_NAMED_HOSTS:
        if key in node.entries:
            message = f"`{key}` is for hosts that you name; '{shown_host(name)}' may be any: write the name of the host"
            problems.add(node.key_place(key), "conflict", message)
    for header, entry in node.entries_of("headers"):
        if header.lower() not in SAFE_HEADERS or has_secrets(entry.node.text):
            message = f"`{header}` may hold a secret, and '{shown_host(name)}' may be any host; name the host"
            problems.add(entry.place, "conflict", message)
