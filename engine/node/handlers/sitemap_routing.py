"""Decides by the rules of a sitemap which of its entries are followed, and into which group each leads."""

import re
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from engine import urls
from engine.extract.page.patterns import PatternTimeout, TimeBudget, TimedPattern
from engine.model.definition import definition_hash
from engine.model.locator import SitemapRules
from engine.model.record import Texts, as_text
from engine.node.extraction.page_extraction import UnreadablePage
from engine.urls import QueryStripper

_MAX_SECONDS = 10.0
"""For all searches in one sitemap of 50,000 entries, which take 0.1 s as a rule."""
_ENTRIES_PER_BUDGET = 1_000
"""The time limits of patterns are those of a page: this many entries count as one."""
_NORMALIZED = re.compile(r"https?://(?!.*(?:xn--|/\.))(?:[a-z0-9-]+\.)+[a-z][a-z-]*/[A-Za-z0-9/_.~-]*")
"""Some of the URLs that are normalized already, without a port or query."""
NOT_FOLLOWED = -1


class Route(Struct, frozen=True):
    """Where entries lead."""

    group: str
    priority: int


class SitemapRouting:
    """The compiled rules of one sitemap."""

    def __init__(
        self, rules: SitemapRules, group: str, priorities: Mapping[str, int], priority: int,
        query_stripper: QueryStripper | None = None,
    ) -> None:  # fmt: skip
        """`group`: the locator's own, whose jobs have `priority`; `priorities`: of the groups that the defs have.

        A rule for another group takes its entries, and they are not followed.
        """
        self.key = definition_hash(rules)
        self._takes_all = rules.takes_all
        self._query_stripper = query_stripper
        self._allow, self._deny = _compile(rules.allow), _compile(rules.deny)
        self._links = [(_compile(link.allow), _compile(link.deny)) for link in rules.links] or [((), ())]
        self.routes: list[Route | None] = [Route(group, priority)] if not rules.links else []
        for link in rules.links:
            target = link.group or group
            own = priority if target == group else priorities.get(target, 0)
            chosen = own if link.priority is None else link.priority
            self.routes.append(Route(target, chosen) if target in priorities or target == group else None)

    def choose(self, base: str, entries: Texts) -> list[int]:
        """For each entry the index of its route, or NOT_FOLLOWED. Raises UnreadablePage past the time limit."""
        if self._takes_all:
            return [0] * len(entries)
        stop_at = time.monotonic() + _MAX_SECONDS
        chosen: list[int] = []
        try:
            for index, written in enumerate(entries):
                if index % _ENTRIES_PER_BUDGET == 0:
                    budget = TimeBudget()
                if time.monotonic() > stop_at:
                    raise UnreadablePage(f"the rules of the sitemap take more than {_MAX_SECONDS:g} s")
                chosen.append(self._choose_one(base, as_text(written), budget))
        except PatternTimeout as error:
            raise UnreadablePage(f"a rule of the sitemap: {error}") from error
        return chosen

    def _choose_one(self, base: str, written: str, budget: TimeBudget) -> int:
        # most entries are normalized URLs: the rules of URLs would take longer than those of the sitemap
        target = written if _NORMALIZED.fullmatch(written) else self._join(base, written)
        if target is None or not _accepts(self._allow, self._deny, target, budget):
            return NOT_FOLLOWED
        for index, (allow, deny) in enumerate(self._links):
            if _accepts(allow, deny, target, budget):
                return NOT_FOLLOWED if self.routes[index] is None else index
        return NOT_FOLLOWED

    def _join(self, base: str, written: str) -> str | None:
        target = urls.join(base, written)
        return target if target is None or self._query_stripper is None else self._query_stripper.strip_url(target)


def _accepts(allow: Sequence[TimedPattern], deny: Sequence[TimedPattern], url: str, budget: TimeBudget) -> bool:
    return (not allow or any(pattern.has_match(url, budget) for pattern in allow)) and not any(
        pattern.has_match(url, budget) for pattern in deny
    )


def _compile(patterns: Sequence[str]) -> tuple[TimedPattern, ...]:
    return tuple(map(TimedPattern, patterns))
