"""Sitemaps in the node: what a compressed one holds in memory, and where it is read."""

import gzip
from typing import Any
from unittest.mock import Mock

import pytest

from crawl_engine.http.byte_budget import FREE_BYTES, BodyShare, ByteBudget
from crawl_engine.http.errors import FetchFailed
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.extraction.page_extraction import UnreadablePage
from crawl_engine.node.extraction.result import SitemapResult
from crawl_engine.node.handlers.sitemap_job import SitemapHandler
from crawl_engine.store.pages.body import Body
from tests.unit.node.contexts import node_context
from tests.unit.node.extraction.tasks import extraction_pool
from tests.unit.node.leased_jobs import leased

MAX_BODY = 1_000_000
ENTRY = b"<url><loc>http://a/%d</loc></url>"


def sitemap_handler(extractor: Any) -> SitemapHandler:
    def_cache = Mock(query_stripper=Mock(return_value=None))
    return SitemapHandler(MAX_BODY, extractor, Mock(sitemap_rules=Mock(return_value=None)), def_cache, Mock())


def page_extractor(pool: Any) -> PageExtractor:
    return PageExtractor(
        node_context(), seen_set=Mock(), heap_trimmer=Mock(), pool=pool,
        plugin_worker=Mock(), db_access=Mock(),
        answer_budget=ByteBudget(capacity=1_000, largest=1_000),
    )  # fmt: skip


async def test_a_compressed_sitemap_counts_in_the_budget_while_it_is_read() -> None:
    body = b"<urlset>" + b"".join(ENTRY % number for number in range(20_000)) + b"</urlset>"
    budget = ByteBudget(capacity=2 * MAX_BODY, largest=MAX_BODY)
    share, used = budget.open_share(), []

    async def read_sitemap(unpacked: Body, *_: Any) -> tuple[SitemapResult, BodyShare]:
        assert unpacked.read() == body
        used.append(budget.used)
        return SitemapResult(pages=("/1",)), budget.open_share()

    handler = sitemap_handler(Mock(read_sitemap=read_sitemap))
    children = await handler.list_children(leased(1), "http://a/s.xml.gz", gzip.compress(body), share)
    assert [child.url for child in children.first] == ["http://a/1"]
    assert used == [len(body) - FREE_BYTES]
    share.release()
    assert budget.used == 0


@pytest.mark.parametrize(
    "body", [gzip.compress(bytes(MAX_BODY + 1)), gzip.compress(b"<urlset/>")[:-9]], ids=["bomb", "truncated"]
)
async def test_a_bomb_and_a_truncated_sitemap_fail(body: bytes) -> None:
    share = ByteBudget(capacity=2 * MAX_BODY, largest=MAX_BODY).open_share()
    with pytest.raises(FetchFailed):
        await sitemap_handler(Mock()).list_children(leased(1), "http://a/s.xml.gz", body, share)


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_sitemap_that_is_no_text_is_refused(size: int) -> None:
    body = gzip.compress(b"<urlset/>") + bytes(size)
    async with extraction_pool() as pool:
        extractor = page_extractor(pool)
        with pytest.raises(UnreadablePage, match="not a sitemap"):
            await extractor.read_sitemap(Body(body))


async def test_a_small_sitemap_whose_encoding_must_be_detected_is_read_in_an_extraction_process() -> None:
    asked = []

    async def work(request: Any) -> SitemapResult:
        asked.append(request)
        return SitemapResult(pages=("/x",))

    extractor = page_extractor(Mock(work=work))
    for text in ("<urlset><url><loc>http://a/é</loc></url></urlset>", "<urlset/>"):
        await extractor.read_sitemap(Body(text.encode()))
    assert asked == []
    found, _ = await extractor.read_sitemap(Body("<urlset><url><loc>http://a/é</loc></url></urlset>".encode("latin-1")))
    assert len(asked) == 1
    assert found.pages == ("/x",)


async def test_entries_that_raise_give_back_what_the_answer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = ByteBudget(capacity=2 * MAX_BODY, largest=MAX_BODY)
    answer = budget.open_share()
    await answer.grow(MAX_BODY // 2)

    async def read_sitemap(*_: Any) -> tuple[SitemapResult, BodyShare]:
        return SitemapResult(pages=("/1",)), answer

    monkeypatch.setattr("crawl_engine.node.handlers.sitemap_job._join", Mock(side_effect=RuntimeError))
    handler = sitemap_handler(Mock(read_sitemap=read_sitemap))
    with pytest.raises(RuntimeError):
        await handler.list_children(leased(1), "http://a/s.xml", b"<urlset/>", budget.open_share())
    assert budget.used == 0
