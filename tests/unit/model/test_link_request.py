"""Requests of links, carried values and series: their stored forms, and what a process may not send."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawl_engine.model.link import (
    METHODS,
    NOTHING_CARRIED,
    PLAIN_LINK,
    RELATIONS,
    Carried,
    LinkDetails,
    LinkRequest,
    PageBlocks,
)
from crawl_engine.model.locator import MAX_SERIES_PAGES, Series
from crawl_engine.model.stored_form import from_plain, to_plain

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
requests = st.builds(
    LinkRequest, method=st.sampled_from(METHODS), body=st.none() | texts,
    content_type=st.none() | st.just("text/x; charset=utf-8"),
    relation=st.sampled_from(RELATIONS),
)  # fmt: skip
pairs = st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
carried = st.builds(Carried, values=st.dictionaries(texts, texts, max_size=3), blocks=st.text("0123abc", max_size=32))


@given(requests, st.none() | st.integers(-5, 10**6), pairs, pairs)
def test_a_request_is_read_back(
    request_: LinkRequest, page: int | None, headers: tuple[tuple[str, str], ...], cookies: tuple[tuple[str, str], ...]
) -> None:
    numbered = replace(request_, page=page, headers=headers, cookies=cookies)
    assert LinkRequest.from_json(numbered.to_json()) == numbered


def test_a_process_that_extracts_sends_no_cookies() -> None:
    line = LinkDetails(LinkRequest(cookies=(("store", "%{env.SECRET}"),))).to_line()
    with pytest.raises(ValueError, match="not the request of a link"):
        LinkDetails.from_line(line)


def test_stored_forms_of_before_stay() -> None:
    assert PLAIN_LINK.to_json() is None
    assert LinkRequest(relation="next").to_json() == '["GET",null,null,"next",null]'
    assert LinkRequest(headers=(("A", "b"),)).to_json() == '["GET",null,null,"link",null,[["A","b"]]]'


@given(requests, carried)
def test_details_are_read_back(request_: LinkRequest, values: Carried) -> None:
    details = LinkDetails(request_, values.to_json())
    line = details.to_line()
    assert "\n" not in line
    assert LinkDetails.from_line(line) == details
    assert Carried.from_json(details.carried) == values


def test_a_plain_link_and_nothing_carried_are_not_stored() -> None:
    assert PLAIN_LINK.to_json() is None
    assert LinkRequest.from_json(None) is PLAIN_LINK
    assert Carried.from_json(None) is NOTHING_CARRIED
    assert LinkRequest(relation="next").to_json() is not None


@pytest.mark.parametrize(
    ("request_", "plain"),
    [
        (LinkRequest(), True),
        (LinkRequest(relation="next"), True),
        (LinkRequest(method="POST"), False),
        (LinkRequest(body=""), False),
    ],
)
def test_what_a_plain_link_sends(request_: LinkRequest, plain: bool) -> None:
    assert request_.is_plain_get is plain


def request_text(*parts: object) -> str:
    return orjson.dumps(parts).decode()


GET = ("GET", None, None, "link", None)


@pytest.mark.parametrize(
    "line",
    [
        "", "{}", "null", "[]", "[null]", "[null,null,null]", '"ab"', "[1,null]", "[[],null]", '["x",null]',
        '["null",null]', "[null,1]", '[null,""]', '[null,"null"]', '[null,"[]"]', "[" * 5_000,
        *[
            orjson.dumps([request_text(*parts), None]).decode()
            for parts in [
                GET[:4], (*GET, None), ("get", *GET[1:]), ("TRACE", *GET[1:]), (["GET"], *GET[1:]), (None, *GET[1:]),
                ("GET", 1, None, "link", None), ("GET", None, ["x"], "link", None), ("GET", None, None, "up", None),
                ("GET", None, None, None, None), ("GET", None, None, "link", 2), ("GET", {"a": 1}, None, "link", None),
                ("GET", None, "text/html\r\nX-Evil: 1", "link", None),
            ]
        ],
        *[
            orjson.dumps([None, orjson.dumps(value).decode()]).decode()
            for value in [
                [], [{}], [{}, "", 1], [[], ""], ["ab", ""], [{"a": 1}, ""], [{"a": None}, ""], [{"a": ["x"]}, ""],
                [{}, None], [{}, 1], [{}, "x" * 65], [{"a": "x" * 5_000}, ""], {"values": {}, "blocks": ""},
            ]
        ],
    ],
)  # fmt: skip
def test_details_that_are_not_valid_are_refused(line: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        LinkDetails.from_line(line)


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")))
def test_no_text_raises_anything_else(line: str) -> None:
    try:
        LinkDetails.from_line(line)
    except (ValueError, TypeError):
        pass


@pytest.mark.parametrize("value", [None, [], [True], [1, "x"], [True, 1], [True, "x" * 65], [True, "x", 1], {}, 7])
def test_blocks_that_are_not_valid_are_refused(value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, PageBlocks)
    assert msgspec.convert([True, "ab"], PageBlocks) == PageBlocks(True, "ab")


def pages(series: Series, count: int = 5) -> list[int]:
    number: int | None = series.first
    numbers = []
    while number is not None and len(numbers) < count:
        numbers.append(number)
        number = series.following(number)
    return numbers


@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [
        (1, None, [1, 2, 3, 4, 5]), (1, 3, [1, 2, 3]), (3, 1, [3, 2, 1]), (7, 7, [7]), (-1, 1, [-1, 0, 1]),
        (0, None, [0, 1, 2, 3, 4]), (-2, -4, [-2, -3, -4]),
    ],
)  # fmt: skip
def test_pages_follow_one_another(first: int, last: int | None, numbers: list[int]) -> None:
    assert pages(Series(url=("/", ""), first=first, last=last)) == numbers


def test_a_series_has_a_largest_number_of_pages() -> None:
    for last in (None, 10**9):
        series = Series(url=("/", ""), first=5, last=last)
        assert series.following(5 + MAX_SERIES_PAGES - 2) == 5 + MAX_SERIES_PAGES - 1
        assert series.following(5 + MAX_SERIES_PAGES - 1) is None
    down = Series(url=("/", ""), first=5, last=-(10**9))
    assert down.following(5 - MAX_SERIES_PAGES + 1) is None


def test_the_request_of_a_page() -> None:
    series = Series(url=("https://a/?p=", "&q=", ""), body=("n=", ""), first=8, width=3)
    assert series.request(9) == ("https://a/?p=009&q=009", "n=009")
    assert Series(url=("https://a/",), body=('{"n":', "}"), first=1).request(2) == ("https://a/", '{"n":2}')
    assert Series(url=("https://a/", ""), first=-1, width=3).request(-2) == ("https://a/-02", None)


@given(
    st.lists(texts, min_size=1, max_size=3), st.lists(texts, max_size=3), st.integers(-5, 5),
    st.none() | st.integers(-5, 5), st.integers(0, 5),
)  # fmt: skip
def test_a_series_is_read_back(url: list[str], body: list[str], first: int, last: int | None, width: int) -> None:
    series = Series(url=tuple(url), body=tuple(body), first=first, last=last, width=width)
    assert from_plain(Series, orjson.loads(orjson.dumps(to_plain(series)))) == series
