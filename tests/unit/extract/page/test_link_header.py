"""Links in the header `Link`, as RFC 8288 and servers write them."""

import time

import pytest

from crawl_engine.extract.page.link_header import find_linked


@pytest.mark.parametrize(
    ("header", "target"),
    [
        ('<http://a/2>; rel="next"', "http://a/2"),
        ("</2>;rel=next", "/2"),
        ('<http://a/1>; rel="first", <http://a/2?x=1,2>; title="x, y; rel=\\"prev\\""; rel="next"', "http://a/2?x=1,2"),
        ('<?page=2>; REL="prefetch NEXT"', "?page=2"),
        ("<a>; rel=prev; rel=next, <b>; rel=next", "b"),
        ('<a>; rel="next"; anchor="#part", <b> ; rel = "next"', "b"),
        (',, <a>;rel="next"', "a"),
        ('<>; rel="next"', ""),
        ('<a>; rel="prev"', None),
        ('<a>; rel="nextpage"', None),
        ('<a>; rel="next', None),
        ("a; rel=next", None),
        ("", None),
    ],
)
def test_the_first_link_with_the_relation_counts(header: str, target: str | None) -> None:
    assert find_linked([("link", header)], "next") == target


def test_all_headers_of_the_name_are_read() -> None:
    assert find_linked([("link", "<a>; rel=prev"), ("age", "1"), ("link", "<b>; rel=next")], "next") == "b"


@pytest.mark.parametrize("piece", ["<a>;", '<a>; rel="', '<a>; x="\\', "<a>; rel=x, ", ";=", '<a>;"";""'])
def test_a_long_header_takes_no_time(piece: str) -> None:
    start = time.process_time()
    find_linked([("link", piece * 100_000)], "next")
    assert time.process_time() - start < 0.5
