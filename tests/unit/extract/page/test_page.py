"""Properties of a page: base URL, meta robots, JSON; and variables."""

import pytest

from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.page.context import Context, format_utc
from crawl_engine.extract.page.page import Page, PageTooCostly


def page(text: str, url: str = "https://h.example/a/b?q#f", kind: str = "html") -> Page:
    return Page(url=url, text=text, kind=kind, status=200, fetched_at=0.0)  # type: ignore[arg-type]


def forbidden(one: Page, agent: str) -> tuple[bool, bool]:
    """Whether its links may not be followed, and whether it may not be indexed."""
    return "nofollow" in one.robots(agent), "noindex" in one.robots(agent)


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("<p>", "https://h.example/a/b?q"),
        ("<base href='/x/'>", "https://h.example/x/"),
        ("<BASE HREF='../y/#z'>", "https://h.example/y/"),
        ("<base target=_top><base href=//o.example/><base href=/late/>", "https://o.example/"),
        ("<body><p>a<base href=/deep/>", "https://h.example/deep/"),
        ("<BaSe\nHREF=/upper/>", "https://h.example/upper/"),
        ("<!-- <base href=/no/> -->", "https://h.example/a/b?q"),
        ("<base href='javascript:1'>", "https://h.example/a/b?q"),
        ("<base href='http://['>", "https://h.example/a/b?q"),
        ("<base href=''>", "https://h.example/a/b?q"),
        ("<base href>", "https://h.example/a/b?q"),
    ],
)
def test_the_base_is_the_first_base_tag_or_the_final_url(text: str, base: str) -> None:
    assert page(text).base == base


@pytest.mark.parametrize(
    ("text", "nofollow"),
    [
        ("<meta name=robots content=nofollow>", True),
        ("<META NAME='Robots' CONTENT='NoIndex,NOFOLLOW'>", True),
        ("<meta name=robots content='none'>", True),
        ("<meta name=robots content='noindex, follow'>", False),
        ("<meta name=robots>", False),
        ("<meta name=other content=nofollow> robots", False),
        ("<p>x</p><meta name=robots content=nofollow>", True),
        ("", False),
    ],
)
def test_meta_robots(text: str, nofollow: bool) -> None:
    assert ("nofollow" in page(text).robots("")) is nofollow


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("<meta name=robots content='noindex'>", (False, True)),
        ("<meta name=ROBOTS content='none'>", (True, True)),
        ("<meta name=' Acme-Bot ' content='nofollow'><meta name=robots content=noindex>", (True, True)),
        ("<meta name=otherbot content='noindex, nofollow'>robots acme-bot", (False, False)),
        ("<meta name=robots content='all'><meta name=acme-bot content='NoIndex;x'>", (False, True)),
        ("<meta name=acme-bot content='index, nofollow, max-snippet:20'>", (True, False)),
    ],
)
def test_meta_of_all_robots_and_of_our_own_name_count(text: str, asked: tuple[bool, bool]) -> None:
    assert forbidden(page(text), "acme-bot") == asked


@pytest.mark.parametrize(
    ("tags", "asked"),
    [
        (("noindex",), (False, True)),
        (("noindex, nofollow",), (True, True)),
        (("None",), (True, True)),
        (("acme-bot: nofollow",), (True, False)),
        (("otherbot: noindex, nofollow",), (False, False)),
        (("noindex, otherbot: nofollow",), (False, True)),
        (("otherbot: noindex, Acme-Bot: nofollow, noarchive",), (True, False)),
        (("otherbot: none", "nofollow"), (True, False)),
        (("other bot: noindex, nofollow",), (False, False)),
        (("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), (False, True)),
        (("unavailable_after: Friday, 25-Jun-10 15:00:00 GMT, noindex",), (False, True)),
        (("max-snippet: 0, max-image-preview: none, nofollow",), (True, False)),
        ((), (False, False)),
    ],
)
@pytest.mark.parametrize("kind", ["html", "json"])
def test_headers_of_all_robots_and_of_our_own_name_count(
    kind: str, tags: tuple[str, ...], asked: tuple[bool, bool]
) -> None:
    tagged = Page(
        url="http://h/",
        text="1",
        kind=kind,
        status=200,
        fetched_at=0.0,
        headers=[("x-robots-tag", tag) for tag in tags],
    )  # type: ignore[arg-type]
    assert forbidden(tagged, "acme-bot") == asked


def test_header_and_meta_add_up() -> None:
    text = "<meta name=robots content=noindex>"
    tagged = Page(
        url="http://h/", text=text, kind="html", status=200, fetched_at=0.0, headers=(("x-robots-tag", "nofollow"),)
    )
    assert tagged.robots("a") == {"nofollow", "noindex"}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "nul", "9" * 5_000, "\ud800"])
def test_invalid_json_is_missing(text: str) -> None:
    assert page(text, kind="json").data is MISSING


def test_json_keeps_digits_and_replaces_invalid_characters() -> None:
    data = page('\ufeff{"a": 19.90, "b": "\\ud800\\u0000\\ud83d\\ude00", "\\udc00": NaN}', kind="json").data
    assert data["a"].digits == "19.90"
    assert data["b"] == "\ufffd\ufffd\U0001f600"
    assert data["\ufffd"] is None


def test_json_has_no_tree_and_html_has_no_data() -> None:
    assert page("{}", kind="json").tree is None
    assert page("{}", kind="json").element is None
    assert page("{}").data is MISSING


def test_xml_entities_are_not_resolved() -> None:
    text = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;<b/></a>'
    root = page(text, kind="xml").element
    assert root is not None
    assert "root:" not in "".join(root.itertext())


def test_variables() -> None:
    context = Context(
        group="g", locator="n", locator_url="http://l/", depth=3, run="r1", run_time="2024-01-01", nofollow=True
    )
    text = (
        "%{document.url} %{document.fetchedAt} %{document.status} %{locator.name} %{locator.group} %{locator.url} "
        "%{depth} %{run.id} %{run.time} %%{x} %{env.HOME}"
    )
    assert context.render(text, page("", url="http://h/")) == (
        "http://h/ 1970-01-01T00:00:00Z 200 n g http://l/ 3 r1 2024-01-01 %{x} %{env.HOME}"
    )


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1e300])
def test_an_out_of_range_time_is_empty(seconds: float) -> None:
    assert format_utc(seconds) == ""


def test_times_are_utc_to_the_second() -> None:
    assert format_utc(1_706_691_900.987) == "2024-01-31T09:05:00Z"


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        ("<r><a>1 &amp; 2</a></r>", False),
        ("<rss><item>x &nbsp; y</item></rss>", False),
        ("\n<?xml version='1.0'?><r/>", False),
        ("<r>a & b</r>", False),
        ("<r><media:x/></r>", False),
        ("<r><a x=1>1</a><a>2</a></r>", True),
        ("<rss><item><t>1</t></item><item><t>", True),
        ("<r/><r/>", True),
    ],
)
def test_malformed_xml_is_said(text: str, malformed: bool) -> None:
    document = page(text, kind="xml")
    assert document.element is not None
    assert any("malformed" in fault for fault in document.faults) is malformed


@pytest.mark.parametrize(
    "inner",
    ["<a/><b/>" * 60_000, "<item><b/><i x='1'/></item>" * 9_000, "<div>" * 200 + "</div>" * 200],
    ids=["closed", "formatting", "200 levels"],
)
def test_rules_of_html_do_not_count_for_xml(inner: str) -> None:
    page = Page(url="http://h/", text=f"<r>{inner}</r>", kind="xml", status=200, fetched_at=0)
    assert page.element is not None
    assert len(list(page.element.iter())) == 1 + inner.count("<") - inner.count("</")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<a>" * 900_000, "Excessive depth in document: 256"),
        ("<r>" + "<a>" * 300 + "</a>" * 300 + "</r>", "Excessive depth in document: 256"),
        (f"<r><a>{'x' * 11_000_000}</a><b/></r>", "Resource limit exceeded: Text node too long"),
    ],
    ids=["open", "closed", "text"],
)
def test_xml_that_its_parser_would_cut_is_rejected(text: str, problem: str) -> None:
    page = Page(url="http://h/", text=text, kind="xml", status=200, fetched_at=0)
    with pytest.raises(PageTooCostly, match=f"http://h/ is beyond a limit of the XML parser: {problem}"):
        _ = page.element


@pytest.mark.parametrize(("levels", "is_cut"), [(2_000, False), (2_100, True)])
def test_a_page_that_xpath_cannot_read_to_its_depth_says_so(levels: int, is_cut: bool) -> None:
    page = Page(url="http://h/", text="<div>" * levels + "<b>x</b>", kind="html", status=200, fetched_at=0)
    assert page.element is not None
    assert len(list(page.element.iter("b"))) == (0 if is_cut else 1)
    assert any("XPath reads a part of the page alone: Excessive depth" in fault for fault in page.faults) is is_cut


def test_a_field_reads_a_header_of_the_answer() -> None:
    headers = (("etag", '"7"'), ("vary", "accept"), ("vary", "cookie"))
    one = Page(url="http://h/", text="", kind="html", status=200, fetched_at=0.0, headers=headers)
    context = Context(group="g", locator="n", locator_url="http://l/", depth=3, run="r1", run_time="2024-01-01")
    text = "%{document.header.ETag} %{document.header.vary} %{document.header.age}."
    assert context.render(text, one) == '"7" accept, cookie .'
