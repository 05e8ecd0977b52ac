"""`srcset` is read by the algorithm of HTML: on fields and links, in order, absolute."""

from typing import Any

import pytest

from crawl_engine.extract.select.srcset import read_candidates
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link
from tests.unit.extract.pages import extract, value

HOST = "https://shop.example"
MARKUP = (
    '<img id=m src=/s.jpg srcset="/i/w_300,h_200/x.jpg 300w,/i/w_600,h_400/x.jpg 600w">'
    '<img id=n srcset="/n1.jpg, n2.jpg 2x"><img id=o src=/o.jpg>'
)

URLS = [f"{HOST}{path}" for path in ("/i/w_300,h_200/x.jpg", "/i/w_600,h_400/x.jpg", "/n1.jpg", "/catalogue/n2.jpg")]


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("/i/w_300,h_200/x.jpg 300w,/i/w_600,h_400/x.jpg 600w", ["/i/w_300,h_200/x.jpg", "/i/w_600,h_400/x.jpg"]),
        ("/n1.jpg, /n2.jpg 2x", ["/n1.jpg", "/n2.jpg"]),
        ("a,b,,c,", ["a,b,,c"]),
        ("data:image/gif;base64,R0lGOD,lhAQ 1x, /real.gif 2x", ["data:image/gif;base64,R0lGOD,lhAQ", "/real.gif"]),
        (",, \n a 1x ,\tb", ["a", "b"]),
        ("a,, b", ["a", "b"]),
        ("a 1x,b 2x", ["a", "b"]),
        ("a (,) , b 1x", ["b"]),
        ("a foo(1, 2, b 2x", []),
        ("a 1w 2h, b 2h, c 1w 1x, d 0w, e -1x, f 1x 1x, g +1x, h 1.x, i .5x, j 1e2x", ["a", "i", "j"]),
        ("a\u00a01x", ["a\u00a01x"]),
        ("", []),
        (" , ", []),
    ],
)
def test_candidates(text: str, urls: list[str]) -> None:
    assert read_candidates(text, largest=False) == urls


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("a 300w, b 1200w, c 600w", "b"),
        ("a, b 3x, c 2x", "b"),
        ("a .5x, b", "b"),
        ("a 2x, b 2x", "a"),
        ("a 9x, b 10w", "b"),
        ("a 1e999x", "a"),
        (f"a {'9' * 5000}w, b 1w", "a"),
    ],
)
def test_the_largest(text: str, url: str) -> None:
    assert read_candidates(text, largest=True) == [url]
    assert read_candidates("", largest=True) == []


@pytest.mark.parametrize("prefix", ["", "xpath: //"])
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({}, f"{HOST}/i/w_300,h_200/x.jpg"),
        ({"largest": True}, f"{HOST}/i/w_600,h_400/x.jpg"),
        ({"split": ", "}, [f"{HOST}/i/w_300,h_200/x.jpg", f"{HOST}/i/w_600,h_400/x.jpg"]),
        ({"all": True}, URLS),
        ({"all": True, "largest": True}, [f"{HOST}/i/w_600,h_400/x.jpg", f"{HOST}/catalogue/n2.jpg"]),
        ({"all": True, "match": "[^/]*$"}, ["x.jpg", "x.jpg", "n1.jpg", "n2.jpg"]),
    ],
)
@pytest.mark.parametrize("kind", ["str", "url", "file"])
def test_fields_have_absolute_urls_in_order(prefix: str, field: dict[str, Any], expected: Any, kind: Any) -> None:
    if "match" in field and kind != "str":
        return
    assert value(MARKUP, selector=f"{prefix}img", attribute="srcset", type=kind, **field) == expected


def test_other_names_blocks_and_missing_attributes() -> None:
    lazy = '<source data-srcset="a 1x, b,c 2x"><base href="//cdn.example/x/">'
    assert value(lazy, selector="source", attribute="data-srcset", all=True) == [
        "https://cdn.example/x/a", "https://cdn.example/x/b,c"
    ]  # fmt: skip
    assert value(MARKUP, selector="#o", attribute="srcset") is None
    assert value(MARKUP, selector="#o", attribute="srcset", all=True) == []
    fields = (Field(name="u", attribute="srcset", all=True, type="url"),)
    rows = extract(DataDef(name="d", block="img", fields=fields), MARKUP).rows
    assert [len(row["u"]) for row in rows] == [2, 2, 0]


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("selector", ["img", "xpath: //img"])
def test_links_follow_candidates(selector: str, largest: bool) -> None:
    link = Link(selector=selector, attribute="srcset", largest=largest)
    links = [one.url for one in extract(DataDef(name="d", links=(link,)), MARKUP).links]
    assert links == (URLS[1::2] if largest else URLS)
