"""Answers of extraction processes: what is valid is read back, whatever is not costs the process, never the node."""

import asyncio
import contextlib
import random
import socket
import threading
import time
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from engine.extract.page.context import Context
from engine.model.record import ExtractedLink, PageWarning, Rejection, as_text
from engine.node.extraction import wire
from engine.node.extraction.page_extraction import ExtractedPage, UnreadablePage
from engine.node.extraction.process_pool import ExtractionPool
from engine.node.extraction.task import PageTask
from engine.node.lines import pack_lines, read_lines
from engine.processes.frames import PREFIX
from tests.templates import template
from tests.unit.node.extraction.tasks import limits, request, title

LINKS = [
    ExtractedLink("http://a/1", "g", 0, None, b"1" * 16),
    ExtractedLink("http://a/2", "g", 0, None, b"2" * 16),
    ExtractedLink("http://b/", "g", 0, None, b"4" * 16, may_leave_host=True),
    ExtractedLink("http://a/é", "h", -3, 2, b"\n" * 16),
]
PAGE = ExtractedPage(
    rows=((0, ('{"a":"é\\n"}', "{}")), (1, ())),
    links=LINKS,
    dropped_links=4,
    rejected=(Rejection(data_def="d", field="f", reason="no \ud800", place="x.yml:1:2"),),
    filtered=5,
    warnings=(PageWarning("d", "f", "digits-left", "é"),),
)


def split(message: list[bytes]) -> tuple[bytes, bytes]:
    data = b"".join(message)
    _, header, body = PREFIX.unpack_from(data)
    assert len(data) == PREFIX.size + header + body
    return data[PREFIX.size : PREFIX.size + header], data[PREFIX.size + header :]


def decode(message: list[bytes]) -> wire.Answer:
    header, body = split(message)
    return wire.decode_answer(header, memoryview(body))


def test_a_page_is_read_back() -> None:
    answer = decode(wire.encode_page("html", 7, PAGE))
    assert isinstance(answer, wire.PageAnswer)
    assert answer.rows == PAGE.rows
    assert answer.warnings == PAGE.warnings
    assert list(answer.links.to_links()) == LINKS
    assert [link.key for link in answer.links.to_links()] == [link.key for link in LINKS]
    assert [link.url for link in answer.links.to_links(lambda key: key != b"2" * 16)] == [
        "http://a/1", "http://b/", "http://a/é",
    ]  # fmt: skip
    assert not answer.noindex
    assert (answer.page_kind, answer.damaged, answer.dropped_links, answer.filtered) == ("html", 7, 4, 5)
    assert answer.rejected[0].reason == "no ?"


def test_a_page_that_asks_not_to_be_indexed_is_read_back() -> None:
    answer = decode(wire.encode_page("html", 0, replace(PAGE, noindex=True)))
    assert isinstance(answer, wire.PageAnswer)
    assert answer.noindex


def test_the_robots_tags_of_a_page_reach_the_process() -> None:
    context = Context(
        group="g", locator="l", locator_url="http://a/", depth=2, run="r", run_time="now",
        nofollow=False, meta_nofollow=False, meta_noindex=True, agent="bot",
    )  # fmt: skip
    task = PageTask(
        defs=1, data_defs=(("d", True),), url="http://a/", content_type="text/html", status=200, fetched_at=0.0,
        context=context, headers=(("x-robots-tag", "noindex"), ("x-robots-tag", "bot: nofollow")),
    )  # fmt: skip
    assert PageTask.from_header(orjson.loads(orjson.dumps(task.to_header()))) == task


def test_a_page_that_gave_nothing_a_sitemap_and_a_failure_are_read_back() -> None:
    empty = decode(wire.encode_page("json", 0, ExtractedPage((), [], 0, (), 0)))
    assert isinstance(empty, wire.PageAnswer)
    assert (empty.rows, list(empty.links.to_links())) == ((), [])
    sitemap = wire.SitemapAnswer(pages=("http://a/1", ""), sitemaps=("http://a/s",), dropped=2)
    assert decode(wire.encode_sitemap(sitemap)) == sitemap
    dated = decode(wire.encode_sitemap(replace(sitemap, modified=(1_700_000_000, 0))))
    assert isinstance(dated, wire.SitemapAnswer)
    assert (dated.pages, dated.sitemaps, list(dated.modified)) == (
        ("http://a/1", ""),
        ("http://a/s",),
        [1_700_000_000, 0],
    )
    with pytest.raises(wire.AnswerTooLarge):
        wire.encode_sitemap(dated, max_bytes=30)
    failure = wire.Failure(kind="memory", reason="")
    assert decode(wire.encode(failure)) == failure


def damaged(change: dict[str, Any], body: bytes | None = None) -> tuple[bytes, bytes]:
    header, valid = split(wire.encode_page("html", 0, PAGE))
    return orjson.dumps(orjson.loads(header) | change), valid if body is None else body


def sitemap(pages: int, nested: int, dropped: int, sizes: list[int], modified: int | None) -> bytes:
    header = {
        "type": "sitemap", "pages": pages, "nested": nested, "dropped": dropped, "sizes": sizes, "is_cut_short": False
    }  # fmt: skip
    return orjson.dumps(header if modified is None else {**header, "modified": modified})


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (b"", b""),
        (b"[]", b""),
        (b"{}", b""),
        (b"null", b""),
        (b"[" * 100_000, b""),
        (b'{"type":"failure","kind":"maybe","reason":""}', b""),
        (b'{"type":"failure","kind":"memory","reason":1}', b""),
        (b'{"type":"failure","kind":"unavailable","reason":""}', b""),
        (sitemap(1, 0, 0, [0, 0, 0], 0), b""),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":50001,"nested":0,"dropped":0,"sizes":[100002,100002,0],"modified":0}',
            b"x\n" * 50_001,
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":-1,"sizes":[2,2,0],"modified":0}',
            b"x\n",
        ),
        (b'{"type":"selection"}', b""),
        (b'{"type":"selection","values":[],"links":[3],"count":0,"blocks":0,"blocks_without":0,"base":""}', b""),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[-1,0,0],"modified":0}',
            b"x\n",
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":1,"dropped":0,"sizes":[2,2,0],"modified":0}',
            b"x\n",
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,900000,0],"modified":0}',
            b"x\n",
        ),
        (sitemap(1, 0, 0, [2, 2, 0], None), b"x\n"),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,2,0],"modified":1}',
            b"x\n",
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,2,0],"modified":2}',
            b"x\n" + bytes(16),
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,2,0],"modified":1}',
            b"x\n" + bytes(7),
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,2,0],"modified":-1}',
            b"x\n",
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,2,0],"modified":1}',
            b"x\n" + b"\xff" * 8,
        ),
        (
            b'{"type":"sitemap","is_cut_short":false,"pages":1,"nested":0,"dropped":0,"sizes":[2,2,0],"modified":1}',
            b"x\n" + b"\x7f" * 8,
        ),
        damaged({"urls": [0, 0]}),
        damaged({"urls": [-1, -1]}),
        damaged({"urls": None}),
        damaged({"rows": [[0, 2, 17]]}),
        damaged({"rows": [[0, 1, 17, 17], [1, 0, 0, 0]]}),
        damaged({"rows": [[0, 2, 10**9, 10**9], [1, 0, 0, 0]]}),
        damaged({"rows": [[0, 2, 17, 10**12], [1, 0, 0, 0]]}),
        damaged({"rows": [[0, True, 17, 17], [1, 1, 0, 0]]}),
        damaged({"links": [[3, "g", 0, None, False]], "rows": [[0, 3, 17, 17]]}),
        damaged({"links": [[3, 5, 0, None]]}),
        damaged({"links": [[3, "g", 10**19, None]]}),
        damaged({"links": [[2**62, "g", 0, None]]}),
        damaged({"rejected": [["a", "b"]]}),
        damaged({"dropped_links": "many"}),
        damaged({}, b"\xff" * 100),
        damaged({"page_kind": None}),
    ],
)
def test_what_is_not_valid_is_refused(header: bytes, body: bytes) -> None:
    with pytest.raises(wire.InvalidAnswer):
        wire.decode_answer(header, memoryview(body))


@pytest.mark.parametrize("old", ['"a"', "http://a/1"])
def test_rows_are_objects_and_links_are_fetchable(old: str) -> None:
    header, body = split(wire.encode_page("html", 0, PAGE))
    wrong = body.replace(b'{"a":', b'["a",') if old == '"a"' else body.replace(b"http://a/1", b"ftp://a/12")
    with pytest.raises(wire.InvalidAnswer):
        wire.decode_answer(header, memoryview(wrong))


def test_damaged_bytes_raise_nothing_else() -> None:
    rng = random.Random(3)
    header, body = split(wire.encode_page("html", 0, PAGE))
    for _ in range(2_000):
        damage = bytearray(header + body)
        for _ in range(rng.randint(1, 4)):
            damage[rng.randrange(len(damage))] = rng.randrange(256)
        try:
            wire.decode_answer(bytes(damage[: len(header)]), memoryview(bytes(damage[len(header) :])))
        except wire.InvalidAnswer:
            continue


def garbage_pool(monkeypatch: pytest.MonkeyPatch, garbage: bytes, times: int) -> ExtractionPool:
    """A pool whose first processes send the given bytes instead of answers."""
    left, connect = iter(range(times)), asyncio.open_unix_connection

    async def connect_to_garbage(*, sock: socket.socket, **options: Any) -> Any:
        if next(left, None) is not None:
            sock.close()
            sock, theirs = socket.socketpair()
            threading.Thread(target=send_garbage, args=(theirs, garbage), daemon=True).start()
        return await connect(sock=sock, **options)

    monkeypatch.setattr(asyncio, "open_unix_connection", connect_to_garbage)
    return ExtractionPool(template(), limits())


def send_garbage(connection: socket.socket, garbage: bytes) -> None:
    with connection, contextlib.suppress(OSError):
        connection.recv(65_536)
        connection.sendall(garbage)
        time.sleep(0.2)


def frame(header: bytes, body: bytes = b"") -> bytes:
    return PREFIX.pack(1, len(header), len(body)) + header + body


@pytest.mark.parametrize("garbage", [b"\xff" * 5_000, frame(b"{}"), frame(*damaged({"urls": [0, 0]})), frame(b"")])
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
    answer = decode(wire.encode_page("html", 0, ExtractedPage(((0, texts),), LINKS, 0, (), 0)))
    assert isinstance(answer, wire.PageAnswer)
    [(index, rows)] = answer.rows
    assert (index, len(rows), tuple(map(as_text, rows))) == (0, len(texts), texts)
    assert [len(row) for row in rows if isinstance(row, memoryview)] == [8 + 2 * 200_000]
    assert list(answer.links.to_links()) == LINKS


def test_many_links_are_read_back() -> None:
    links = [ExtractedLink(f"http://a/{'x' * (n % 400)}{n}", "g", 0, None, n.to_bytes(16)) for n in range(3_000)]
    answer = decode(wire.encode_page("html", 0, ExtractedPage((), links, 0, (), 0)))
    assert isinstance(answer, wire.PageAnswer)
    assert len(answer.links.urls) == 3_000
    assert list(answer.links.to_links()) == links
    assert list(answer.links.to_links(lambda key: key[-1] == 7)) == [link for link in links if link.key[-1] == 7]


@pytest.mark.parametrize("text", [b"x" * 300_000, b"\xff" * 300_000 + b"\n", b"a\n" * 40_000, b"a\nb"])
def test_lines_that_are_not_ended_not_text_or_missing_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        read_lines(memoryview(text), 1, len(text))


@pytest.mark.parametrize("lines", [["é" * 900_000, "", "a" * 300_000, "b"], ["x" * 99] * 20_000])
def test_many_lines_are_packed_and_read_back(lines: list[str]) -> None:
    packed, size = pack_lines(lines)
    assert len(packed) < size // 50
    assert [as_text(line) for line in read_lines(memoryview(packed), len(lines), size)] == lines
    for part, count, bytes_ in [
        (packed, len(lines), size + 1), (packed, len(lines), size - 1), (packed, len(lines) + 1, size),
        (packed[:-9], len(lines), size), (b"x" * len(packed), len(lines), size),
    ]:  # fmt: skip
        with pytest.raises(ValueError):
            read_lines(memoryview(part), count, bytes_)


@pytest.mark.parametrize("lengths", [(1_500_000,), (9, 262_143, 0, 262_144, 262_145, 900_000, 3), (900_000, 700_000)])
def test_lines_that_compression_does_not_make_smaller_are_read_in_their_place(lengths: tuple[int, ...]) -> None:
    rng = random.Random(5)
    lines = [rng.randbytes((length + 1) // 2).hex()[:length] for length in lengths]
    packed, size = pack_lines(lines)
    assert len(packed) == size == sum(lengths) + len(lengths)
    read = list(read_lines(memoryview(packed), len(lines), size))
    assert [as_text(line) for line in read] == lines
    assert [line.obj is packed for line in read if isinstance(line, memoryview)] == [
        True for length in lengths if length > 262_144
    ]


def test_an_answer_above_its_limit_is_neither_sent_nor_read() -> None:
    page = ExtractedPage(((0, ('{"a":"%s"}' % ("x" * 2_000_000),)),), LINKS, 0, (), 0)
    message = wire.encode_page("html", 0, page, max_bytes=2_001_000)
    with pytest.raises(wire.AnswerTooLarge):
        wire.encode_page("html", 0, page, max_bytes=2_000_000)
    header, body = split(message)
    assert isinstance(wire.decode_answer(header, memoryview(body), 2_001_000), wire.PageAnswer)
    with pytest.raises(wire.InvalidAnswer):
        wire.decode_answer(header, memoryview(body), 2_000_000)


def test_half_a_million_rejections_make_a_small_message() -> None:
    rejections = tuple(Rejection(data_def="d", field="f", reason=f"no {n}", place="x.yml:1:2") for n in range(500_000))
    message = wire.encode_page("html", 0, ExtractedPage((), [], 0, rejections, 0))
    assert sum(map(len, message)) < 1_000
    answer = decode(message)
    assert isinstance(answer, wire.PageAnswer)
    assert answer.rejected == rejections[: wire.SHOWN_REJECTIONS]
    assert answer.rejected_counts == (("d", 500_000),)
