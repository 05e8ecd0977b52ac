"""Rows that name files wait; the jobs of the files are children of the page."""

import asyncio
from typing import cast
from unittest.mock import Mock

import orjson
import pytest

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.fingerprint import list_query_rules
from crawl_engine.model.host import HostRule
from crawl_engine.model.job import HostPlan, JobKind, LeasedJob, file_key
from crawl_engine.node.def_cache import CompiledDataDef, DefsVersion
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.file_rows import FileRows
from crawl_engine.node.lines import Lines
from crawl_engine.urls import QueryStripper

DEFS = Definitions(
    data_defs=(
        DataDef(name="d", fields=(Field(name="t"), Field(name="f", type="file"))),
        DataDef(name="plain", fields=(Field(name="f", type="url"),)),
    ),
    hosts=(HostRule(name="a", drop=("sid",)),),
)
PLAN = HostPlan(file_fields=DefsVersion(DEFS).file_fields)
JOB = cast(LeasedJob, Mock(defs_version=1, group="g", lineage=Mock(depth=2), plan=PLAN))


UNITS = [
    CompiledDataDef(data_def=name, task="", id=number, extractor=RecordExtractor(DEFS.data_defs[index]))
    for index, (name, number) in enumerate((("d", 7), ("plain", 8)))
]


def hold(*rows: tuple[int, tuple[str, ...]], max_links: int = 100) -> PageExtraction:
    """`rows`: by index of their dataDef."""
    extraction = PageExtraction(PageResult(page_kind="html", rows=rows), UNITS)
    cache = Mock(max_links=max_links)
    cache.query_stripper.return_value = QueryStripper.from_rules(list_query_rules(DEFS))
    asyncio.run(FileRows(cache).hold(JOB, extraction, "http://a/page/"))
    return extraction


def row(url: str | None) -> str:
    value = "null" if url is None else f'"{url}"'
    return f'{{"t":1.50,"f":{value}}}'


def rows_of(extraction: PageExtraction) -> list[str]:
    return [str(text) for _, texts in extraction.result.rows for text in texts]


def test_rows_with_files_wait_and_others_do_not() -> None:
    plain = (1, ('{"f":"http://a/x"}',))
    extraction = hold((0, (row("http://a/x"), row(None), row("http://b:8080/y#p"))), plain)
    assert rows_of(extraction) == [row(None), '{"f":"http://a/x"}']
    (held,) = extraction.held
    assert (held.data_def, held.data_def_id, list(held.texts)) == (
        "d", 7, [row("http://a/x"), row("http://b:8080/y#p")],
    )  # fmt: skip
    one, two = extraction.children
    assert (one.kind, one.group, one.host_key, one.url, one.identity) == (
        JobKind.FILE, "g", "a:80", "http://a/x", file_key("http://a/x"),
    )  # fmt: skip
    assert (two.url, two.host_key, two.may_leave_host) == ("http://b:8080/y", "b:8080", True)
    assert extraction.notes == ()


def test_pages_without_files_stay_as_they_are() -> None:
    rows = ((1, ('{"f":"http://a/x"}',)), (0, (row(None),)))
    extraction = hold(*rows)
    assert extraction.result.rows == rows
    assert (extraction.held, extraction.children) == ((), ())


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://a/x?sid=1&y=2", "http://a/x?y=2"),
        ("http://user:secret@a/x", "http://a/x"),
        ("../x.pdf", "http://a/x.pdf"),
        ("HTTP://A/x#y", "http://a/x"),
    ],
)
def test_a_url_is_resolved_without_credentials_and_dropped_keys(written: str, url: str) -> None:
    (child,) = hold((0, (row(written),))).children
    assert child.url == url


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,AA", "mailto:a@b", "file:///etc/passwd", "ftp://a/x", "javascript:x"]
)
def test_what_is_no_http_url_is_null_with_a_warning(url: str) -> None:
    extraction = hold((0, (row(url),)))
    assert extraction.children == ()
    assert extraction.notes == ("files not downloaded, because their URL is not http or https: 1",)
    assert extraction.held == ()
    assert rows_of(extraction) == [row(None)]


def test_files_of_a_page_are_limited_and_equal_ones_count_once() -> None:
    urls = [f"http://a/{i}" for i in (1, 2, 1, 3, 4)]
    extraction = hold((0, tuple(map(row, urls))), max_links=2)
    assert [child.url for child in extraction.children] == ["http://a/1", "http://a/2"]
    assert extraction.notes == ("files not downloaded, because the page names more than 2: 2",)
    (held,) = extraction.held
    assert list(held.texts) == [row(url) for url in urls[:3]]
    assert [orjson.loads(str(places)) for places in held.places] == [[[["f"], 0]], [[["f"], 1]], [[["f"], 0]]]
    assert held.files == file_key("http://a/1") + file_key("http://a/2")
    assert rows_of(extraction) == [row(None)] * 2


def test_many_files_take_little_memory_and_become_jobs_in_pieces() -> None:
    rows = tuple(row(f"http://a/{number}") for number in range(20_000))
    extraction = hold((0, rows), max_links=50_000)
    (held,) = extraction.held
    assert isinstance(held.texts, Lines)
    assert list(held.texts) == list(rows[:5_000])
    assert len(rows_of(extraction)) == 15_000
    assert extraction.later_children is not None
    pieces = [extraction.children, *extraction.later_children]
    assert [len(piece) for piece in pieces] == [2_000, 2_000, 1_000]
    children = [child for piece in pieces for child in piece]
    assert b"".join(child.identity for child in children) == held.files
    assert [child.url for child in children] == [f"http://a/{number}" for number in range(5_000)]
