"""Details of links on their way from an extraction process to the node: read back, or refused."""

import random

import msgspec
import orjson
import pytest

from crawl_engine.model.link import Carried, LinkDetails, LinkRequest
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.processes.frames import InvalidAnswer
from tests.unit.node.extraction.messages import changed, columns, fields_of, message_of, read_back, with_links

POSTED = LinkDetails(
    LinkRequest(method="POST", body="a=1\n2", content_type="text/x"), Carried(values={"é": "\n"}).to_json()
)
NEXT = LinkDetails(LinkRequest(relation="next"), Carried(blocks="ab12").to_json())
LINKS = [
    ExtractedLink("http://a/1", "g", 0, None, b"1" * 16),
    ExtractedLink("http://a/2", "g", 0, None, b"2" * 16, details=POSTED),
    ExtractedLink("http://a/3", "g", 0, None, b"3" * 16, details=LinkDetails(LinkRequest(method="PUT"))),
    ExtractedLink("http://a/é", "h", -3, 2, b"\n" * 16, may_leave_host=True, details=NEXT),
]  # fmt: skip
PAGE = PageResult(page_kind="html", links=tuple(LINKS))


def test_details_are_read_back() -> None:
    assert list(read_back(PAGE).links) == LINKS


def test_plain_links_cost_no_details() -> None:
    page = with_links(LINKS[0])
    assert "details" not in fields_of(page)["links"]
    assert columns(read_back(page)).details == ()


def test_known_links_are_left_out_unless_they_carry_values() -> None:
    links = columns(read_back(PAGE))
    assert list(links.list_new(lambda key: False)) == [LINKS[1], LINKS[3]]
    assert list(links.list_new(lambda key: key == b"1" * 16)) == [LINKS[0], LINKS[1], LINKS[3]]


def test_many_details_are_read_back() -> None:
    links = [
        ExtractedLink(
            f"http://a/{n}", "g", 0, None, n.to_bytes(16),
            details=LinkDetails(carried=Carried(values={"n": str(n) * 50}).to_json()) if n % 3 else None,
        )
        for n in range(3_000)
    ]  # fmt: skip
    assert list(read_back(with_links(*links)).links) == links


def with_details(line: str) -> bytes:
    """A message whose only link has these details as written."""

    class Written(LinkDetails):
        def to_line(self) -> str:
            return line

    return message_of(with_links(ExtractedLink("http://a/", "g", 0, None, b"1" * 16, details=Written())))


def request_line(*parts: object) -> str:
    return orjson.dumps([orjson.dumps(parts).decode(), None]).decode()


@pytest.mark.parametrize(
    "line",
    [
        "x", "{}", "[]", "null", "[null]", "[null,1]", "[7,null]", '[null,"[]"]', '[null,"[{\\"a\\":1},\\"\\"]"]',
        request_line("TRACE", None, None, "link", None), request_line("GET", 1, None, "link", None),
        request_line("GET", None, "a\r\nb: c", "link", None), request_line("GET", None, None, "series", None),
        request_line("GET", None, None, "link", 5),
    ],
)  # fmt: skip
def test_invalid_details_are_an_invalid_answer(line: str) -> None:
    with pytest.raises(InvalidAnswer):
        wire.decode_answer(with_details(line))


@pytest.mark.parametrize(
    "change",
    [
        {"details": None}, {"details": [""]}, {"details": [1, 1, 1, 1]}, {"details": "x"}, {"urls": []}, {"keys": b""},
        {"details": {"part": b"\n\n\n\n", "count": 4, "size": 3}}, {"runs": [[2, "g", 0, None, False]]},
        {"details": {"part": b"\n\n\n", "count": 4, "size": 3}},
    ],
)  # fmt: skip
def test_damaged_links_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidAnswer):
        wire.decode_answer(changed(PAGE, links=fields_of(PAGE)["links"] | change))


@pytest.mark.parametrize(
    "change",
    [
        {"parts": 7}, {"faults": [5]}, {"warnings": [["d"]]},
        {"links": [msgspec.to_builtins(link, builtin_types=(bytes,)) for link in LINKS]},
    ],
)  # fmt: skip
def test_damaged_fields_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidAnswer):
        wire.decode_answer(changed(PAGE, **change))


def test_damaged_bytes_raise_nothing_else() -> None:
    rng = random.Random(5)
    message = message_of(PAGE)
    for _ in range(2_000):
        damage = bytearray(message)
        for _ in range(rng.randint(1, 4)):
            damage[rng.randrange(len(damage))] = rng.randrange(256)
        try:
            answer = wire.decode_answer(bytes(damage))
            assert isinstance(answer, PageResult)
            list(answer.links)
        except InvalidAnswer:
            continue
