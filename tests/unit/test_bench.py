"""What the bench measures: whole process trees, even intervals, sites whose pages are all reachable."""

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from tests.bench import peers
from tests.bench.crawlers import OURS, SCRAPY_LEAN, Crawler
from tests.bench.measure import Measured, Part, measure
from tests.bench.pages import items, number_of, small_page
from tests.bench.peers import Crawl
from tests.bench.poller import Poller
from tests.bench.server import of_scripted_pages

_ORPHAN = """\
import os, time
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        kept = bytearray(60_000_000)
        end = time.process_time() + 0.4
        while time.process_time() < end: pass
    os._exit(0)
os.close(write)
os.read(read, 1)  # until the orphan ends
"""


def test_the_cpu_and_memory_of_orphans_count():
    done = measure([sys.executable, "-c", _ORPHAN])
    assert done.exit_code == 0
    assert 0.3 < done.cpu < 2
    assert done.peak > 60_000_000


def test_each_small_page_is_reached_and_has_3_kb():
    count, seen, todo = 200, {0}, [0]
    for number in todo:
        body = small_page(number, count)
        assert 2_000 < len(body) < 4_000
        linked = {number_of(href) for href in re.findall(r'href="([^"]+)"', body.decode())}
        assert None not in linked
        todo += [n for n in linked if n is not None and n not in seen]
        seen.update(todo)
    assert seen == set(range(count))


def test_a_rate_lies_between_the_samples_around_it():
    poller = Poller(Path(), "", 1)
    poller.samples = [(10.0, 0.0), (11.0, 0.0), (12.0, 100.0), (14.0, 200.0)]
    assert poller.time_of(50) == 11.5
    assert poller.time_of(150) == 13.0
    assert poller.rate(0.0, 0.5) == 100.0
    assert poller.rate(0.5, 1.0) == 50.0


def test_the_report_compares_medians_and_names_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peers.shutil, "which", lambda program: None if program == "wget2" else program)
    usage = {"exit_code": 0, "cpu_by": "control group", "others": 0.0, "started": 0.0, "stdout": "", "stderr": ""}
    part = Part({1}, [(0.0, 1_000_000)])

    def crawl(crawler: Crawler, cpu: float, pages: int) -> Crawl:
        return Crawl(crawler.name, "s", pages, Measured(wall=2.0, cpu=cpu, peak=9, parts={"node": part}, **usage), 0.0)

    done = [crawl(OURS, cpu, 10) for cpu in (0.1, 0.2, 9.0)] + [crawl(SCRAPY_LEAN, 0.3, 11)]
    report = peers.report(done)
    assert re.search(r"crawl-console +3 +10 +2\.00 +5\.00 +20\.0 +1\.00", report)
    assert re.search(r"scrapy, lean +1 +11 +2\.00 +5\.50 +27\.3 +1\.36", report)
    assert "crawlers got different numbers of pages: {'crawl-console': 10, 'scrapy, lean': 11}" in report
    assert "wget2 is left out: it is not installed" in report


def test_the_rows_of_a_scripted_page_are_in_it_or_its_api_has_them():
    respond = of_scripted_pages(10)
    by_script, plain = respond("/s/20").decode(), respond("/s/21").decode()
    assert "/site.js" in by_script
    assert "class=item" not in by_script
    assert [item["name"] in plain for item in items(21)] == [True] * 10
    assert json.loads(respond("/api/20").partition(b"\r\n\r\n")[2]) == items(20)
    assert b"/api/" in respond("/site.js")
