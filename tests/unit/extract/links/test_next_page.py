"""The page that follows another: by values of the page, until it is empty."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.extract.page.page import PageKind
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.slips import explain_header
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.job import link_key, request_key
from crawl_engine.model.link import Carried, Link, LinkRequest, NextPage, RequestTemplate
from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.extraction.page_extraction import apply_data_defs
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.rules.page_series import SeriesPart
from crawl_engine.urls import QueryStripper
from tests.unit.extract.pages import CONTEXT, page

API = "https://shop.example/api/items"
CURSOR = NextPage(request=RequestTemplate(url="/api/items?after=%{cursor}"), variables=(("cursor", "jmespath: next"),))


def apply(
    text: str, next_page: NextPage | None = CURSOR, *, kind: PageKind = "json", url: str = API,
    block: str | None = None, links: tuple[Link, ...] = (), fields: tuple[Field, ...] = (Field(name="f"),),
    **context: Any,
) -> PageResult:  # fmt: skip
    data_def = DataDef(name="d", block=block, fields=fields, links=links, next=next_page)
    extractor = RecordExtractor(data_def, {"books": 3})
    return apply_data_defs(page(text, kind=kind, url=url), replace(CONTEXT, **context), [(extractor, True)], 100)


def next_of(text: str, next_page: NextPage = CURSOR, **more: Any) -> ExtractedLink | None:
    """The page that follows it."""
    links = [link for link in apply(text, next_page, **more).links if link.details is not None]
    assert len(links) <= 1
    return links[0] if links else None


def url_of(value: Any) -> str | None:
    link = next_of(json.dumps({"next": value}))
    return None if link is None else link.url


def test_a_value_leads_to_the_next_page_of_the_group() -> None:
    link = next_of('{"next": "a b&c"}')
    assert link is not None
    assert link == ExtractedLink(
        f"{API}?after=a%20b%26c", "books", 3, None, link_key("books", link.url), details=link.details
    )
    assert link.details is not None
    assert (link.details.request, link.details.carried) == (LinkRequest(relation="next"), None)
    assert link.details.stays_at_depth


BY_HEADER = NextPage(
    request=RequestTemplate(url="/api/items?page=%{p}"), variables=(("p", "header: X-Next-Page"),)
)  # fmt: skip
BY_VARIABLE = NextPage(request=RequestTemplate(url="/api/items?page=%{document.header.X-Next-Page}"), variables=())


@pytest.mark.parametrize("next_page", [BY_HEADER, BY_VARIABLE], ids=["variable", "url"])
@pytest.mark.parametrize(
    ("values", "url", "faults"),
    [
        (["2"], f"{API}?page=2", []),
        (["a+b/c=&d"], f"{API}?page=a%2Bb%2Fc%3D%26d", []),
        (["a,b"], f"{API}?page=a%2Cb", []),
        (["2", "2"], f"{API}?page=2", []),
        ([], None, []),
        ([""], None, []),
        (["2 , 2"], f"{API}?page=2", []),
        (["Mon, 30 Nov 2026 10:00:00 GMT"], f"{API}?page=Mon%2C%2030%20Nov%202026%2010%3A00%3A00%20GMT", []),
        (["[not stored]"], None, []),
        (["2, 3"], None, ["`next`: the header X-Next-Page has several values: '2, 3'"]),
        (["2", "3"], None, ["`next`: the header X-Next-Page has several values: '2, 3'"]),
    ],
)
def test_a_header_leads_to_the_next_page(
    next_page: NextPage, values: list[str], url: str | None, faults: list[str]
) -> None:
    answered = page("[]", kind="json", url=API)
    answered.headers = [("x-next-page", value) for value in values]
    extractor = RecordExtractor(DataDef(name="d", fields=(Field(name="f"),), next=next_page), {})
    result = apply_data_defs(answered, CONTEXT, [(extractor, True)], 100)
    assert [link.url for link in result.links] == ([url] if url else [])
    assert [*answered.faults] == faults


@pytest.mark.parametrize(
    "value", [None, "", "  ", "\t\n", False, [], [None], {}, {"a": 1}, [""], [False], [{}], [[1]], [[[[]]]]], ids=repr
)
def test_a_missing_blank_or_false_value_ends_the_chain(value: Any) -> None:
    assert url_of(value) is None
    assert next_of("{}") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (1.5, "1.5"), (True, "true"), ("0", "0"), ("false", "false"), (["x", "y"], "x"),
     ([None, 4], "4"), (2**70, str(2**70)), ("é", "%C3%A9")],
)  # fmt: skip
def test_values_of_json_are_written_as_texts(value: Any, text: str) -> None:
    assert url_of(value) == f"{API}?after={text}"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"id": 1}, "`next`: `cursor` is an object or a list, which no request can send"),
        ([[1]], "`next`: `cursor` is an object or a list, which no request can send"),
        ("x" * 20_000, "`next` has a URL of more than 16,384 characters"),
    ],
)
def test_a_value_that_no_request_can_send_is_said(value: Any, fault: str) -> None:
    extracted = apply(json.dumps({"next": value}))
    assert not extracted.links
    assert fault in extracted.faults


def test_a_value_in_a_json_body_keeps_its_type() -> None:
    template = RequestTemplate(json='{"after":"%{cursor}","key":"%{env.KEY}","page":"p%{cursor}"}')
    next_page = replace(CURSOR, request=template)
    link = next_of('{"next": 7}', next_page)
    assert link is not None
    assert link.details is not None
    body = '{"after":7,"key":"%{env.KEY}","page":"p7"}'
    assert link.details.request == LinkRequest(
        method="POST", body=body, content_type="application/json", relation="next"
    )
    assert (link.url, link.key) == (API, request_key("books", API, "POST", body))
    hostile = next_of('{"next": "%{env.SECRET}"}', next_page)
    assert hostile is not None
    assert hostile.details is not None
    assert r'"\u0025{env.SECRET}"' in str(hostile.details.request.body)


def test_a_variable_of_the_environment_goes_to_the_site_of_the_page_alone() -> None:
    template = RequestTemplate(url="%{cursor}", json='{"key":"%{env.KEY}"}')
    for target in ("http://shop.example/api", "https://shop.example:444/api"):
        assert next_of(json.dumps({"next": target}), replace(CURSOR, request=template)) is None
    link = next_of('{"next": "/api?2"}', replace(CURSOR, request=template))
    assert link is not None
    assert link.url == "https://shop.example/api?2"


def test_a_form_is_a_body_or_with_get_the_query() -> None:
    form = RequestTemplate(form=(("after", "%{cursor}"), ("n", "50")), has_form=True)
    posted = next_of('{"next": "a b"}', replace(CURSOR, request=form))
    assert posted is not None
    assert posted.details is not None
    assert (posted.url, posted.details.request.body) == (API, "after=a+b&n=50")
    got = next_of('{"next": "a b"}', replace(CURSOR, request=replace(form, method="GET")), url=f"{API}?x=1")
    assert got is not None
    assert got.details is not None
    assert (got.url, got.details.request) == (f"{API}?after=a+b&n=50", LinkRequest(relation="next"))


def test_the_whole_url_may_be_a_value() -> None:
    whole = NextPage(request=RequestTemplate(url="%{u}"), variables=(("u", "a.next"),))
    for text, url in [
        ("<a class=next>/tea?page=2#x</a>", "https://shop.example/tea?page=2"),
        ("<a class=next> https://u:pw@shop.example/3 </a>", "https://shop.example/3"),
        ("<base href=/b/><a class=next>4</a>", "https://shop.example/b/4"),
        ("<a class=next>https://other.example/5</a>", None),
        ("<a class=next>//shop.example.evil/5</a>", None),
        ("<a class=next>javascript:x</a>", None),
        ("<a class=next></a>", None),
        ("<p>", None),
        (f"<a class=next>/{'x' * 20_000}</a>", None),
    ]:
        link = next_of(text, whole, kind="html")
        assert (link.url if link else None) == url, text


def test_a_page_that_names_itself_is_the_last() -> None:
    assert next_of('{"next": "x"}', url=f"{API}?after=x") is None
    posted = replace(CURSOR, request=RequestTemplate(json='{"after":"%{cursor}"}'))
    assert next_of('{"next": "x"}', posted, url=API) is not None, "the store knows whether it was sent before"


def test_query_keys_that_hosts_drop_are_dropped() -> None:
    whole = replace(CURSOR, request=RequestTemplate(url="/api?after=2&sid=1&x=%{cursor}"))
    data_def = DataDef(name="d", fields=(Field(name="f"),), next=whole)
    extractor = RecordExtractor(data_def, query_stripper=QueryStripper({"shop.example": ("sid",)}))
    source = page('{"next": "2&sid=1"}', kind="json", url=API)
    (link,) = apply_data_defs(source, CONTEXT, [(extractor, True)], 100).links
    assert link.url == "https://shop.example/api?after=2&x=2%26sid%3D1"


def test_what_was_carried_to_a_page_is_carried_on() -> None:
    link = next_of('{"next": "2"}', carried={"shop": "a"})
    assert link is not None
    assert link.details is not None
    assert Carried.from_json(link.details.carried) == Carried(values={"shop": "a"})
    sent = replace(CURSOR, request=RequestTemplate(url="/x?s=%{carried.shop}&c=%{cursor}&d=%{depth}"))
    link = next_of('{"next": "2"}', sent, carried={"shop": "a b"})
    assert link is not None
    assert link.url == "https://shop.example/x?s=a%20b&c=2&d=1"
    assert next_of('{"next": "2"}', sent) is None


def added(url: str, locator: str = API, **steps: int) -> str | None:
    """The URL of the page that follows by numbers that are added; the fault, if there is one."""
    variables = tuple((name, str(step)) for name, step in (steps or {"offset": 20}).items())
    adding = NextPage(request=RequestTemplate(), variables=variables, until_empty=True)
    result = apply("<p>1", adding, kind="html", url=url, block="p", locator_url=locator)
    assert len(result.links) + len(result.faults) == 1
    return result.links[0].url if result.links else result.faults[0]


@pytest.mark.parametrize(
    ("query", "following"),
    [
        ("", "?offset=20"), ("?offset=0", "?offset=20"), ("?offset=", "?offset=20"), ("?offset", "?offset=20"),
        ("?a=1", "?a=1&offset=20"), ("?a=1&offset=40&b=%20+c", "?a=1&offset=60&b=%20+c"),
        ("?offset=-20", "?offset=0"), ("?offset=007", "?offset=027"), ("?offset=980", "?offset=1000"),
        ("?offset=1&offset=5", "?offset=21&offset=5"), ("?o%66fset=1", "?o%66fset=21"),
        ("?q=a&&offset=1", "?q=a&&offset=21"),
    ],
)  # fmt: skip
def test_a_number_is_added_to_a_parameter(query: str, following: str) -> None:
    assert added(API + query) == API + following


def test_several_numbers_are_added_and_names_are_encoded() -> None:
    assert added(f"{API}?page=1&start=0", page=1, start=50) == f"{API}?page=2&start=50"
    assert added(API, **{"p[n]": 5}) == f"{API}?p%5Bn%5D=5"
    assert added(f"{API}?p[n]=5", **{"p[n]": 5}) == f"{API}?p[n]=10"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("?offset=x", "`next`: `offset` is not a number in the URL"),
        ("?offset=1.5", "`next`: `offset` is not a number in the URL"),
        ("?offset=%20", "`next`: `offset` is not a number in the URL"),
        ("?offset=1000000000000000000", "`next`: `offset` is not a number in the URL"),
        ("?offset=1999980", "`next`: `offset` has led to 100,000 pages, and leads no further"),
    ],
)
def test_what_cannot_be_raised_ends_the_chain_and_is_said(query: str, fault: str) -> None:
    assert added(API + query) == fault


def test_a_missing_parameter_that_is_raised_by_1_may_be_0_or_1() -> None:
    assert added(API, page=1) == "`next`: the URL has no `page`; write the first number in the URL of the locator"
    assert added(f"{API}?page=0", page=1) == f"{API}?page=1"


def test_the_pages_are_counted_from_the_first_number_of_the_locator() -> None:
    assert added(f"{API}?offset=1999980", f"{API}?offset=20") == f"{API}?offset=2000000"
    assert added(f"{API}?offset=2000000", f"{API}?offset=20") == (
        "`next`: `offset` has led to 100,000 pages, and leads no further"
    )


def test_a_page_without_a_block_ends_what_is_added() -> None:
    adding = NextPage(request=RequestTemplate(), variables=(("offset", "20"),), until_empty=True)
    assert not apply("<i>1", adding, kind="html", block="p").links


UNTIL = replace(CURSOR, until_empty=True)


def test_until_empty_needs_a_block_or_a_followed_link() -> None:
    for items, expected in (("[1]", True), ("[]", False), ("null", False)):
        text = f'{{"next": "2", "items": {items}}}'
        assert (next_of(text, UNTIL, block="jmespath: items") is not None) is expected, items
    text = '{"next": "2", "items": [], "detail": "%s"}'
    links = (Link(selector="jmespath: detail", group="detail"),)
    for url, expected in (("/d", True), ("https://other.example/d", False)):
        found = next_of(text % url, UNTIL, block="jmespath: items", links=links)
        assert (found is not None) is expected, url


def test_a_rejected_record_counts_as_one() -> None:
    data_def = DataDef(
        name="d", block="p", fields=(Field(name="f", selector="i", required=True),),
        next=NextPage(request=RequestTemplate(url="/x?n=%{n}"), variables=(("n", "b"),), until_empty=True),
    )  # fmt: skip
    extracted = apply_data_defs(page("<b>2</b><p>"), CONTEXT, [(RecordExtractor(data_def), True)], 10)
    assert (len(extracted.rejected), len(extracted.links)) == (1, 1)


def test_a_page_that_repeats_the_blocks_before_it_gives_nothing() -> None:
    text = '{"next": "%s", "items": [1, 2]}'
    first = apply(text % "2", UNTIL, block="jmespath: items")
    (link,) = first.links
    assert link.details is not None
    digest = Carried.from_json(link.details.carried).blocks
    assert digest
    again = apply(text % "3", UNTIL, block="jmespath: items", rules={"series": digest})
    assert (again.rows, list(again.links)) == ((), [])
    part = again.parts["series"]
    assert isinstance(part, SeriesPart)
    assert part.is_repeated
    other = apply('{"next": "3", "items": [1, 3]}', UNTIL, block="jmespath: items", rules={"series": digest})
    assert (len(other.rows[0][1]), len(other.links), other.parts) == (2, 1, {})


def digest_of(text: str, block: str | None, kind: PageKind = "html", **parts: Any) -> tuple[bool, str]:
    part = apply(text, None, kind=kind, block=block, rules={"series": "in series "}, **parts).parts["series"]
    assert isinstance(part, SeriesPart)
    assert part.blocks is not None
    return tuple(part.blocks)


@pytest.mark.parametrize(
    ("block", "kind", "one", "two", "same"),
    [
        ("p", "html", "<p>a<p>b", "<p> a\n<p>b", True),
        ("p", "html", "<p>a<p>b", "<p>b<p>a", False),
        ("p", "html", "<p>a<p>b", "<p>ab", False),
        ("p", "html", "<p>a", "<p>a<p>a", False),
        ("p", "html", "<p>a<div>1</div>", "<p>a<div>2</div>", True),
        ("p", "html", "<p><a href=1>x</a>", "<p><a href=2>x</a>", False),
        ("p", "html", "<p><img src=1>x", "<p><img src=2>x", False),
        ("p", "html", "<p id=1 data-token=2>x", "<p id=3 data-token=4>x", True),
        ("a", "html", "<a href=1>x</a>", "<a href=2>x</a>", False),
        ("xpath://p", "html", "<p><a href=1>x</a>", "<p><a href=2>x</a>", False),
        ("xpath://p", "html", "<p><!-- 1 -->x", "<p><!-- 2 -->x", True),
        ("xpath://p/text()", "html", "<p>x", "<p>y", False),
        ("item", "xml", "<r><item>a</item></r>", "<r><item>a</item><x/></r>", True),
        ("item", "xml", "<r><item>a</item></r>", "<r><item>b</item></r>", False),
        ("jmespath: i", "json", '{"i":[{"a":1}],"t":1}', '{"i":[{"a":1}],"t":2}', True),
        ("jmespath: i", "json", '{"i":[{"a":1}]}', '{"i":[{"a":2}]}', False),
        ("jmespath: i", "json", '{"i":[1]}', '{"i":["1"]}', False),
        ("jmespath: i", "json", '{"i":[1,2]}', '{"i":[2,1]}', False),
    ],
)
def test_blocks_are_the_same_by_their_text_and_their_addresses(
    block: str, kind: PageKind, one: str, two: str, same: bool
) -> None:
    first, second = digest_of(one, block, kind, fields=()), digest_of(two, block, kind, fields=())
    assert first[0]
    assert second[0]
    assert (first == second) is same


def test_the_values_of_fields_tell_blocks_of_one_text_apart_and_addresses_do_not() -> None:
    one, two = "<p id=1><a href=/cart?back=1>x</a>", "<p id=2><a href=/cart?back=2>x</a>"
    assert digest_of(one, "p", "html") == digest_of(two, "p", "html"), "a link back to the list names its page"
    fields = (Field(name="id", attribute="id"),)
    assert digest_of(one, "p", "html", fields=fields) != digest_of(two, "p", "html", fields=fields)


def test_without_blocks_the_followed_links_tell_pages_apart() -> None:
    links = (Link(selector="a", deny=("ad",)),)
    assert digest_of("<p>", None, links=links)[0] is False
    assert digest_of("<a href=/ad>", None, links=links)[0] is False
    one, two = digest_of("<a href=/1>1", None, links=links), digest_of("<a href=/2>1", None, links=links)
    assert one[0]
    assert one != two
    assert digest_of("<a href=/1>other text", None, links=links) == one


BY_HEADER = NextPage(request=RequestTemplate(), variables=(), header="next")


def linked(header: str, next_page: NextPage = BY_HEADER, text: str = "[{}]") -> str | None:
    data_def = DataDef(name="d", block="jmespath: @", fields=(Field(name="f"),), next=next_page)
    one = page(text, kind="json", url=API)
    one.headers = (("link", header),)
    extracted = apply_data_defs(one, CONTEXT, [(RecordExtractor(data_def, {}), True)], 100)
    return next((link.url for link in extracted.links), None)


@pytest.mark.parametrize(
    ("header", "url"),
    [
        (f'<{API}?after=k3>; rel="next"', f"{API}?after=k3"),
        ('<?page=2>; rel="next"', f"{API}?page=2"),
        ('</api/items>; rel="first"', None),
        (f'<{API}>; rel="next"', None),
        ('<http://other.example/2>; rel="next"', None),
        ('<file:///etc/passwd>; rel="next"', None),
        ('<>; rel="next"', None),
    ],
)
def test_the_next_page_stands_in_the_header_link(header: str, url: str | None) -> None:
    assert linked(header) == url


def test_a_page_without_a_record_ends_a_chain_by_header_with_until() -> None:
    by_header = replace(BY_HEADER, until_empty=True)
    assert linked("<?page=2>; rel=next", by_header) == f"{API}?page=2"
    assert linked("<?page=2>; rel=next", by_header, text="[]") is None


@pytest.mark.parametrize(
    ("written", "text"),
    [("X-Next-Pag", "did you mean `x-next-page`?"), ("X-Next-Page", ""), ("Total", "headers are `x-next-page`")],
)
def test_a_header_that_no_answer_has_is_explained(written: str, text: str) -> None:
    answered = page("[]", kind="json", url=API)
    answered.headers = [("x-next-page", "")]
    assert explain_header(written, answered).text == text


def test_a_selector_of_the_element_header_is_no_header() -> None:
    by_element = replace(CURSOR, variables=(("cursor", "header:first-child"),))
    link = next_of("<header>7</header>", by_element, kind="html")
    assert link is not None
    assert link.url == f"{API}?after=7"
