"""Shortens what messages quote from defs: a typo can put a secret in the place of a name."""

import re

from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.late_regex import late_regex

_SECRET_SECTIONS = frozenset({"locatorGroups", "hosts", "baseUrl", "appenders"})
_NAME_END = late_regex(r"[:=\s]")


def shown_key(key: str) -> str:
    """A key up to the first `:`, `=` or blank: what follows may be a value whose separator was mistyped."""
    end = _NAME_END.search(key)
    return key if end is None else f"{key[: end.start()]}…"


def shown_host(name: str) -> str:
    """The name of a host, without what may be credentials in front of `@`, or a value after `=` or a blank."""
    if not re.search(r"[@=\s]", name):
        return name
    credentials, _, host = name.rpartition("@")
    return f"…@{shown_key(host)}" if credentials else shown_key(name)


def may_hold_secrets(path: tuple[int | str, ...]) -> bool:
    """Whether a path leads into a section whose values may be secrets."""
    return not _SECRET_SECTIONS.isdisjoint(path[:1])


def describe_value(node: YamlNode, path: tuple[int | str, ...]) -> str:
    """Describe the value at a path, without its text if that may hold a secret."""
    if node.kind == "scalar" and not node.is_null:
        if not {"headers", "cookies", "auth", "proxy", "login"}.isdisjoint(path):
            return "a text"
        if may_hold_secrets(path) and re.search(r"[:=@\s]", node.text):
            return "a text"
    return node.describe()
