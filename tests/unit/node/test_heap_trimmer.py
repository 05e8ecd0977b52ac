"""The heap is trimmed after large pages, once for a group of them."""

import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import pytest_asyncio

from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.model.job import LeasedJob
from crawl_engine.node import tuning
from crawl_engine.node.def_cache import CompiledDataDef
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.page_extraction import UnsupportedContent
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.handlers.sitemap_job import SitemapHandler
from crawl_engine.node.seen_set import SeenSet
from crawl_engine.node.tuning import HeapTrimmer
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from tests.templates import template
from tests.unit.node.contexts import node_context
from tests.unit.node.leased_jobs import leased

LARGE = 2_000_000
_HOLE = """
import itertools, os, threading
from crawl_engine.model.host import HostRule
from crawl_engine.model.job import LeasedJob
from crawl_engine.node import tuning
from crawl_engine.node.def_cache import CompiledDataDef
clock = itertools.count(0.0, 1.5)
tuning.time.monotonic = lambda: next(clock)
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
hole = [b"x" * (100_000 + i) for i in range(600)]
behind = [b"y" * (100_000 + i) for i in range(10)]
full = resident()
del hole
kept = resident()
trimmer = tuning.HeapTrimmer()
trimmer.record_page(2_000_000)
for _ in range(2):
    trimmer.trim_if_due()
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print(full - kept, kept - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc")
def test_freed_memory_before_a_used_block_is_returned() -> None:
    env = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "1048576"}
    process = subprocess.run([sys.executable, "-c", _HOLE], capture_output=True, text=True, check=True, env=env)
    freed_before_trim, returned = map(int, process.stdout.split())
    assert freed_before_trim < 10_000_000
    assert returned > 50_000_000


class Clock:
    """Replaces the time, and records when the heap was trimmed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.trims: list[float] = []

    def run(self, trimmer: HeapTrimmer, pages: Sequence[tuple[float, int]], *, until: float) -> None:
        """Record pages, given as second and size, and call the trimmer every tenth of a second."""
        left = deque(pages)
        for tenth in range(round(until * 10)):
            self.now = tenth / 10
            while left and left[0][0] <= self.now:
                trimmer.record_page(left.popleft()[1])
            trimmer.trim_if_due()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tuning.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(tuning, "_trim_heap", lambda: clock.trims.append(clock.now))
    return clock


def test_one_trim_serves_large_pages_that_come_together(clock: Clock) -> None:
    clock.run(HeapTrimmer(), [(1.0, 999_999), (4.0, 1_000_000), (4.0, LARGE), (4.1, 1), (9.0, LARGE)], until=20)
    assert clock.trims == [5.0, 10.0]


def test_a_large_page_just_before_a_trim_gets_another_trim(clock: Clock) -> None:
    clock.run(HeapTrimmer(), [(4.0, LARGE), (4.9, LARGE)], until=20)
    assert clock.trims == [5.0, 5.9]


def test_an_unbroken_series_of_large_pages_does_not_postpone_the_trim(clock: Clock) -> None:
    clock.run(HeapTrimmer(), [(at, LARGE) for at in (4.0, 4.8, 5.6, 6.4, 7.2)], until=20)
    assert clock.trims == [5.0, 5.8, 6.6, 7.4, 8.2]


class NoDataDefs:
    """A cache of defs that have no dataDefs."""

    max_links = 10

    def compiled_data_defs(self, _: LeasedJob) -> tuple[CompiledDataDef, ...]:
        return ()


@pytest.fixture
def trimmer() -> HeapTrimmer:
    return HeapTrimmer()


@pytest_asyncio.fixture
async def extractor(trimmer: HeapTrimmer) -> AsyncIterator[PageExtractor]:
    cache: Any = NoDataDefs()
    pool = ExtractionPool(template(), ExtractionLimits.from_settings(Settings()))
    yield PageExtractor(
        node_context(def_cache=cache), seen_set=SeenSet(), heap_trimmer=trimmer, pool=pool,
        plugin_worker=Mock(), db_access=Mock(),
        answer_budget=ByteBudget(capacity=40_000_000, largest=30_000_000),
    )  # fmt: skip
    pool.close()


async def test_a_large_body_that_is_no_page_counts(
    clock: Clock, trimmer: HeapTrimmer, extractor: PageExtractor
) -> None:
    png = b"\x89PNG" + bytes(LARGE)
    with pytest.raises(UnsupportedContent):
        await extractor.extract(
            leased(1), body=Body(png), content_type="image/png", url="http://a/", status=200, fetched_at=0
        )
    clock.run(trimmer, [], until=5)
    assert clock.trims == [1.0]


async def test_a_large_sitemap_counts(clock: Clock, trimmer: HeapTrimmer, extractor: PageExtractor) -> None:
    urls = "".join(f"<url><loc>http://a/{i}</loc></url>" for i in range(40_000))
    sitemap = f"<urlset>{urls}</urlset>".encode()
    share = ByteBudget(capacity=20_000_000, largest=10_000_000).open_share()
    cache = Mock(query_stripper=Mock(return_value=None), version=Mock(return_value=Mock(sitemap_names=())))
    handler = SitemapHandler(10_000_000, extractor, Mock(), cache, Mock())
    children = await handler.list_children(leased(1), "http://a/s.xml", sitemap, share)
    assert children.later is not None
    assert len(children.first) + sum(map(len, children.later)) == children.entries == 40_000
    assert children.dropped == 0
    clock.run(trimmer, [], until=5)
    assert clock.trims == [1.0]
