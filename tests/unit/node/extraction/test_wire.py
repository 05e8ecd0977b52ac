"""Answers of extraction processes: what is valid is read back, whatever is not costs the process, never the node."""

import contextlib
import random
import socket
import threading
import time
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from crawl_engine.extract.page.context import Context
from crawl_engine.model.record import ExtractedLink, PageWarning, Rejection, as_text
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.page_extraction import UnreadablePage
from crawl_engine.node.extraction.process_pool import ExtractionPool
from crawl_engine.node.extraction.result import AnswerTooLarge, PageResult, SitemapResult, count_rejections
from crawl_engine.node.extraction.task import SHOWN_REJECTIONS, PageTask
from crawl_engine.node.lines import Lines, pack_lines
from crawl_engine.processes.frames import PREFIX, InvalidAnswer
from crawl_engine.processes.worker import Worker
from tests.templates import template
from tests.unit.node.extraction.messages import changed, columns, fields_of, message_of, read_back, with_links
from tests.unit.node.extraction.tasks import limits, request, title

LINKS = [
    ExtractedLink("http://a/1", "g", 0, None, b"1" * 16),
    ExtractedLink("http://a/2", "g", 0, None, b"2" * 16),
    ExtractedLink("http://b/", "g", 0, None, b"4" * 16, may_leave_host=True),
    ExtractedLink("http://a/é", "h", -3, 2, b"\n" * 16),
]
PAGE = PageResult(
    page_kind="html",
    damaged=7,
    rows=((0, ('{"a":"é\\n"}', "{}")), (1, ())),
    links=tuple(LINKS),
    dropped_links=4,
    rejected=(Rejection(data_def="d", field="f", reason="no \ud800", place="x.yml:1:2"),),
    filtered=5,
    warnings=(PageWarning("d", "f", "digits-left", "é"),),
)
SITEMAP = SitemapResult(pages=("http://a/1", ""), sitemaps=("http://a/s",), dropped=2)


def test_a_page_is_read_back() -> None:
    answer = read_back(PAGE)
    assert answer.rows == PAGE.rows
    assert answer.warnings == PAGE.warnings
    assert list(answer.links) == LINKS
    assert [link.key for link in answer.links] == [link.key for link in LINKS]
    assert [link.url for link in columns(answer).list_new(lambda key: key != b"2" * 16)] == [
        "http://a/1", "http://b/", "http://a/é",
    ]  # fmt: skip
    assert answer.parts == {}
    assert (answer.page_kind, answer.damaged, answer.dropped_links, answer.filtered) == ("html", 7, 4, 5)
    assert answer.rejected[0].reason == "no ?"


def test_the_robots_tags_of_a_page_reach_the_process() -> None:
    context = Context(
        group="g", locator="l", locator_url="http://a/", depth=2, run="r", run_time="now",
        nofollow=False, meta_nofollow=False, rules={"noindex": ""}, agent="bot",
    )  # fmt: skip
    task = PageTask(
        defs=1, data_defs=(("d", True),), url="http://a/", content_type="text/html", status=200, fetched_at=0.0,
        context=context, headers=(("x-robots-tag", "noindex"), ("x-robots-tag", "bot: nofollow")),
    )  # fmt: skip
    assert PageTask.from_header(orjson.loads(orjson.dumps(task.to_header()))) == task


def test_a_page_that_gave_nothing_a_sitemap_and_a_failure_are_read_back() -> None:
    empty = read_back(PageResult(page_kind="json"))
    assert (empty.rows, list(empty.links)) == ((), [])
    for answer in (SITEMAP, replace(SITEMAP, modified=(1_700_000_000, 0)), wire.Failure(kind="memory", reason="")):
        assert wire.decode_answer(message_of(answer)) == answer


@pytest.mark.parametrize(
    "message",
    [
        b"",
        msgspec.msgpack.encode([]),
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode(None),
        b"\x91" * 100_000,
        changed(wire.Failure(kind="memory", reason=""), kind="maybe"),
        changed(wire.Failure(kind="memory", reason=""), reason=1),
        changed(wire.Failure(kind="memory", reason=""), kind="unavailable"),
        msgspec.msgpack.encode({"type": "selection"}),
        msgspec.msgpack.encode(
            {
                "type": "selection",
                "values": [],
                "links": [3],
                "count": 0,
                "blocks": 0,
                "blocks_without": 0,
                "base": "",
            }
        ),
        changed(SITEMAP, pages=["x"] * 50_001),
        changed(SITEMAP, dropped=-1),
        changed(SITEMAP, pages=None),
        changed(SITEMAP, pages={"part": b"x\n", "count": 2, "size": 2}),
        changed(SITEMAP, pages={"part": b"x\n", "count": 1, "size": 900_000}),
        changed(SITEMAP, modified=None),
        changed(SITEMAP, modified=[1]),
        changed(SITEMAP, modified=[1, 2, 3]),
        changed(SITEMAP, modified=[-1, 0]),
        changed(SITEMAP, modified=[2**62, 0]),
        changed(PAGE, links=[]),
        changed(PAGE, links=None),
        changed(PAGE, rows=[[0, 2]]),
        changed(PAGE, rows=[[0, ["{}", 5]]]),
        changed(PAGE, rows=[[-1, ["{}"]]]),
        changed(PAGE, rows=[[0, {"part": b"{}\n", "count": 2, "size": 3}]]),
        changed(PAGE, rows=[[0, {"part": b"{}\n", "count": 1, "size": 10**12}]]),
        changed(PAGE, rows=[[0, {"part": b"{}", "count": 1, "size": 2}]]),
        changed(PAGE, rows=[[0, {"part": b"\xff\n", "count": 1, "size": 2}]]),
        changed(PAGE, rows=[[True, ["{}"]]]),
        changed(PAGE, links=fields_of(PAGE)["links"] | {"runs": [[3, "g", 0, None, False]]}),
        changed(PAGE, links=fields_of(PAGE)["links"] | {"runs": [[3, 5, 0, None, False]]}),
        changed(PAGE, links=fields_of(PAGE)["links"] | {"runs": [[4, "g", 2**63, None, False]]}),
        changed(PAGE, links=fields_of(PAGE)["links"] | {"runs": [[2**62, "g", 0, None, False]]}),
        changed(PAGE, links=fields_of(PAGE)["links"] | {"urls": ["ftp://a/"] * 4}),
        changed(PAGE, rejected=[["a", "b"]]),
        changed(PAGE, dropped_links="many"),
        changed(PAGE, page_kind=None),
        changed(PAGE, rows=[[0, ['["a"]']]]),
        b"\xff" * 100,
    ],
)
def test_what_is_not_valid_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidAnswer):
        wire.decode_answer(message, 1_000_000)


def test_damaged_bytes_raise_nothing_else() -> None:
    rng = random.Random(3)
    message = message_of(PAGE)
    for _ in range(2_000):
        damage = bytearray(message)
        for _ in range(rng.randint(1, 4)):
            damage[rng.randrange(len(damage))] = rng.randrange(256)
        with contextlib.suppress(InvalidAnswer):
            wire.decode_answer(bytes(damage))


def garbage_pool(monkeypatch: pytest.MonkeyPatch, garbage: bytes, times: int) -> ExtractionPool:
    """A pool whose first processes send the given bytes instead of answers."""
    left, opened = iter(range(times)), Worker._open

    def connect(worker: Worker) -> Any:
        if next(left, None) is not None:
            worker.connection.close()
            worker.connection, theirs = socket.socketpair()
            worker.connection.setblocking(False)
            threading.Thread(target=send_garbage, args=(theirs, garbage), daemon=True).start()
        return opened(worker)

    monkeypatch.setattr(Worker, "_open", connect)
    return ExtractionPool(template(), limits())


def send_garbage(connection: socket.socket, garbage: bytes) -> None:
    with connection, contextlib.suppress(OSError):
        connection.recv(65_536)
        connection.sendall(garbage)
        time.sleep(0.2)


def frame(header: bytes, body: bytes = b"") -> bytes:
    return PREFIX.pack(1, len(header), len(body)) + header + body


@pytest.mark.parametrize("garbage", [b"\xff" * 5_000, frame(b"{}"), frame(b"{}", changed(PAGE, links=[])), frame(b"")])
async def test_a_process_that_sends_garbage_counts_as_dead(monkeypatch: pytest.MonkeyPatch, garbage: bytes) -> None:
    pool = garbage_pool(monkeypatch, garbage, 1)
    assert title(await pool.work(request())) == '{"title":"title","last":[]}'
    pool.close()
    pool = garbage_pool(monkeypatch, garbage, 2)
    with pytest.raises(UnreadablePage, match=r"its extraction process died twice \(invalid answer"):
        await pool.work(request())
    assert title(await pool.work(request())) == '{"title":"title","last":[]}'
    pool.close()


def test_long_and_many_lines_are_read_back() -> None:
    texts = tuple(f'{{"a":"{"é" * size}"}}' for size in (0, 70_000, 3, 32_767, 200_000, *[1] * 9_000))
    answer = read_back(PageResult(page_kind="html", rows=((0, texts),), links=tuple(LINKS)))
    [(index, rows)] = answer.rows
    assert (index, len(rows), tuple(map(as_text, rows))) == (0, len(texts), texts)
    assert [len(row) for row in rows if isinstance(row, memoryview)] == [8 + 2 * 200_000]
    assert list(answer.links) == LINKS


def test_many_links_are_read_back() -> None:
    links = [ExtractedLink(f"http://a/{'x' * (n % 400)}{n}", "g", 0, None, n.to_bytes(16)) for n in range(3_000)]
    read = columns(read_back(with_links(*links)))
    assert len(read.urls) == 3_000
    assert list(read) == links
    assert list(read.list_new(lambda key: key[-1] == 7)) == [link for link in links if link.key[-1] == 7]


@pytest.mark.parametrize("text", [b"x" * 300_000, b"\xff" * 300_000 + b"\n", b"a\n" * 40_000, b"a\nb"])
def test_lines_that_are_not_ended_not_text_or_missing_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        Lines(memoryview(text), 1, len(text)).check()


@pytest.mark.parametrize("lines", [["é" * 900_000, "", "a" * 300_000, "b"], ["x" * 99] * 20_000])
def test_many_lines_are_packed_and_read_back(lines: list[str]) -> None:
    packed = pack_lines(lines)
    assert isinstance(packed, Lines)
    assert len(packed.part) < packed.size // 50
    assert [as_text(line) for line in packed] == lines
    for change in (
        {"size": packed.size + 1}, {"size": packed.size - 1}, {"count": len(lines) + 1},
        {"part": packed.part[:-9]}, {"part": memoryview(b"x" * len(packed.part))},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            replace(packed, **change).check()


@pytest.mark.parametrize("lengths", [(1_500_000,), (9, 262_143, 0, 262_144, 262_145, 900_000, 3), (900_000, 700_000)])
def test_lines_that_compression_does_not_make_smaller_are_read_in_their_place(lengths: tuple[int, ...]) -> None:
    rng = random.Random(5)
    lines = [rng.randbytes((length + 1) // 2).hex()[:length] for length in lengths]
    packed = pack_lines(lines)
    assert isinstance(packed, Lines)
    assert len(packed.part) == packed.size == sum(lengths) + len(lengths)
    assert [as_text(line) for line in packed] == lines
    assert [line.obj is packed.part.obj for line in packed if isinstance(line, memoryview)] == [
        True for length in lengths if length > 262_144
    ]


def test_an_answer_above_its_limit_is_neither_sent_nor_read() -> None:
    rows = ((0, ('{"a":"%s"}' % ("x" * 2_000_000),)),)
    page = PageResult(page_kind="html", rows=rows, links=tuple(LINKS))
    message = message_of(page, max_bytes=2_001_000)
    with pytest.raises(AnswerTooLarge):
        message_of(page, max_bytes=2_000_000)
    assert isinstance(wire.decode_answer(message, 2_001_000), PageResult)
    with pytest.raises(InvalidAnswer):
        wire.decode_answer(message, 2_000_000)


def test_half_a_million_rejections_make_a_small_message() -> None:
    rejections = tuple(Rejection(data_def="d", field="f", reason=f"no {n}", place="x.yml:1:2") for n in range(500_000))
    page = PageResult(page_kind="html", rejected=rejections, rejected_counts=count_rejections(rejections))
    assert len(message_of(page)) < 1_000
    answer = read_back(page)
    assert answer.rejected == rejections[:SHOWN_REJECTIONS]
    assert [(one.data_def, one.records) for one in answer.rejected_counts] == [("d", 500_000)]
