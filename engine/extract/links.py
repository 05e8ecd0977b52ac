"""The links of a page worth following, each judged once for as long as it is remembered. Knows no records, no jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

from engine import urls
from engine.extract.budget import Budget
from engine.extract.node_value import CONTENT_ATTRIBUTES, JsonValue, read_node
from engine.extract.page import Page, host_name
from engine.extract.patterns import PatternTimeout, TimedPattern
from engine.extract.selectors import Scope, Selector, compile_selector
from engine.model.definition import DataDef, Link
from engine.model.job_key import link_key
from engine.model.record import ExtractedLink, Rejection

if TYPE_CHECKING:
    from engine.extract.node_value import SelectedNode

MAX_CACHED_LINKS = 40_000
"""hrefs whose outcome is kept, for each link of a dataDef; about 0.3 KB each."""

_ABSOLUTE = ("http://", "https://")
_BLANK_CHARACTERS = "".join(map(chr, range(33)))
_NOT_CACHED = ExtractedLink("", "", 0, None)


class LinkFinder:
    """One link of a dataDef, compiled. One whose selector or pattern cannot be compiled finds nothing."""

    def __init__(self, link: Link, priorities: Mapping[str, int]) -> None:
        self.link = link
        self._priorities = priorities
        self._compile_error: str | None = None
        self._selector: Selector | None = None
        self._allow: tuple[TimedPattern, ...] = ()
        self._deny: tuple[TimedPattern, ...] = ()
        # What a relative href means depends on the folder of the base; what is kept of it on host and group too.
        self._cache: dict[tuple[str, str, str], dict[str, ExtractedLink | None]] = {}
        self._cache_room = MAX_CACHED_LINKS
        try:
            self._selector = compile_selector(link.selector)
            self._allow = tuple(TimedPattern(text) for text in link.allow)
            self._deny = tuple(TimedPattern(text) for text in link.deny)
        except ValueError as error:
            self._compile_error = str(error)

    def find_links(self, effort: Budget) -> dict[str, ExtractedLink]:
        """The links by URL, in the document's order. Raises `ValueError` for a fault, `TooSlow` for a pattern."""
        if self._selector is None or self._compile_error is not None:
            raise ValueError(self._compile_error or "the link cannot be read")
        page, context = effort.page, effort.context
        if self.link.max_depth is not None and context.depth >= self.link.max_depth:
            return {}
        if context.nofollow and page.nofollow:
            return {}
        hrefs = self._collect_hrefs(self._selector, page, context.nofollow and page.mentions_nofollow)
        return self._resolve_hrefs(hrefs, effort) if hrefs else {}

    def _collect_hrefs(self, selector: Selector, page: Page, heed_rel: bool) -> dict[str, None]:
        """The page's different hrefs, without fragment, in order."""
        name = self.link.attribute
        nodes = selector.all(Scope(page))
        hrefs: dict[str, None] = {}
        if name in CONTENT_ATTRIBUTES or not (nodes and isinstance(nodes[0], LexborNode)):
            for node in nodes:
                text = _read_href(node, name)
                if text is not None and not (heed_rel and _has_nofollow(read_node(node, "rel"))):
                    hrefs[text.partition("#")[0]] = None
            return hrefs
        for node in nodes:
            # Selectors of CSS give nothing but elements: the plain way, for it is walked a hundred times a page.
            attributes = node.attrs  # type: ignore[union-attr]
            href = attributes.get(name)
            if href is not None and not (heed_rel and _has_nofollow(attributes.get("rel"))):
                hrefs[href.partition("#")[0]] = None
        return hrefs

    def _resolve_hrefs(self, hrefs: dict[str, None], effort: Budget) -> dict[str, ExtractedLink]:
        page, group = effort.page, self.link.group or effort.context.group
        base = page.base
        folder = base.partition("?")[0].rpartition("/")[0]
        near = self._cache_for(folder, page.host, group)
        far = self._cache_for("", page.host, group)
        found: dict[str, ExtractedLink] = {}
        for href in hrefs:
            known = far if href.startswith(_ABSOLUTE) else near
            link = known.get(href, _NOT_CACHED)
            if link is _NOT_CACHED:
                link = self._resolve_href(base, href, group, far, effort)
                if _is_cacheable(href):
                    known[href] = link
                    self._cache_room -= 1
            if link is not None:
                found[link.url] = link
        if self._cache_room < 0:
            self._cache = {}
            self._cache_room = MAX_CACHED_LINKS
        return found

    def _cache_for(self, folder: str, host: str, group: str) -> "dict[str, ExtractedLink | None]":
        key = (folder, host, group)
        memory = self._cache.get(key)
        if memory is None:
            memory = self._cache[key] = {}
            self._cache_room -= 1
        return memory

    def _resolve_href(
        self, base: str, href: str, group: str, far: "dict[str, ExtractedLink | None]", effort: Budget
    ) -> ExtractedLink | None:
        """What an href leads to. `far` knows absolute URLs: most are written in many ways, and judged once."""
        url = urls.join(base, href)
        if url is None or (self.link.same_host and host_name(url) != effort.page.host):
            return None
        link = far.get(url, _NOT_CACHED)
        if link is _NOT_CACHED:
            link = far[url] = self._check_patterns(url, group, effort)
            self._cache_room -= 1
        return link

    def _check_patterns(self, url: str, group: str, effort: Budget) -> ExtractedLink | None:
        if self._allow and not any(pattern.has_match(url, effort.time_budget) for pattern in self._allow):
            return None
        if any(pattern.has_match(url, effort.time_budget) for pattern in self._deny):
            return None
        priority = self._priorities.get(group, 0) if self.link.priority is None else self.link.priority
        return ExtractedLink(url, group, priority, self.link.max_depth, link_key(group, url))


class LinkExtractor:
    """All links of a dataDef. `priorities` are those of the groups, for links without one."""

    def __init__(self, data_def: DataDef, priorities: Mapping[str, int]) -> None:
        self._data_def = data_def
        self._finders = tuple(LinkFinder(link, priorities) for link in data_def.links)

    def extract(self, effort: Budget) -> tuple[tuple[ExtractedLink, ...], tuple[Rejection, ...]]:
        """The links of a page, each URL once a group (the first link that finds it wins), and what hindered."""
        found: dict[tuple[str, str], ExtractedLink] = {}
        hindered: list[Rejection] = []
        for finder in self._finders:
            try:
                links = finder.find_links(effort)
            except (ValueError, PatternTimeout) as reason:
                hindered.append(self._rejection(finder.link, str(reason)))
                continue
            if len(self._finders) == 1:
                return tuple(links.values()), ()
            for link in links.values():
                found.setdefault((link.group, link.url), link)
        return tuple(found.values()), tuple(hindered)

    def _rejection(self, link: Link, reason: str) -> Rejection:
        return Rejection(data_def=self._data_def.name, field="links", reason=reason, place=str(link.place))


def _read_href(node: "SelectedNode", name: str) -> str | None:
    if isinstance(node, str) or (isinstance(node, JsonValue) and not isinstance(node.value, dict)):
        return read_node(node, "text")
    return read_node(node, name)


def _is_cacheable(href: str) -> bool:
    """Whether the URL depends on nothing but the folder of the base, or on no base at all."""
    bare = href.strip(_BLANK_CHARACTERS)
    if not bare or bare[0] == "?" or "\n" in bare or "\t" in bare or "\r" in bare:
        return False
    # `https:?x` is relative where the base is https, too.
    return bare.startswith(_ABSOLUTE) or bare[:4].lower() != "http" or ":" not in bare[:6]


def _has_nofollow(rel: str | None) -> bool:
    return rel is not None and "nofollow" in rel.lower().split()
