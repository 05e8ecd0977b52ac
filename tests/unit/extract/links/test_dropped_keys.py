"""Query keys that hosts drop: of links, of tables, and of URLs that plugin code follows; not of fields."""

from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.axis import Axis, AxisTable
from crawl_engine.model.definition import DataDef, Field, Link
from crawl_engine.model.job import link_key, locator_key
from crawl_engine.node.extraction.steps.context import PageContext
from crawl_engine.urls import QueryStripper
from tests.unit.extract.pages import CONTEXT, URL, page

HOST = "https://shop.example"
WITH_PASSWORD = HOST.replace("//", "//us:pw@")
STRIPPER = QueryStripper({"shop.example": ["utm_*", "sid"], "other.example": ["ref"]})
HREFS = [
    "/p/1?utm_source=a", f"{HOST}/p/1?utm_source=b#top", "../p/1?sid=7", "/p/1", "/p/2?sid=1&v=%7e&utm_x", "/p/2?v=%7e",
    "p-3.html?utm_a=1", "./p-3.html?sid=2", "p-3.html", "?sid=4", "//other.example/?ref=1&sid=2", "/P/1?SID=1",
]  # fmt: skip
CLEAN = [
    f"{HOST}/p/1", f"{HOST}/p/2?v=%7e", f"{HOST}/catalogue/p-3.html", URL, "https://other.example/?sid=2",
    f"{HOST}/P/1?SID=1",
]  # fmt: skip


def extractor(link: Link, stripper: QueryStripper | None = STRIPPER) -> RecordExtractor:
    return RecordExtractor(DataDef(name="d", links=(link,)), query_stripper=stripper)


def anchors(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)


def test_a_page_is_one_link_however_it_is_tracked() -> None:
    following = extractor(Link(selector="a", same_host=False))
    for _ in range(2):  # the second time from the cache
        links = following.extract(page(anchors(*HREFS)), CONTEXT).links
        assert [link.url for link in links] == CLEAN
        assert [link.key for link in links] == [link_key("books", url) for url in CLEAN]
    for href in HREFS:  # a cache that has learned from the page gives what an empty one gives
        fresh = extractor(Link(selector="a", same_host=False)).extract(page(anchors(href)), CONTEXT).links
        assert following.extract(page(anchors(href)), CONTEXT).links == fresh


def test_rules_for_urls_see_the_stripped_one() -> None:
    text = anchors("/p/1?utm_a=1", "/p/2?id=1&sid=2", "/q?sid=1")
    links = extractor(Link(selector="a", allow=(r"/p/\d(\?id=1)?$",), deny=("sid",))).extract(page(text), CONTEXT).links
    assert [link.url for link in links] == [f"{HOST}/p/1", f"{HOST}/p/2?id=1"]


@pytest.mark.parametrize("selector", ["a", "xpath: //a/@href", "xpath: //a"])
def test_every_kind_of_selector(selector: str) -> None:
    assert [link.url for link in extractor(Link(selector=selector)).extract(page(anchors(*HREFS)), CONTEXT).links] == [
        url for url in CLEAN if "other" not in url
    ]


def test_links_of_json() -> None:
    text = '{"next": "/p/1?sid=3", "all": [{"u": "/p/2?utm_a=1"}, {"u": "/p/2"}]}'
    found = [
        link.url
        for selector, attribute in (("jmespath: next", "href"), ("jmespath: all", "u"))
        for link in extractor(Link(selector=selector, attribute=attribute))
        .extract(page(text, kind="json"), CONTEXT)
        .links
    ]
    assert found == [f"{HOST}/p/1", f"{HOST}/p/2"]


def test_fields_keep_their_urls_and_without_rules_links_do_too() -> None:
    fields = (Field(name="u", selector="a", attribute="href", type="url"),)
    data_def = DataDef(name="d", fields=fields, links=(Link(selector="a"),))
    text = anchors("/p/1?utm_a=1")
    stripped = RecordExtractor(data_def, query_stripper=STRIPPER).extract(page(text), CONTEXT)
    assert stripped.rows == ({"u": f"{HOST}/p/1?utm_a=1"},)
    assert [link.url for link in stripped.links] == [f"{HOST}/p/1"]
    assert [link.url for link in RecordExtractor(data_def).extract(page(text), CONTEXT).links] == [
        f"{HOST}/p/1?utm_a=1"
    ]


def test_links_of_tables() -> None:
    item = Axis(name="link", selector="a:nth-child(%{index}) attribute: href", first=1, last=3, link_group="other")
    table = AxisTable(block="body", items=(item,), facts=(Axis(name="fact"),), flavour="css", makes_links=True)
    text = "<body>" + anchors("/a?sid=1", "/b?v=1&sid=1", f"{WITH_PASSWORD}/a?utm_x=2")
    links = RecordExtractor(DataDef(name="t", axis=table), query_stripper=STRIPPER).extract(page(text), CONTEXT).links
    assert [link.url for link in links] == [f"{HOST}/a", f"{HOST}/b?v=1"]
    assert links[0].key == locator_key("other", "catalogue", f"{HOST}/a", "GET", None)
    plain = RecordExtractor(DataDef(name="t", axis=replace(table))).extract(page(text), CONTEXT).links
    assert [link.url for link in plain] == [f"{HOST}/a?sid=1", f"{HOST}/b?v=1&sid=1", f"{HOST}/a?utm_x=2"]


def test_plugin_code_that_follows_a_url() -> None:
    def no_call(call: str, key: str, value: Any) -> Any:
        raise AssertionError

    context = PageContext(
        CONTEXT, url=URL, base=URL, status=200, fetched_at=0.0, task="t", data_def="d", fields=(),
        priorities={"books": 0, "other": 2}, max_links=2, call=no_call, query_stripper=STRIPPER,
    )  # fmt: skip
    for url in ("/p/1?sid=1", "/p/1?utm_a=2", f"{WITH_PASSWORD}/p/1"):
        context.follow(url)
    context.follow("/p/1?sid=3", "other")
    assert [(link.group, link.url, link.key) for link in context.links.values()] == [
        (group, f"{HOST}/p/1", link_key(group, f"{HOST}/p/1")) for group in ("books", "other")
    ]
