"""Asks protego what a robots.txt (RFC 9309) allows one crawler, and names the line that disallows."""

import re
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from crawl_engine.errors import one_line
from crawl_engine.late_regex import late_regex
from crawl_engine.model.retry_policy import retryable_status

if TYPE_CHECKING:
    from protego import Protego

LARGE_TEXT = 20_000
"""A file of more characters is parsed and asked in an extraction process, under its limits."""

_MAX_CRAWL_DELAY = 3600.0
"""Seconds between two requests that a robots.txt may ask for; as long as a Retry-After counts."""
_MAX_RULE_LENGTH = 100
_NO_LINE_END = late_regex("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that end a line for Python, but not for RFC 9309."""
AGENT = late_regex(r"\s*user[-\s]*agent(?:\s*:|\s|$)([^#]*)", re.IGNORECASE)
RULE = late_regex(r"\s*(?:(d[ias]+l+[oa]w)|allow|crawl[-\s]+delay)(?:\s*:|\s|$)([^#]*)", re.IGNORECASE)
_SITE_WIDE = late_regex(r"\s*(?:site-?maps?|host)(?:\s*:|\s)", re.IGNORECASE)
_OTHERS = "(others)"
"""Stands for all other crawlers: their number costs no time. No product token contains it."""


class RobotsRules:
    """The rules of one file for one product token: the groups of that name in any case, else those of `*`."""

    def __init__(self, text: str, agent: str) -> None:
        from protego import Protego

        self._agent = agent.lower() or "*"
        self._lines = [self._simplify(line) for line in split_lines(text)]
        self._parsed = Protego.parse("\n".join(self._lines))

    @property
    def crawl_delay(self) -> float:
        """Seconds between two requests that the file asks for."""
        return self._parsed.crawl_delay(self._agent) or 0.0

    @cached_property
    def allows_all(self) -> bool:
        """Whether the file disallows nothing, for any crawler."""
        return not any((rule := RULE.match(line)) and rule[1] and rule[2].strip() for line in self._lines)

    def disallowing_rule(self, url: str) -> str | None:
        """The rule that disallows a URL, as `line 12: Disallow: /private/`; None: it is allowed."""
        if self._parsed.can_fetch(url, self._agent):
            return None
        return next((line for line, alone in self._disallows if not alone.can_fetch(url, "*")), "")

    @cached_property
    def _disallows(self) -> "list[tuple[str, Protego]]":
        """The rules of the group, the longest first, each parsed alone: the first that matches a URL decides."""
        from protego import Protego

        wanted = _agent_line(self._agent if _agent_line(self._agent) in self._lines else "*")
        rules: list[tuple[int, str, Protego]] = []
        in_group = in_agents = False
        for number, line in enumerate(self._lines, 1):
            if AGENT.match(line):
                in_group = line == wanted or (in_group and in_agents)
                in_agents = True
            elif rule := RULE.match(line):
                in_agents = False
                if in_group and rule[1]:
                    name = f"line {number}: {_shorten(line.partition('#')[0])}"
                    rules.append((len(rule[2].strip()), name, Protego.parse(f"{_agent_line('*')}\n{line}")))
        rules.sort(key=lambda rule: -rule[0])
        return [(name, parsed) for _, name, parsed in rules]

    def _simplify(self, line: str) -> str:
        """The line with the name of a user agent as protego is asked for it; empty for records of other protocols.

        To protego, such a record would end the user agents of a group; by RFC 9309, 2.2.4, it must not interfere.
        """
        if agent := AGENT.match(line):
            name = agent_name(agent[1])
            return _agent_line(name if name in (self._agent, "*") else _OTHERS)
        return line if RULE.match(line) or _SITE_WIDE.match(line) else ""


class HostRobots(NamedTuple):
    """The robots.txt of one host."""

    readable: bool = True
    """Whether the file, or its absence, says what is allowed; if not, nothing is allowed until it can be read."""
    problem: str = ""
    """Why it cannot be read."""
    crawl_delay: float = 0.0
    """Seconds between two requests, as written."""
    rules: RobotsRules | None = None
    """Of a file that is not large; None where everything is allowed, or nothing."""
    ask: Callable[[str], Awaitable[str | None]] | None = None
    """Of a large file: as `RobotsRules.disallowing_rule`, answered by an extraction process."""

    @property
    def allows_all(self) -> bool:
        """Whether every URL may be fetched."""
        return self.readable and self.ask is None and (self.rules is None or self.rules.allows_all)

    @property
    def delay(self) -> float:
        """Seconds between two requests, as far as its Crawl-delay counts."""
        return min(self.crawl_delay, _MAX_CRAWL_DELAY)

    @property
    def has_answer(self) -> bool:
        """Whether its host answered at all."""
        return self.readable or self.problem.startswith("HTTP ")

    def refusal(self, url: str) -> str | None:
        """Why the URL may not be fetched; None: it may. For a file that is not large."""
        if not self.readable:
            answer = self.problem.removeprefix("HTTP ")
            return f"robots.txt cannot be read: {answer}" if answer == self.problem else f"robots.txt answered {answer}"
        rule = None if self.rules is None else self.rules.disallowing_rule(url)
        return None if rule is None else disallowed_by(rule)


def parse_robots(status: int, text: str, agent: str) -> HostRobots:
    """The robots.txt of a host for a product token. `text`: of the file, or why it cannot be read.

    2xx: as written. No answer (0), or a status that only passes with time, such as 503 or 429: nothing is allowed.
    Any other status: the host has no robots.txt, so everything is.
    """
    if not is_readable(status):
        return HostRobots(readable=False, problem=text)
    if not 200 <= status < 300:
        return HostRobots()
    rules = RobotsRules(text, agent)
    return HostRobots(crawl_delay=rules.crawl_delay, rules=rules)


def split_lines(text: str) -> list[str]:
    """The lines of a file."""
    return _NO_LINE_END.sub(lambda end: quote(end[0]), text.removeprefix("\ufeff")).splitlines()


def agent_name(written: str) -> str:
    """The product token of a `User-agent` line in lower case, without a version or a `*` behind it; or `*`."""
    name = written.strip().lower()
    return name if name == "*" else name.partition("/")[0].strip().replace("*", "")


def is_readable(status: int) -> bool:
    """Whether a robots.txt that ended with that status, or its absence, says what is allowed."""
    return status != 0 and not retryable_status(status)


def disallowed_by(rule: str) -> str:
    """Why a URL may not be fetched that this rule disallows."""
    return f"robots.txt disallows it ({rule})" if rule else "robots.txt disallows it"


def _agent_line(name: str) -> str:
    return f"User-agent: {name}"


def _shorten(line: str) -> str:
    text = one_line(line)
    return text if len(text) <= _MAX_RULE_LENGTH else text[: _MAX_RULE_LENGTH - 1] + "…"
