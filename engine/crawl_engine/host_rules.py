"""Which of several rules applies to a host: names with a port and without, patterns with `*`."""

from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

_T = TypeVar("_T")
ANY = "*"
"""Stands for one or more characters, dots too, in a pattern; alone, the pattern of all hosts."""

NO_PORT = "0"
"""Of the key that stands for all `file:` URLs, which have no host."""


def is_pattern(name: str) -> bool:
    """Whether the name of a rule stands for hosts that the defs do not name."""
    return ANY in name


def split_port(name: str) -> tuple[str, str]:
    """The host and the port of the name of a rule; without a port, an empty text."""
    host, colon, port = name.rpartition(":")
    return (host, port) if colon and port.isdigit() else (name, "")


class _Pattern(NamedTuple):
    prefix: str
    suffix: str
    port: str

    @classmethod
    def of(cls, name: str) -> "_Pattern":
        host, port = split_port(name)
        prefix, _, suffix = host.partition(ANY)
        return cls(prefix, suffix, port)

    @property
    def rank(self) -> tuple[int, bool]:
        """Of two patterns that match a host, the one with the higher rank applies."""
        return len(self.prefix) + len(self.suffix), bool(self.port)

    def matches(self, host: str, port: str) -> bool:
        fixed = len(self.prefix) + len(self.suffix)
        return (
            self.port in ("", port)
            and port != NO_PORT
            and len(host) > fixed
            and host.startswith(self.prefix)
            and host.endswith(self.suffix)
        )


class HostRules(Generic[_T]):
    """Rules by host: the name with the port comes before the one without, names before patterns, longer ones first."""

    def __init__(self, rules: Mapping[str, _T]) -> None:
        """`rules`: by canonical names, of which a pattern has one `*`."""
        self._by_name = dict(rules)
        patterns = [(_Pattern.of(name), rule) for name, rule in rules.items() if is_pattern(name)]
        self._patterns = sorted(patterns, key=lambda one: one[0].rank, reverse=True)

    def find(self, host_key: str) -> _T | None:
        """The rule for a host (`name:port`); None: there is none."""
        return next(self._applying(host_key), None)

    def _applying(self, host_key: str) -> Iterator[_T]:
        host, _, port = host_key.rpartition(":")
        yield from (self._by_name[name] for name in (host_key, host) if name in self._by_name)
        yield from (rule for pattern, rule in self._patterns if pattern.matches(host, port))
