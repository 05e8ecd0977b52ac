"""Rules of sitemaps in the node: which entries become jobs, of which group, and how long the rules may take."""

import random
import time
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.model.definition import Definitions, TaskGroup, definition_hash
from crawl_engine.model.job import JobKind, link_key, sitemap_key
from crawl_engine.model.locator import SitemapLink, SitemapRules
from crawl_engine.node.def_cache import DefsVersion
from crawl_engine.node.extraction.page_extraction import UnreadablePage
from crawl_engine.node.extraction.result import SitemapResult
from crawl_engine.node.handlers import sitemap_job as sitemap_routing
from crawl_engine.node.handlers.sitemap_job import NOT_FOLLOWED, SitemapChildren, SitemapHandler, SitemapRouting
from crawl_engine.urls import QueryStripper
from tests.unit.node.leased_jobs import change, leased

PRIORITIES = {"detail": 7, "shelf": 0}
LINKS = SitemapRules(
    deny=("/old/",),
    links=(
        SitemapLink(allow=("/p/",), deny=("/p/0",), group="detail"),
        SitemapLink(allow=("/gone/",), group="gone"),
        SitemapLink(allow=("/s/",), group="shelf", priority=3),
        SitemapLink(allow=("^http://a/own",)),
    ),
)


def test_regexes_are_searched_in_the_absolute_url() -> None:
    rules = SitemapRules(allow=("^http://a/p/", "x$"), deny=("old",))
    routing = SitemapRouting(rules, "g", {}, 4)
    entries = ["/p/1", "p/2", "/q", "/old/x", "http://b/x", "ftp://a/p/1"]
    assert routing.choose("http://a/map.xml", entries) == [0, 0, NOT_FOLLOWED, NOT_FOLLOWED, 0, NOT_FOLLOWED]
    assert [(route.group, route.priority) for route in routing.routes if route] == [("g", 4)]


def test_the_first_rule_that_takes_an_entry_counts() -> None:
    routing = SitemapRouting(LINKS, "g", PRIORITIES, 4)
    entries = ["/p/1", "/p/0", "/s/p/1", "/s/1", "/own", "/other", "/old/p/1", "/gone/1"]
    chosen = routing.choose("http://a/map.xml", entries)
    routes = [None if index == NOT_FOLLOWED else routing.routes[index] for index in chosen]
    assert [route and (route.group, route.priority) for route in routes] == [
        ("detail", 7), None, ("detail", 7), ("shelf", 3), ("g", 4), None, None, None,
    ]  # fmt: skip


def test_a_pattern_that_never_ends_fails_the_sitemap_within_seconds() -> None:
    routing = SitemapRouting(SitemapRules(allow=(r"(?:a|aa)+$",)), "g", {}, 0)
    with pytest.raises(UnreadablePage, match="a rule of the sitemap: the pattern"):
        routing.choose("http://a/", ["/" + "a" * 60 + "b"] * 5)


def test_a_url_that_is_taken_for_normalized_is() -> None:
    rng = random.Random(1)
    ends = ["shop.example", "a.b-c.co", "a.1", "a.0x1", "xn--a.b", "x..a", "127.0.0.1"]
    parts = ["/", "a", "B", ".", "..", "/./", "/..", "//", "~", "-", "_", "1"]
    urls_ = ["http://" + rng.choice(ends) + "/" + "".join(rng.choices(parts, k=rng.randint(0, 6))) for _ in range(5000)]
    taken = [url for url in urls_ if sitemap_routing._NORMALIZED.fullmatch(url)]
    assert len(taken) > 500
    assert all(urls.normalize(url) == url for url in taken)


def sitemap(*pages: str, nested: tuple[str, ...] = ()) -> SitemapResult:
    return SitemapResult(pages=pages, sitemaps=nested)


async def list_children(
    rules: SitemapRules | None, found: SitemapResult | None = None, stripper: QueryStripper | None = None,
    read_sitemap: Any = None,
) -> SitemapChildren:  # fmt: skip

    groups = tuple(TaskGroup(name=name, priority=priority) for name, priority in PRIORITIES.items())
    handler = SitemapHandler(
        1000,
        Mock(read_sitemap=read_sitemap or AsyncMock(return_value=(found, Mock()))),
        Mock(sitemap_rules=Mock(return_value=rules)),
        Mock(
            version=Mock(return_value=DefsVersion(Definitions(task_groups=groups))),
            query_stripper=Mock(return_value=stripper),
        ),
        Mock(),
    )
    share = ByteBudget(capacity=1000, largest=1000).open_share()
    job = change(leased(1), locator_id=3)
    return await handler.list_children(job, "http://a/map.xml", b"<urlset/>", share)


async def test_entries_become_jobs_of_their_groups_and_files_of_an_index_are_followed_regardless() -> None:
    children = await list_children(LINKS, sitemap("/p/1", "/x", "/s/1", nested=("/old/nested.xml",)))
    made = [(child.group, child.url, child.priority, child.kind, child.depth) for child in children.first]
    group, priority = leased(1).group, leased(1).lineage.priority
    assert made == [
        ("detail", "http://a/p/1", 7, JobKind.PAGE, 0),
        ("shelf", "http://a/s/1", 3, JobKind.PAGE, 0),
        (group, "http://a/old/nested.xml", priority, JobKind.SITEMAP, 1),
    ]
    assert (children.entries, children.denied) == (3, 1)
    assert children.first[0].identity == link_key("detail", "http://a/p/1")
    key = sitemap_key(group, leased(1).lineage.locator, "http://a/old/nested.xml", None, rules=definition_hash(LINKS))
    assert children.first[2].identity == key


async def test_without_rules_all_entries_are_jobs_of_the_group_with_the_keys_of_ever() -> None:
    children = await list_children(None, sitemap("/p/1", "/x", nested=("/nested.xml",)))
    assert {child.group for child in children.first} == {leased(1).group}
    assert (children.entries, children.denied) == (3, 0)
    assert children.first[2].identity == sitemap_key(
        leased(1).group, leased(1).lineage.locator, "http://a/nested.xml", None
    )  # fmt: skip


async def test_pages_get_the_moment_of_their_entries_and_nested_sitemaps_none() -> None:
    entries = sitemap("/p/1", "/x", "/s/1", "/p/2", "/p/2", "/s/2", "/s/2", nested=("/n.xml",))
    entries = replace(entries, modified=(10, 20, 0, 30, 40, 50, 0))
    children = await list_children(replace(LINKS, since="lastRun"), entries)
    made = [(child.url, child.fresh_since) for child in children.first]
    assert made == [
        ("http://a/p/1", 10.0), ("http://a/s/1", None), ("http://a/p/2", 40.0), ("http://a/s/2", None),
        ("http://a/n.xml", None),
    ]  # fmt: skip
    everything = await list_children(SitemapRules(since="lastRun"), replace(entries, sitemaps=()))
    assert [child.fresh_since for child in everything.first] == [10.0, 20.0, None, 40.0, None]
    assert everything.denied == 0
    assert [child.fresh_since for child in (await list_children(None, sitemap("/x"))).first] == [None]


async def test_moments_are_read_only_with_since() -> None:
    asked: list[float | None] = []

    async def read_sitemap(_: Any, now: float | None, *_names: Any) -> tuple[SitemapResult, Mock]:
        asked.append(now)
        return sitemap("/x"), Mock()

    for rules in (None, LINKS, SitemapRules(since="lastRun")):
        await list_children(rules, read_sitemap=read_sitemap)
    assert asked[:2] == [None, None]
    assert asked[2] == pytest.approx(time.time(), abs=60)


STRIPPER = QueryStripper({"a": ["utm_*", "sid"]})
TRACKED = ["/p/1?utm_a=1", "/p/1?sid=2", "http://a/p/1", "/x?v=1&sid=3", "http://b/p/1?sid=4"]


async def test_entries_lose_the_keys_that_their_host_drops() -> None:
    children = await list_children(None, sitemap(*TRACKED, nested=("/nested.xml?page=2&sid=5",)), STRIPPER)
    group = leased(1).group
    urls_ = ["http://a/p/1", "http://a/x?v=1", "http://b/p/1?sid=4", "http://a/nested.xml?page=2"]
    assert [child.url for child in children.first] == urls_
    assert [child.identity for child in children.first[:3]] == [link_key(group, url) for url in urls_[:3]]
    assert children.first[3].identity == sitemap_key(group, leased(1).lineage.locator, urls_[3], None)


async def test_rules_of_sitemaps_see_the_stripped_url() -> None:
    rules = SitemapRules(allow=(r"/p/\d$", "v=1$"), deny=("sid",))
    children = await list_children(rules, sitemap(*TRACKED), STRIPPER)
    assert [child.url for child in children.first] == ["http://a/p/1", "http://a/x?v=1"]
    assert children.denied == 1


async def test_a_large_sitemap_is_stripped_in_little_time() -> None:
    tracked = [f"http://a/p/{number}?utm_source=mail&utm_campaign=x&id=7" for number in range(50_000)]
    seconds = []
    for stripper in (None, STRIPPER):
        began = time.process_time()
        children = await list_children(None, sitemap(*tracked), stripper)
        made = list(children.first) + [child for piece in children.later or () for child in piece]
        seconds.append(time.process_time() - began)
        assert len(made) == 50_000
        assert made[-1].url.endswith("?id=7") is (stripper is not None)
    assert seconds[1] - seconds[0] < 2.0, seconds  # 0.2 s where nothing else runs
