"""Hostile answers beside 200 good pages: every good row is there, no node is lost, the crawl ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.answer import page
from tests.hostile.catalogue import all_answers
from tests.hostile.crawl import Measured, crawl, serve_good_pages
from tests.hostile.server import HostileServer, serve_hostile
from tests.hostile.transports import open_transport
from tests.process.project import Project
from tests.process.site import Site

pytestmark = pytest.mark.timeout(300)

LINKS = page("links", lambda: "".join(f"<a href=/n/{n}></a>" for n in range(60_000)), links="[{selector: a}]",
             settings={"max_links": "5000"})  # fmt: skip
ANSWERS = {"links": LINKS, **all_answers()}
SAMPLE = (
    *("table-60000-first", "siblings", "deep-list-items", "reopened-2000", "links-base-huge", "xml-laughs"),
    *("json-deep", "bomb-gzip-nested", "encoding-cut", "chunk-huge", "endless-headers", "redirect-deeper"),
    *("status-1xx-storm", "reset-in-chunk", "sitemap-gzip-bomb"),
    *("levels-xpath", "feed-deep", "cursor-deep", "number-decimal", "jsonld-graph", "csv-open-quote"),
)
TRANSPORT_SAMPLE = (
    *("links-odd", "cookies-many", "bomb-gzip", "endless-body", "endless-headers", "drip-body", "reset-in-body"),
    *("length-two", "chunks-tiny", "status-1xx-storm", "redirect-deeper"),
)


@pytest.fixture
def good(site: Site) -> Site:
    serve_good_pages(site)
    return site


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with serve_hostile(ANSWERS) as server:
        yield server


def harms(measured: Measured) -> list[str]:
    """The faults; on a loaded machine a job may end late."""
    return [f"{measured.name}: {fault}" for fault in measured.faults if fault != "late"]


def test_a_sample_of_hostile_answers_hurts_no_good_page(tmp_path: Path, good: Site, server: HostileServer) -> None:
    results = crawl(tmp_path, good, server, *(ANSWERS[name] for name in SAMPLE), seconds=240)
    assert [harm for measured in results for harm in harms(measured)] == []
    states = {measured.name: measured.state for measured in results}
    assert states["table-60000-first"] == "DONE"
    killed = ("siblings", "deep-list-items", "reopened-2000", "bomb-gzip-nested")
    assert {states[name] for name in killed} == {"FAILED"}
    assert states["feed-deep"] == states["levels-xpath"] == "FAILED"
    assert {states[name] for name in ("cursor-deep", "number-decimal", "jsonld-graph", "csv-open-quote")} == {"DONE"}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["proxy", "tls", "tunnel"])
def test_a_sample_over_each_transport_hurts_no_good_page(tmp_path: Path, good: Site, name: str) -> None:
    (tmp_path / "files").mkdir()
    with open_transport(name, tmp_path / "files") as transport, serve_hostile(ANSWERS, transport) as server:
        results = crawl(tmp_path, good, server, *(ANSWERS[name] for name in TRANSPORT_SAMPLE), seconds=240)
    assert [harm for measured in results for harm in harms(measured)] == []
    states = {measured.name: measured.state for measured in results}
    assert states["links-odd"] == states["cookies-many"] == "DONE"
    assert {states[name] for name in TRANSPORT_SAMPLE if name.startswith(("endless", "drip", "bomb"))} == {"FAILED"}


def test_links_beyond_max_links_are_dropped_and_said(tmp_path: Path, good: Site, server: HostileServer) -> None:
    [measured] = crawl(tmp_path, good, server, LINKS)
    assert harms(measured) == []
    assert (measured.state, measured.children) == ("DONE", 5_000)
    project = Project(tmp_path)
    assert project.query(
        "SELECT count(*) FROM events WHERE text LIKE '55,000 links beyond max_links dropped on %'"
    ) == [(1,)]
    assert project.query("SELECT count(*) FROM jobs WHERE origin = 'link' AND state NOT IN ('DONE', 'SKIPPED')") == [
        (0,)
    ]


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(all_answers()))
def test_each_hostile_answer_hurts_no_good_page(tmp_path: Path, good: Site, server: HostileServer, name: str) -> None:
    [measured] = crawl(tmp_path, good, server, ANSWERS[name])
    assert harms(measured) == []
    if name == "links-500000":
        assert measured.children == 50_000
