"""The rules of hosts for query keys to drop, as the defs say them."""

from collections.abc import Mapping

from engine.model.definition import Definitions


def list_query_rules(definitions: Definitions) -> Mapping[str, tuple[str, ...]]:
    """The patterns of query keys to drop, by name of the rule; empty where no host drops any.

    A rule with a port that drops nothing is in it where the rule of its host without the port does: it overrides that.
    The order of patterns means nothing, and they are sorted.
    """
    rules = {rule.name: tuple(sorted(set(rule.drop))) for rule in definitions.hosts}
    named = {name: keys for name, keys in sorted(rules.items()) if keys or rules.get(_without_port(name))}
    return named if any(named.values()) else {}


def _without_port(name: str) -> str:
    host, colon, port = name.rpartition(":")
    return host if colon and port.isdigit() else name
