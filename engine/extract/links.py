"""The links of a page worth following, each judged once for as long as it is remembered. Knows no records, no jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

from engine import urls
from engine.extract.budget import Effort
from engine.extract.node_value import CONTENTS, Item, read
from engine.extract.page import Page, host_name
from engine.extract.patterns import Pattern, TooSlow
from engine.extract.selectors import Scope, Selector, compiled
from engine.model.definition import DataDef, Link
from engine.model.job_key import link_key
from engine.model.record import FoundLink, Rejection

if TYPE_CHECKING:
    from engine.extract.node_value import Node

REMEMBERED = 40_000
"""hrefs whose outcome is kept, for each link of a dataDef; about 0.3 KB each."""

_ABSOLUTE = ("http://", "https://")
_BLANK = "".join(map(chr, range(33)))
_UNSEEN = FoundLink("", "", 0, None)


class Finder:
    """One link of a dataDef, compiled. One whose selector or pattern cannot be compiled finds nothing."""

    def __init__(self, link: Link, priorities: Mapping[str, int]) -> None:
        self.link = link
        self._priorities = priorities
        self._fault: str | None = None
        self._selector: Selector | None = None
        self._allow: tuple[Pattern, ...] = ()
        self._deny: tuple[Pattern, ...] = ()
        # What a relative href means depends on the folder of the base; what is kept of it on host and group too.
        self._known: dict[tuple[str, str, str], dict[str, FoundLink | None]] = {}
        self._room = REMEMBERED
        try:
            self._selector = compiled(link.selector)
            self._allow = tuple(Pattern(text) for text in link.allow)
            self._deny = tuple(Pattern(text) for text in link.deny)
        except ValueError as error:
            self._fault = str(error)

    def found(self, effort: Effort) -> dict[str, FoundLink]:
        """The links by URL, in the document's order. Raises `ValueError` for a fault, `TooSlow` for a pattern."""
        if self._selector is None or self._fault is not None:
            raise ValueError(self._fault or "the link cannot be read")
        page, context = effort.page, effort.context
        if self.link.max_depth is not None and context.depth >= self.link.max_depth:
            return {}
        if context.nofollow and page.nofollow:
            return {}
        hrefs = self._hrefs(self._selector, page, context.nofollow and page.says_nofollow)
        return self._judged(hrefs, effort) if hrefs else {}

    def _hrefs(self, selector: Selector, page: Page, heed_rel: bool) -> dict[str, None]:
        """The page's different hrefs, without fragment, in order."""
        name = self.link.attribute
        nodes = selector.all(Scope(page))
        hrefs: dict[str, None] = {}
        if name in CONTENTS or not (nodes and isinstance(nodes[0], LexborNode)):
            for node in nodes:
                text = _target(node, name)
                if text is not None and not (heed_rel and _nofollow(read(node, "rel"))):
                    hrefs[text.partition("#")[0]] = None
            return hrefs
        for node in nodes:
            # Selectors of CSS give nothing but elements: the plain way, for it is walked a hundred times a page.
            attributes = node.attrs  # type: ignore[union-attr]
            href = attributes.get(name)
            if href is not None and not (heed_rel and _nofollow(attributes.get("rel"))):
                hrefs[href.partition("#")[0]] = None
        return hrefs

    def _judged(self, hrefs: dict[str, None], effort: Effort) -> dict[str, FoundLink]:
        page, group = effort.page, self.link.group or effort.context.group
        base = page.base
        folder = base.partition("?")[0].rpartition("/")[0]
        near = self._memory(folder, page.host, group)
        far = self._memory("", page.host, group)
        found: dict[str, FoundLink] = {}
        for href in hrefs:
            known = far if href.startswith(_ABSOLUTE) else near
            link = known.get(href, _UNSEEN)
            if link is _UNSEEN:
                link = self._judge(base, href, group, far, effort)
                if _lasting(href):
                    known[href] = link
                    self._room -= 1
            if link is not None:
                found[link.url] = link
        if self._room < 0:
            self._known = {}
            self._room = REMEMBERED
        return found

    def _memory(self, folder: str, host: str, group: str) -> "dict[str, FoundLink | None]":
        key = (folder, host, group)
        memory = self._known.get(key)
        if memory is None:
            memory = self._known[key] = {}
            self._room -= 1
        return memory

    def _judge(
        self, base: str, href: str, group: str, far: "dict[str, FoundLink | None]", effort: Effort
    ) -> FoundLink | None:
        """What an href leads to. `far` knows absolute URLs: most are written in many ways, and judged once."""
        url = urls.join(base, href)
        if url is None or (self.link.same_host and host_name(url) != effort.page.host):
            return None
        link = far.get(url, _UNSEEN)
        if link is _UNSEEN:
            link = far[url] = self._allowed(url, group, effort)
            self._room -= 1
        return link

    def _allowed(self, url: str, group: str, effort: Effort) -> FoundLink | None:
        if self._allow and not any(pattern.found_in(url, effort.patience) for pattern in self._allow):
            return None
        if any(pattern.found_in(url, effort.patience) for pattern in self._deny):
            return None
        priority = self._priorities.get(group, 0) if self.link.priority is None else self.link.priority
        return FoundLink(url, group, priority, self.link.max_depth, link_key(group, url))


class Followed:
    """All links of a dataDef. `priorities` are those of the groups, for links without one."""

    def __init__(self, data_def: DataDef, priorities: Mapping[str, int]) -> None:
        self._data_def = data_def
        self._finders = tuple(Finder(link, priorities) for link in data_def.links)

    def of(self, effort: Effort) -> tuple[tuple[FoundLink, ...], tuple[Rejection, ...]]:
        """The links of a page, each URL once a group (the first link that finds it wins), and what hindered."""
        found: dict[tuple[str, str], FoundLink] = {}
        hindered: list[Rejection] = []
        for finder in self._finders:
            try:
                links = finder.found(effort)
            except (ValueError, TooSlow) as reason:
                hindered.append(self._rejection(finder.link, str(reason)))
                continue
            if len(self._finders) == 1:
                return tuple(links.values()), ()
            for link in links.values():
                found.setdefault((link.group, link.url), link)
        return tuple(found.values()), tuple(hindered)

    def _rejection(self, link: Link, reason: str) -> Rejection:
        return Rejection(data_def=self._data_def.name, field="links", reason=reason, place=str(link.place))


def _target(node: "Node", name: str) -> str | None:
    if isinstance(node, str) or (isinstance(node, Item) and not isinstance(node.value, dict)):
        return read(node, "text")
    return read(node, name)


def _lasting(href: str) -> bool:
    """Whether the URL depends on nothing but the folder of the base, or on no base at all."""
    bare = href.strip(_BLANK)
    if not bare or bare[0] == "?" or "\n" in bare or "\t" in bare or "\r" in bare:
        return False
    # `https:?x` is relative where the base is https, too.
    return bare.startswith(_ABSOLUTE) or bare[:4].lower() != "http" or ":" not in bare[:6]


def _nofollow(rel: str | None) -> bool:
    return rel is not None and "nofollow" in rel.lower().split()
