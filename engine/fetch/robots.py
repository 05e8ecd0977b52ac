"""Parses robots.txt (RFC 9309) for one crawler, known by its product token."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from engine.fetch.errors import one_line
from engine.fetch.retry_policy import retryable_status
from engine.fetch.robots_groups import (
    Rule,
    drop_other_agents,
    drop_other_records,
    read_rules,
    rule_text,
    without_rules,
)
from engine.fetch.rule_table import RuleTable, may_be_costly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protego import Protego

MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a robots.txt that count, as far as they are whole lines; the rest is ignored, as RFC 9309 allows."""

_PRODUCT = re.compile(r"[^\s/();,]+")
_COMPATIBLE = re.compile(r"\(compatible;\s*([^\s/();,]+)", re.IGNORECASE)
_AGENT_VERSION = re.compile(r"^(\s*user[- ]?agent\s*:\s*[\w-]+)/.*", re.IGNORECASE | re.ASCII)
_NO_LINE_END = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What Python takes for the end of a line, and RFC 9309 does not."""
_MAX_RULE_LENGTH = 100

LARGE_TEXT = 20_000
"""Characters from which our own table decides: of such a file the parser may take 80 times the text in memory, and
half a second a URL. Both decide the same."""


def product_token(user_agent: str) -> str:
    """The name by which a robots.txt addresses the sender of a User-Agent header, in lower case.

    The first product: `acme-prices` of `acme-prices/1.0 (+https://acme.example)`. The old form
    `Mozilla/5.0 (compatible; acmebot/1.0)` names it in its comment.
    """
    match = _COMPATIBLE.search(user_agent)
    if match is not None:
        return match[1].lower()
    product = _PRODUCT.search(user_agent)
    return product[0].lower() if product is not None else ""


class RobotsRules:
    """The rules of one host for one product token."""

    __slots__ = ("_agent", "_allowed_by_default", "_decides", "_parsed", "_table", "_text", "sitemaps")

    def __init__(self, parsed: Protego | None, *, allowed_by_default: bool, agent: str = "", text: str = "") -> None:
        """`parsed`: decides, unless the text is large; None: there are no rules."""
        self._parsed = parsed
        self._allowed_by_default = allowed_by_default
        self._agent = agent
        self._text = text
        self._decides = len(text) >= LARGE_TEXT
        """Whether the table decides."""
        self._table: RuleTable | None = None
        if self._decides:
            self._find_table()  # now: a large file is parsed beside the loop
        self.sitemaps: tuple[str, ...] = tuple(parsed.sitemaps) if parsed is not None else ()
        """Sitemap URLs as written in the file."""

    @classmethod
    def parse(cls, text: str, agent: str) -> RobotsRules:
        """Parse a robots.txt for a product token; skips invalid lines.

        The token selects the groups of exactly that name, whatever its case, else those of `*`. A version after a name
        in the file is ignored.
        """
        from protego import Protego

        lines = _NO_LINE_END.sub(lambda end: quote(end[0]), text.removeprefix("\ufeff")).splitlines()
        lines = drop_other_records([_AGENT_VERSION.sub(r"\1", line) for line in lines])
        lines, is_named = drop_other_agents(lines, agent.lower())
        text = "\n".join(lines)
        # The parser also matches groups whose name is a part of the agent's; an empty name matches `*` alone.
        name = agent.lower() if is_named else ""
        parsed = Protego.parse(text if len(text) < LARGE_TEXT else "\n".join(without_rules(lines)))
        return cls(parsed, allowed_by_default=True, agent=name, text=text)

    def allowed(self, url: str) -> bool:
        """Whether the URL may be fetched."""
        if self._parsed is None:
            return self._allowed_by_default
        if self._decides:
            rule = self._find_table().find(url)
            return rule is None or rule.allows
        return bool(self._parsed.can_fetch(url, self._agent))

    def is_costly(self, url: str) -> bool:
        """Whether it may take longer than 2 ms to decide about the URL; then `search` may be better."""
        if self._parsed is None or not may_be_costly(self._text, url):
            return False
        return self._find_table().is_costly(url)

    def search(self, url: str) -> Iterator[Rule | None]:
        """The search of a costly one, one step for each rule: None, then the rule that decides, if there is one."""
        return self._find_table().search(url)

    def refusal(self, url: str) -> str | None:
        """As `disallowing_rule`; None: the URL is allowed. One search where the table decides."""
        if self._decides:
            return self.disallowing_rule(url) or None
        return None if self.allowed(url) else self.disallowing_rule(url)

    def disallowing_rule(self, url: str) -> str:
        """The rule that disallows a URL, as `line 12: Disallow: /private/`; empty where none is found."""
        rule = self._find_table().find(url)
        return "" if rule is None or rule.allows else self.describe(rule)

    def _find_table(self) -> RuleTable:
        """The table; read on first use, as most hosts disallow nothing that is asked for."""
        if self._table is None:
            self._table = RuleTable(read_rules(self._text, self._agent or "*"))
        return self._table

    def describe(self, rule: Rule) -> str:
        """The rule as `line 12: Disallow: /private/`."""
        text = one_line(rule_text(self._text, rule))
        return f"line {rule.line}: {text if len(text) <= _MAX_RULE_LENGTH else text[: _MAX_RULE_LENGTH - 1] + '…'}"

    @property
    def crawl_delay(self) -> float | None:
        """Seconds between two requests; None if the file sets no delay."""
        if self._parsed is None:
            return None
        delay = self._parsed.crawl_delay(self._agent)
        return None if delay is None else float(delay)


def robots_rules_for(status: int, text: str, agent: str) -> RobotsRules:
    """The rules after a robots.txt was read.

    2xx: as written. No answer (0), or a status that only passes with time, such as 503 or 429: disallow everything.
    Any other status: the host has none, so everything is allowed.
    """
    if 200 <= status < 300:
        return RobotsRules.parse(text, agent)
    return RobotsRules(None, allowed_by_default=is_readable(status))


def is_readable(status: int) -> bool:
    """Whether a robots.txt that ended with that status says what is allowed, if only by not existing."""
    return status != 0 and not retryable_status(status)
