"""What large pages took goes back to the system, once for all that came together."""

import asyncio
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine.node import memory
from engine.node.extraction import PageExtractor, UnsupportedContent
from engine.node.memory import HeapTrimmer
from engine.node.seen_set import SeenSet
from engine.node.sitemap_job import SitemapHandler
from tests.unit.node.leased_jobs import leased

LARGE = 2_000_000
_HOLE = """
import itertools, os, threading
from engine.node import memory
clock = itertools.count(0.0, 1.5)
memory.time.monotonic = lambda: next(clock)
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
hole = [b"x" * (100_000 + i) for i in range(600)]
behind = [b"y" * (100_000 + i) for i in range(10)]
full = resident()
del hole
kept = resident()
of = memory.HeapTrimmer()
of.record_page(2_000_000)
for _ in range(2):
    of.trim_if_due()
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print(full - kept, kept - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system's allocator is another one")
def test_memory_that_lies_before_what_is_still_needed_is_given_back() -> None:
    env = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "2097152"}
    done = subprocess.run([sys.executable, "-c", _HOLE], capture_output=True, text=True, check=True, env=env)
    by_itself, returned = map(int, done.stdout.split())
    assert by_itself < 10_000_000
    assert returned > 50_000_000


class Clock:
    """Stands for the time, and tells when memory was given back."""

    def __init__(self) -> None:
        self.now = 0.0
        self.given: list[float] = []

    def take(self, of: HeapTrimmer, pages: Sequence[tuple[float, int]], *, until: float) -> None:
        """Pages of some bytes are worked at some seconds; it looks every tenth of a second."""
        coming = deque(pages)
        for tenth in range(round(until * 10)):
            self.now = tenth / 10
            while coming and coming[0][0] <= self.now:
                of.record_page(coming.popleft()[1])
            of.trim_if_due()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(memory.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(memory, "_trim_heap", lambda: clock.given.append(clock.now))
    return clock


def test_it_is_done_once_for_large_pages_that_come_together(clock: Clock) -> None:
    clock.take(HeapTrimmer(), [(1.0, 999_999), (4.0, 1_000_000), (4.0, LARGE), (4.1, 1), (9.0, LARGE)], until=20)
    assert clock.given == [5.0, 10.0]


def test_what_comes_just_before_is_not_forgotten(clock: Clock) -> None:
    clock.take(HeapTrimmer(), [(4.0, LARGE), (4.9, LARGE)], until=20)
    assert clock.given == [5.0, 5.9]


def test_large_pages_without_an_end_do_not_put_it_off(clock: Clock) -> None:
    clock.take(HeapTrimmer(), [(at, LARGE) for at in (4.0, 4.8, 5.6, 6.4, 7.2)], until=20)
    assert clock.given == [5.0, 5.8, 6.6, 7.4, 8.2]


def test_a_large_body_that_is_no_page_counts(clock: Clock) -> None:
    of = HeapTrimmer()
    nothing: Any = None
    harvester = PageExtractor(nothing, SeenSet(), of, run="r", run_time="")
    with pytest.raises(UnsupportedContent):
        harvester.extract(
            leased(1), body=b"\x89PNG" + bytes(LARGE), content_type="image/png", url="", status=200, fetched_at=0
        )
    clock.take(of, [], until=5)
    assert clock.given == [1.0]


def test_a_large_sitemap_counts(clock: Clock) -> None:
    of = HeapTrimmer()
    urls = "".join(f"<url><loc>http://a/{i}</loc></url>" for i in range(40_000))
    answer: Any = SimpleNamespace(location=None, status=200, body=f"<urlset>{urls}</urlset>".encode())

    async def send(*_: object) -> Any:
        return answer

    _, children = asyncio.run(SitemapHandler(send, 10_000_000, of).fetch(leased(1)))
    assert len(children) == 40_000
    clock.take(of, [], until=5)
    assert clock.given == [1.0]
