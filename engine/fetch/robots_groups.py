"""Reads the groups of a robots.txt line by line, to name the rule that decides about a URL.

The parser, protego, keeps no line numbers. The reading here follows it, its tolerance included.
"""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

_AGENT = frozenset({"user-agent", "useragent", "user agent"})
_ALLOW = frozenset({"allow"})
_DISALLOW = frozenset({"disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"})
_RULES = _ALLOW | _DISALLOW
_SITE_WIDE = frozenset({"sitemap", "sitemaps", "site-map", "host"})
_OTHER = frozenset({"crawl-delay", "crawl delay", "request-rate", "request rate", "visit-time", "visit time"})
_DIRECTIVES = _AGENT | _RULES | _SITE_WIDE | _OTHER
_MAX_DIRECTIVE_WORDS = 2

_KEPT_IN_URLS = re.compile("%(2f|25)", re.IGNORECASE)
_KEPT_IN_PATTERNS = re.compile("%(2f|25|2a)", re.IGNORECASE)
_INDEX_PAGE = "/index.html"


class Rule(NamedTuple):
    """One Allow or Disallow of a group."""

    line: int
    """Counted from 1."""
    allows: bool
    pattern: str
    """Normalized; it may hold `*`, and `$` at its end."""

    def matches(self, path: str) -> bool:
        """Whether the rule applies to a normalized path with its query."""
        anchored = self.pattern.endswith("$")
        first, *others = (self.pattern[:-1] if anchored else self.pattern).split("*")
        if not others:
            return path == first if anchored else path.startswith(first)
        if not path.startswith(first):
            return False
        position = len(first)
        for part in others[:-1]:
            found_at = path.find(part, position)
            if found_at < 0:
                return False
            position = found_at + len(part)
        if anchored:
            return len(path) - len(others[-1]) >= position and path.endswith(others[-1])
        return path.find(others[-1], position) >= 0


def read_rules(text: str, agent: str) -> list[Rule]:
    """The rules of the groups for a user agent, named in lower case, in order; the first of those that are equal."""
    rules: dict[tuple[bool, str], Rule] = {}
    is_current = False
    previous: str | None = None
    for number, written in enumerate(text.splitlines(), 1):
        directive = _read_directive(_without_comment(written))
        if directive is None:
            continue
        field, value = directive
        if field in _AGENT and previous is not None and previous not in _AGENT:
            is_current = False
        if field not in _SITE_WIDE:
            previous = field
        if not value:
            continue
        if field in _AGENT:
            is_current = is_current or agent in _agent_names(value)
        elif is_current and field in _RULES:
            for rule in _read_rule(number, field in _ALLOW, value):
                rules.setdefault((rule.allows, rule.pattern), rule)
    return list(rules.values())


def rule_text(text: str, rule: Rule) -> str:
    """The line of a rule as written, without its comment."""
    return _without_comment(text.splitlines()[rule.line - 1])


def drop_other_agents(lines: list[str], agent: str) -> tuple[list[str], bool]:
    """The lines without user agents other than that one and `*`, but for one at the start of each group.

    And whether a group is for that agent.

    Lines keep their numbers. The parser's time is the number of agents times that of the rules of their group.
    """
    wanted = {agent, "*"}
    kept = lines.copy()
    in_agents = has_other = is_named = False
    for index, written in enumerate(lines):
        directive = _read_directive(_without_comment(written))
        if directive is None:
            continue
        field, value = directive
        if field not in _AGENT:
            in_agents = in_agents and field in _SITE_WIDE
            continue
        has_other = has_other and in_agents
        in_agents = True
        names = _agent_names(value)
        is_named = is_named or agent in names
        if wanted.isdisjoint(names):
            if has_other:
                kept[index] = ""
            has_other = True
    return kept, is_named


def drop_other_records(lines: list[str]) -> list[str]:
    """The lines, empty where their field is unknown: to the parser, it would end the user agents of a group.

    By RFC 9309, 2.2.4, other records must not interfere.
    """
    directives = [_read_directive(_without_comment(line)) for line in lines]
    return [
        line if directive is None or directive[0] in _DIRECTIVES else ""
        for line, directive in zip(lines, directives, strict=True)
    ]


def without_rules(lines: list[str]) -> list[str]:
    """The lines of all groups, their Allow and Disallow without a value."""
    directives = [_read_directive(_without_comment(line)) for line in lines]
    return [
        line if directive is None or directive[0] not in _RULES else "Disallow:"
        for line, directive in zip(lines, directives, strict=True)
    ]


def _agent_names(value: str) -> list[str]:
    """The names that a user-agent line adds: as written, and without asterisks inside."""
    name = value.lower()
    names = [name] if name == "*" or "*" not in name else [name, name.replace("*", "")]
    return [name for name in names if name]


def _without_comment(line: str) -> str:
    return line.partition("#")[0].strip()


def _read_directive(line: str) -> tuple[str, str] | None:
    """The field and the value of a line; None: it is neither `field: value` nor `field value`."""
    if not line:
        return None
    before, colon, after = line.partition(":")
    field = before.strip().lower()
    if colon and (field in _DIRECTIVES or not after or after[0].isspace()):
        return field, after.strip()
    words = line.split()
    for count in range(1, _MAX_DIRECTIVE_WORDS + 1):
        candidate = " ".join(words[:count]).lower()
        if candidate in _DIRECTIVES:
            return candidate, " ".join(words[count:])
    return (field, after.strip()) if colon else None


def _read_rule(number: int, allows: bool, value: str) -> list[Rule]:
    """The rules of one line: a `$` counts as an anchor at its end, and as an ordinary character."""
    rules: list[Rule] = []
    for pattern in [value.replace("$", "%24"), value] if "$" in value else [value]:
        normalized = _normalize_pattern(pattern)
        if normalized:
            rules.append(Rule(number, allows, normalized))
        if allows and normalized.endswith(_INDEX_PAGE):
            rules.append(Rule(number, allows, normalized.removesuffix("index.html") + "$"))
    return rules


def _normalize_pattern(pattern: str) -> str:
    if pattern.startswith(("https://", "http://")):
        pattern = f"/{pattern}"
    anchor = "$" if pattern.endswith("$") else ""
    return _requote(pattern.removesuffix("$"), _KEPT_IN_PATTERNS, "/%=*") + anchor


def normalize_path(url: str) -> str:
    """The path and query of a URL, as rules are compared with them."""
    url = url.partition("#")[0]
    parts = urlsplit(url)
    path = _requote(parts.path + (f"?{parts.query}" if "?" in url else ""), _KEPT_IN_URLS, "/%=")
    return path if path.startswith("/") else f"/{path}"


def _requote(text: str, kept: re.Pattern[str], safe: str) -> str:
    """The text with one spelling of each percent-encoded character; escapes in `kept` stay as they are."""
    if "%" in text:
        text = unquote(kept.sub(lambda match: f"%25{match[1].upper()}", text))
    return quote(text, safe=safe)
