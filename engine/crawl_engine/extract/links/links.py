"""Finds the links to follow on a page; caches the result of each href across pages."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborNode

from crawl_engine.extract.page.page import MAX_URL_CHARACTERS, host_name, resolve_url
from crawl_engine.extract.page.patterns import PatternTimeout, Replacement, TimeBudget, TimedPattern
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.node_value import CONTENT_ATTRIBUTES, JsonValue, read_node
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.extract.select.selectors import compile_selector
from crawl_engine.extract.select.srcset import is_srcset, read_candidates
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import DataDef
from crawl_engine.model.job import link_key
from crawl_engine.model.link import Link, TextSource
from crawl_engine.model.record import ExtractedLink, Rejection
from crawl_engine.urls import QueryStripper, route_of

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode

MAX_CACHED_LINKS = 40_000
"""hrefs cached for each link of a dataDef."""

_MAX_CACHED_OF_PAGE = MAX_CACHED_LINKS // 4
"""Links of a page with more elements are not cached: memory is short beside its tree."""

MAX_PAGE_URL_CHARACTERS = 20_000_000
"""Characters of the URLs of all links of a page: each relative one repeats the base."""

_NODES_PER_STEP = 2_000
"""Elements whose links are resolved before the limits are checked."""

_ABSOLUTE = ("http://", "https://")
_SEGMENT = r"(?!\.)[\w~!$&()*+,;=.-]*+(?:%(?!2[eE])[\w~!$&()*+,;=.-]*+)*+"
_PLAIN_PATH = late_regex(
    rf"(?=.)((?:\.\./)*+)(?![/?])(?:{_SEGMENT}/)*+{_SEGMENT}(?:\?[\w~!$&()*+,;=.%/-]*+)?", re.ASCII
)
"""Relative URLs that a parser joins to a folder as they are written; group 1: the levels above it."""
_BLANK_CHARACTERS = "".join(map(chr, range(33)))
_NOT_CACHED = ExtractedLink("", "", 0, None)


class LinkFinder:
    """A compiled link of a dataDef. If its selector or a pattern does not compile, it finds nothing."""

    def __init__(
        self, link: Link, priorities: Mapping[str, int], query_stripper: QueryStripper | None = None,
        sources: Sequence[TextSource] = (),
    ) -> None:  # fmt: skip
        """`sources`: of the documents inside the page that its dataDef reads."""
        self.link = link
        self.number = 0
        """Among the links of its dataDef."""
        if link.source is not None or link.in_block:
            sources = () if link.source is None else (link.source,)
        self._query_stripper = query_stripper
        self._priorities = priorities
        self._reads_slowly = link.attribute in CONTENT_ATTRIBUTES or is_srcset(link.attribute)
        self._compile_error: str | None = None
        self._selector: Selector | None = None
        self._wide_selector: Selector | None = None
        self._replacements: tuple[Replacement, ...] = ()
        self._allow: tuple[TimedPattern, ...] = ()
        self._deny: tuple[TimedPattern, ...] = ()
        # A relative href resolves by the folder of the base URL; whether the link is kept depends on host and group.
        self._cache: dict[tuple[str, str, str], dict[str, ExtractedLink | None]] = {}
        self._cache_capacity = MAX_CACHED_LINKS
        try:
            self._selector = compile_selector(link.selector or None, sources)
            self._wide_selector = self._selector
            tag = link.selector.removesuffix(f"[{link.attribute}]")
            if tag.isalnum() and not self._reads_slowly:
                # An element without the attribute gives no link, and `a` is found sooner than `a[href]`.
                self._wide_selector = compile_selector(tag, sources)
            self._replacements = tuple(Replacement(pattern, text) for pattern, text in link.replace)
            self._allow = tuple(TimedPattern(text) for text in link.allow)
            self._deny = tuple(TimedPattern(text) for text in link.deny)
        except ValueError as error:
            self._compile_error = str(error)

    @property
    def own_source(self) -> Selector | None:
        """Its selector, if the link has a source of its own."""
        return None if self.link.source is None else self._selector

    @property
    def speed(self) -> Speed:
        """How long one search of its selector may take."""
        return Speed.QUICK if self._selector is None else self._selector.speed

    def is_barred(self, reading: PageReading) -> bool:
        """Whether the page leads nowhere by this link: it is too deep, or asks not to be followed."""
        page, context = reading.page, reading.context
        if self.link.max_depth is not None and context.depth >= self.link.max_depth:
            return True
        return context.nofollow and context.meta_nofollow and "nofollow" in page.robots(context.agent)

    def select(self, scope: Scope, *, wide: bool = False) -> "Iterator[SelectedNode]":
        """The elements, one by one; `wide`: perhaps more that give no link. Raises `ValueError` (does not compile)."""
        selector = self._wide_selector if wide else self._selector
        if selector is None or self._compile_error is not None:
            raise ValueError(self._compile_error or "the link cannot be read")
        return selector.each(scope)

    def select_followed(self, scope: Scope, reading: PageReading) -> "Iterator[SelectedNode]":
        """The elements that are not marked nofollow, or all if that is ignored. Raises `ValueError`."""
        check_rel = reading.context.nofollow and reading.page.mentions_nofollow
        return (node for node in self.select(scope) if not (check_rel and has_nofollow(read_node(node, "rel"))))

    def find_links(
        self, reading: PageReading, max_links: int, scope: Scope | None = None
    ) -> tuple[dict[str, ExtractedLink], int]:
        """The first links by URL, in document order, and how many elements beyond `max_links` were dropped.

        `scope`: the block to search; None: the page. Raises `ValueError` (does not compile) and `PatternTimeout`.
        """
        page, context = reading.page, reading.context
        nodes = self.select(scope or Scope(page), wide=True)
        if self.is_barred(reading):
            return {}, 0
        check_rel = context.nofollow and page.mentions_nofollow
        stripper = self._query_stripper
        has_routes = stripper is not None and self._target_group(reading) in stripper.routed
        links: dict[str, ExtractedLink] = {}
        while part := list(islice(nodes, _NODES_PER_STEP)):
            hrefs = self._collect_hrefs(part, check_rel, reading.time_budget, has_routes=has_routes)
            if hrefs:
                self._add_links(hrefs, links, reading)
            if len(links) > max_links or len(links) * len(page.base) > MAX_PAGE_URL_CHARACTERS:
                return links, _drop_last_links(links, max_links) + self._count(nodes)
        reading.time_budget.check_patience()  # a search takes time even if it finds nothing
        return links, 0

    def _count(self, nodes: "Iterator[SelectedNode]") -> int:
        if self._wide_selector is not self._selector:
            return sum(read_node(node, self.link.attribute) is not None for node in nodes)
        return sum(1 for _ in nodes)

    def _target_group(self, reading: PageReading) -> str:
        return self.link.group or reading.context.group

    def _collect_hrefs(
        self, nodes: "Sequence[SelectedNode]", check_rel: bool, time_budget: TimeBudget, *, has_routes: bool
    ) -> dict[str, None]:
        """The distinct hrefs of the elements, in document order; with fragments if `replace` may read a script.

        `has_routes`: with the fragments that are routes.
        """
        name = self.link.attribute
        written: dict[str | None, None] = {}
        if self._reads_slowly or not (nodes and isinstance(nodes[0], LexborNode)):
            for node in nodes:
                time_budget.check_patience()
                if not (check_rel and has_nofollow(read_node(node, "rel"))):
                    written |= dict.fromkeys(read_hrefs(node, self.link))
        else:
            # Hot path: a CSS selector returns only elements, so their kind is not checked.
            if check_rel:
                nodes = [node for node in nodes if not has_nofollow(node.attrs.get("rel"))]  # type: ignore[union-attr]
            written = dict.fromkeys([node.attrs.get(name) for node in nodes])  # type: ignore[union-attr]
        if self._replacements:
            return dict.fromkeys([href for href in written if href is not None])
        if has_routes:
            return dict.fromkeys([href.partition("#")[0] + route_of(href) for href in written if href is not None])
        return dict.fromkeys([href.partition("#")[0] for href in written if href is not None])

    def _add_links(self, hrefs: dict[str, None], links: dict[str, ExtractedLink], reading: PageReading) -> None:
        page, group = reading.page, self._target_group(reading)
        base = page.base
        folder = base.partition("?")[0].rpartition("/")[0]
        by_href = self._cache_for(folder, page.host, group)
        by_url = self._cache_for("", page.host, group)
        # what `replace` makes of an href may depend on the whole base
        is_cached = not self._replacements and len(links) + len(hrefs) <= _MAX_CACHED_OF_PAGE
        for href in hrefs:
            link = by_href.get(href, _NOT_CACHED)
            if link is _NOT_CACHED:
                link = by_url.get(href, _NOT_CACHED)
            if link is _NOT_CACHED:
                url = _join_plainly(base, folder, href)
                link = by_url.get(url, _NOT_CACHED)
                if link is _NOT_CACHED:
                    link = self._resolve(href, url, reading, by_url if is_cached else {})
                if is_cached and _is_cacheable(href):
                    cache = by_url if href.startswith(_ABSOLUTE) else by_href
                    cache[href] = link
                    self._cache_capacity -= 1
            if link is not None:
                links[link.url] = link
        if self._cache_capacity < 0:
            self._cache = {}
            self._cache_capacity = MAX_CACHED_LINKS

    def _cache_for(self, folder: str, host: str, group: str) -> "dict[str, ExtractedLink | None]":
        key = (folder, host, group)
        cache = self._cache.get(key)
        if cache is None:
            cache = self._cache[key] = {}
            self._cache_capacity -= 1
        return cache

    def resolve_href(self, href: str, reading: PageReading) -> ExtractedLink | None:
        """The link of an href; None: not followed. Raises `PatternTimeout`, and `ValueError` (`replace`)."""
        return self._resolve(href, "", reading, {})

    def find_url(self, href: str, reading: PageReading) -> str | None:
        """The URL of an href as the rules judge it; None: not an http URL. Raises as `resolve_href`.

        `replace` gets the absolute URL, or what is not one as it is written, such as `javascript:open('/tea')`.
        """
        group = self._target_group(reading)
        url = resolve_url(reading.page.base, href, self._query_stripper, group)
        if not self._replacements:
            return url
        text = url or href
        for replacement in self._replacements:
            text = replacement.apply(text, reading.time_budget)
        if text == url:
            return url
        return resolve_url(reading.page.base, text, self._query_stripper, group) if text.strip() else None

    def _resolve(
        self, href: str, joined: str, reading: PageReading, by_url: "dict[str, ExtractedLink | None]"
    ) -> ExtractedLink | None:
        """The link of an href, whose URL may be `joined` already; otherwise that is empty."""
        url: str | None = joined
        if not joined or self._replacements or self._query_stripper is not None or len(joined) > MAX_URL_CHARACTERS:
            url = self.find_url(href, reading)
        if url is None:
            return None
        link = by_url.get(url, _NOT_CACHED)
        if link is _NOT_CACHED:
            link = by_url[url] = self._judge(url, reading)
            self._cache_capacity -= 1
        return link

    def _judge(self, url: str, reading: PageReading) -> ExtractedLink | None:
        """The link of a URL; None: not followed. Raises `PatternTimeout`."""
        reading.time_budget.check_patience()
        if self.refusal(url, reading):
            return None
        group = self._target_group(reading)
        priority = self._priorities.get(group, 0) if self.link.priority is None else self.link.priority
        return ExtractedLink(
            url, group, priority, self.link.max_depth, link_key(group, url), may_leave_host=not self.link.same_host
        )

    def refusal(self, url: str, reading: PageReading) -> str:
        """Why a URL is not followed; empty: it is followed. Raises `PatternTimeout`.

        `{host}` stands for the host of the URL, `{replaced}` for what `replace` made of it.
        """
        if self.link.same_host and host_name(url) != reading.page.host:
            return "another host, {host}; `sameHost: false` would follow it"
        if self._allow and not any(pattern.has_match(url, reading.time_budget) for pattern in self._allow):
            return "none of `allow` matches its URL{replaced}"
        if any(pattern.has_match(url, reading.time_budget) for pattern in self._deny):
            return "one of `deny` matches its URL{replaced}"
        return ""


class LinkExtractor:
    """The links of a dataDef. `priorities` holds the priority of each group, for links that set none."""

    def __init__(
        self, data_def: DataDef, priorities: Mapping[str, int], max_links: int,
        query_stripper: QueryStripper | None = None,
    ) -> None:  # fmt: skip
        self._data_def = data_def
        self._max_links = max_links
        self.finders = tuple(
            LinkFinder(link, priorities, query_stripper, data_def.sources)
            for link in data_def.links
            if not link.reads_records
        )
        for finder in self.finders:
            finder.number = data_def.links.index(finder.link)
        self.own_sources = [finder.own_source for finder in self.finders]

    @property
    def speed(self) -> Speed:
        return max((finder.speed for finder in self.finders), default=Speed.QUICK)

    def extract(self, reading: PageReading) -> tuple[tuple[ExtractedLink, ...], tuple[Rejection, ...], int]:
        """The first links of a page, each URL once per group (the first finder wins), and the failed links.

        The last value is the number of dropped links beyond `max_links`.
        """
        found: list[Collection[ExtractedLink]] = []
        rejections: list[Rejection] = []
        dropped = 0
        for finder in self.finders:
            try:
                links, left = finder.find_links(reading, self._max_links)
            except (ValueError, PatternTimeout) as error:
                rejections.append(reject_link(self._data_def, finder.link, str(error)))
                continue
            found.append(links.values())
            dropped += left
            if links or not finder.is_barred(reading):
                reading.link_counts[finder.number] = len(links)
        if len(found) == 1:
            return tuple(found[0]), tuple(rejections), dropped
        by_key: dict[bytes, ExtractedLink] = {}
        for links_found in found:
            for link in links_found:
                by_key.setdefault(link.key, link)
        kept, more = limit_links([by_key.values()], self._max_links)
        return tuple(kept), tuple(rejections), dropped + more


def reject_link(data_def: DataDef, link: Link, reason: str) -> Rejection:
    """The rejection of a link that cannot be searched for."""
    return Rejection(data_def=data_def.name, field="links", reason=reason, place=str(link.place))


def limit_links(parts: Sequence[Collection[ExtractedLink]], max_links: int) -> tuple[list[ExtractedLink], int]:
    """The links of all parts with at most `max_links` distinct pages, and how many were dropped.

    All URLs together have at most `MAX_PAGE_URL_CHARACTERS`.
    """
    links = [link for part in parts for link in part]
    if len(links) <= max_links and _fits(links):
        return links, 0
    keys: set[bytes] = set()
    kept: list[ExtractedLink] = []
    left = MAX_PAGE_URL_CHARACTERS
    for link in links:
        left -= len(link.url)
        if left < 0:
            break
        if link.key in keys:
            kept.append(link)
        elif len(keys) < max_links:
            keys.add(link.key)
            kept.append(link)
    return kept, len(links) - len(kept)


def _fits(links: Sequence[ExtractedLink]) -> bool:
    few = len(links) * MAX_URL_CHARACTERS <= MAX_PAGE_URL_CHARACTERS
    return few or sum(len(link.url) for link in links) <= MAX_PAGE_URL_CHARACTERS


def _drop_last_links(links: dict[str, ExtractedLink], max_links: int) -> int:
    """Drop links beyond `max_links` and the limit of all URLs; returns their number."""
    before = len(links)
    excess = sum(map(len, links)) - MAX_PAGE_URL_CHARACTERS
    while len(links) > max_links or excess > 0:
        excess -= len(links.popitem()[0])
    return before - len(links)


def read_hrefs(node: "SelectedNode", link: Link) -> list[str]:
    """The URLs as written: several of a `srcset`. A blank text is missing; a blank `href` is the page itself."""
    name = link.attribute
    if isinstance(node, str) or (isinstance(node, JsonValue) and not isinstance(node.value, dict)):
        name = "text"
    text = read_node(node, name)
    if text is None or (name in CONTENT_ATTRIBUTES and not text.strip()):
        return []
    return read_candidates(text, largest=link.largest) if is_srcset(name) else [text]


def _join_plainly(base: str, folder: str, href: str) -> str:
    """The URL of a plain path, or of the page itself, as a parser joins it to the base; empty: only a parser can.

    `folder`: the base up to its last slash.
    """
    if "@" in base or not base.startswith(_ABSOLUTE):
        return ""
    if not href:
        return base
    match = _PLAIN_PATH.fullmatch(href)
    if match is None:
        return ""
    if up := match.end(1):
        levels = up // 3
        if levels > folder.count("/") - 2:  # those of `http://`
            return ""
        folder, href = folder.rsplit("/", levels)[0], href[up:]
    return f"{folder}/{href}"


def _is_cacheable(href: str) -> bool:
    """Whether the URL depends at most on the folder of the base."""
    bare = href.strip(_BLANK_CHARACTERS)
    if not bare or bare[0] in "?#" or "\n" in bare or "\t" in bare or "\r" in bare:
        return False
    # `https:?x` is relative to an https base.
    return bare.startswith(_ABSOLUTE) or bare[:4].lower() != "http" or ":" not in bare[:6]


def has_nofollow(rel: str | None) -> bool:
    return rel is not None and "nofollow" in rel.lower().split()
