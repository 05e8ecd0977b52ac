"""Searches the rules of a robots.txt for the one that decides about a URL."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from engine.fetch.robots_groups import Rule, normalize_path

_ROBOTS_PATH = "/robots.txt"

_CHARACTERS_OF_A_RULE = 700
"""Characters of a URL that are searched in the time that a rule with wildcards takes anyhow, 1 µs."""
_CHARACTERS_OF_A_PREFIX = 100
_COSTLY = 1_400_000
"""Characters that take 2 ms to search, about 1.4 ns each: a part of a rule that the URL lacks takes all of them."""
_CHARACTERS_OF_A_PATTERN = 5
"""Characters of a robots.txt for each pattern, at least: `Allow:/*$` and its end make two."""


def may_be_costly(text: str, url: str) -> bool:
    """Whether a search of all rules that such a text may have could take longer than 2 ms."""
    return len(text) // _CHARACTERS_OF_A_PATTERN * (_CHARACTERS_OF_A_RULE + len(url)) > _COSTLY


class RuleTable:
    """The rules of one group, those that decide first: a longer one before a shorter, an Allow before a Disallow."""

    __slots__ = ("_prefixes", "_rules", "_wildcards")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = sorted(rules, key=lambda rule: (len(rule.pattern), rule.allows), reverse=True)
        self._wildcards = [rule for rule in self._rules if "*" in rule.pattern or rule.pattern.endswith("$")]
        self._prefixes = tuple({rule.pattern for rule in self._rules}.difference(r.pattern for r in self._wildcards))

    def find(self, url: str) -> Rule | None:
        """The rule that decides about a URL; None: no rule does, so it is allowed."""
        return next((rule for rule in self.search(url) if rule is not None), None)

    def search(self, url: str) -> Iterator[Rule | None]:
        """One by one, None for a rule that does not match, then the rule that decides, unless there is none."""
        if _ROBOTS_PATH in url and urlsplit(url).path == _ROBOTS_PATH:  # allowed by whatever rule
            return
        path = normalize_path(url)
        for rule in self._rules if path.startswith(self._prefixes) else self._wildcards:
            if rule.matches(path):
                yield rule
                return
            yield None

    def is_costly(self, url: str) -> bool:
        """Whether a search for the URL may take longer than 2 ms: one of 7,000 characters among 200 wildcards."""
        wildcards = len(self._wildcards) * (_CHARACTERS_OF_A_RULE + len(url))
        return wildcards + len(self._rules) * _CHARACTERS_OF_A_PREFIX > _COSTLY
