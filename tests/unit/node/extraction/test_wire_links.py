"""Details of links on their way from an extraction process to the node: read back, or refused."""

import random

import orjson
import pytest

from engine.model.link import Carried, LinkDetails, LinkRequest, PageBlocks
from engine.model.record import ExtractedLink
from engine.node.extraction import wire
from engine.node.extraction.page_extraction import REPEATED, ExtractedPage
from engine.processes.frames import PREFIX

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
PAGE = ExtractedPage((), LINKS, 0, (), 0, blocks=PageBlocks(True, "ab12"))


def split(message: list[bytes]) -> tuple[bytes, bytes]:
    data = b"".join(message)
    _, header, _ = PREFIX.unpack_from(data)
    return data[PREFIX.size : PREFIX.size + header], data[PREFIX.size + header :]


def decode(message: list[bytes]) -> wire.PageAnswer:
    header, body = split(message)
    answer = wire.decode_answer(header, memoryview(body))
    assert isinstance(answer, wire.PageAnswer)
    return answer


def test_details_and_blocks_are_read_back() -> None:
    answer = decode(wire.encode_page("html", 0, PAGE))
    assert list(answer.links.to_links()) == LINKS
    assert (answer.blocks, answer.replaced_by) == (PageBlocks(True, "ab12"), "")
    repeated = decode(wire.encode_page("html", 0, ExtractedPage((), [], 0, (), 0, replaced_by=REPEATED)))
    assert (repeated.replaced_by, repeated.blocks) == (REPEATED, None)


def test_plain_links_cost_no_details() -> None:
    message = wire.encode_page("html", 0, ExtractedPage((), LINKS[:1], 0, (), 0))
    assert b"details" not in split(message)[0]
    assert decode(message).links.details == ()


def test_known_links_are_left_out_unless_they_carry_values() -> None:
    answer = decode(wire.encode_page("html", 0, PAGE))
    assert list(answer.links.to_links(lambda key: False)) == [LINKS[1], LINKS[3]]
    assert list(answer.links.to_links(lambda key: key == b"1" * 16)) == [LINKS[0], LINKS[1], LINKS[3]]


def test_many_details_are_read_back() -> None:
    links = [
        ExtractedLink(
            f"http://a/{n}", "g", 0, None, n.to_bytes(16),
            details=LinkDetails(carried=Carried(values={"n": str(n) * 50}).to_json()) if n % 3 else None,
        )
        for n in range(3_000)
    ]  # fmt: skip
    assert list(decode(wire.encode_page("html", 0, ExtractedPage((), links, 0, (), 0))).links.to_links()) == links


def with_details(line: str) -> tuple[bytes, bytes]:
    """A message whose only link has these details as written."""

    class Written(LinkDetails):
        def to_line(self) -> str:
            return line

    link = ExtractedLink("http://a/", "g", 0, None, b"1" * 16, details=Written())
    return split(wire.encode_page("html", 0, ExtractedPage((), [link], 0, (), 0)))


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
    header, body = with_details(line)
    with pytest.raises(wire.InvalidAnswer):
        wire.decode_answer(header, memoryview(body))


@pytest.mark.parametrize(
    "change",
    [
        {"details": None}, {"details": [0, 0]}, {"details": [1, 1]}, {"details": [-1, 5]}, {"details": "x"},
        {"blocks": 7}, {"blocks": [1, "x"]}, {"blocks": [True]}, {"blocks": [True, "x" * 65]}, {"blocks": ["a", "b"]},
        {"replaced_by": 5}, {"replaced_by": ["x"]},
    ],
)  # fmt: skip
def test_damaged_fields_are_refused(change: dict[str, object]) -> None:
    header, body = split(wire.encode_page("html", 0, PAGE))
    fields = orjson.loads(header)
    assert change.keys() & fields.keys() or "replaced_by" in change
    with pytest.raises(wire.InvalidAnswer):
        wire.decode_answer(orjson.dumps(fields | change), memoryview(body))


def test_damaged_bytes_raise_nothing_else() -> None:
    rng = random.Random(5)
    header, body = split(wire.encode_page("html", 0, PAGE))
    for _ in range(2_000):
        damage = bytearray(header + body)
        for _ in range(rng.randint(1, 4)):
            damage[rng.randrange(len(damage))] = rng.randrange(256)
        try:
            answer = wire.decode_answer(bytes(damage[: len(header)]), memoryview(bytes(damage[len(header) :])))
            assert isinstance(answer, wire.PageAnswer)
            list(answer.links.to_links())
        except wire.InvalidAnswer:
            continue
