"""Links of records: which records lead where, what they carry and send."""

from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.extract.page import reading
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import PageKind, PageTooCostly
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, FilterRule
from crawl_engine.model.job import link_key, request_key
from crawl_engine.model.link import MAX_CARRIED_BYTES, PLAIN_LINK, Carried, Link, LinkDetails, RequestTemplate
from crawl_engine.model.record import ExtractedLink, Extraction
from crawl_engine.model.stored_form import SourcePosition
from tests.unit.extract.pages import CONTEXT, URL, extract, page

SHOP = """<h1>Tea</h1>
<div class=p data-sku=1><b>Green</b><i>1.50</i><a class=d href=/p/1>x</a><a class=d href=/p/1b>x</a></div>
<div class=p data-sku=2><b>Black</b><i>gone</i><a class=d href=/p/2>x</a></div>
<div class=p data-sku=3><b>Red</b><a class=d href=/p/3>x</a></div>
<div class=p data-sku=4><b>White</b><i>4.00</i><a class=d href=/p/1>again</a></div>
<a class=d href=/p/outside>x</a><a class=all href=/all>x</a>"""
PRODUCT = DataDef(
    name="product",
    block=".p",
    fields=(
        Field(name="sku", attribute="data-sku"),
        Field(name="name", selector="b"),
        Field(name="price", selector="i", type="decimal"),
        Field(name="category", selector="h1", scope="page"),
    ),
    filters=(FilterRule(field="name", pattern="Red"),),
    links=(Link(selector="a.d", in_block=True, group="detail", carry=("sku", "category")),),
)


def carried(link: ExtractedLink) -> dict[str, str]:
    return dict(Carried.from_json(link.details.carried).values) if link.details is not None else {}


def found(extraction: Extraction) -> list[tuple[str, dict[str, str]]]:
    return [(link.url.removeprefix("https://shop.example"), carried(link)) for link in extraction.links]


def follow(text: str, *links: Link, kind: PageKind = "html", block: str | None = None, **more: Any) -> Extraction:
    return extract(DataDef(name="d", block=block, links=links, **more), text, kind=kind)


def test_links_of_records_carry_their_fields_and_others_lead_nowhere() -> None:
    extraction = extract(PRODUCT, SHOP)
    assert found(extraction) == [
        ("/p/1", {"sku": "1", "category": "Tea"}),
        ("/p/1b", {"sku": "1", "category": "Tea"}),
    ], "the second record is rejected, the third filtered, and the fourth leads where the first does"
    assert (len(extraction.rows), len(extraction.rejected), extraction.counts.filtered) == (2, 1, 1)
    assert [link.key for link in extraction.links] == [
        link_key("detail", f"https://shop.example/p/{x}") for x in ("1", "1b")
    ]
    assert all(link.details is not None and link.details.request == PLAIN_LINK for link in extraction.links)


def test_links_alone_are_those_of_the_whole_extraction() -> None:
    extractor = RecordExtractor(PRODUCT)
    whole = extractor.extract(page(SHOP), CONTEXT)
    alone = extractor.extract(page(SHOP), CONTEXT, links_only=True)
    assert alone.links == whole.links
    assert (alone.rows, alone.rejected, alone.counts.filtered) == ((), (), 0)


def test_a_dropped_record_does_not_hide_the_next_one_that_leads_there() -> None:
    text = "<p><b>no</b><a href=/x></a></p><p><b>yes</b><a href=/x></a></p>"
    fields = (Field(name="n", selector="b"),)
    link = Link(selector="a", in_block=True, carry=("n",))
    for more in (
        {"filters": (FilterRule(field="n", pattern="no"),), "fields": fields},
        {"fields": (replace(fields[0], match="y.*", required=True),)},
    ):
        assert found(follow(text, link, block="p", **more)) == [("/x", {"n": "yes"})]


@pytest.mark.parametrize(
    ("kind", "block", "selector", "name", "text"),
    [
        ("html", "p", "a", "b", "<p><b>1</b><a href=/1></a></p><p><b>2</b><a href=/2></a></p><a href=/3></a>"),
        ("html", "xpath://p", "xpath://a", "xpath:.//b", "<p><b>1</b><a href=/1></a></p><p><b>2</b><a href=/2></a>"),
        ("html", "p", "xpath:.//a/@href", "b", "<p><b>1</b><a href=/1></a></p><p><b>2</b><a href=/2></a></p>"),
        ("json", "jmespath:items", "jmespath:u", "jmespath:n",
         '{"u":"/0","items":[{"u":"/1","n":1},{"u":"/2","n":2}]}'),
        ("xml", "item", "link", "n", "<r><item><n>1</n><link>/1</link></item><item><n>2</n><link>/2</link></item></r>"),
        ("html", "jmespath(script): items", "jmespath:u", "jmespath:n",
         '<script type="application/json">{"items":[{"u":"/1","n":1},{"u":"/2","n":2}]}</script>'),
    ],
)  # fmt: skip
def test_a_link_is_searched_in_the_block_of_each_kind(
    kind: PageKind, block: str, selector: str, name: str, text: str
) -> None:
    attribute = "text" if kind == "xml" else "href"
    link = Link(selector=selector, attribute=attribute, in_block=True, carry=("n",))
    extraction = follow(text, link, kind=kind, block=block, fields=(Field(name="n", selector=name),))
    assert found(extraction) == [("/1", {"n": "1"}), ("/2", {"n": "2"})]


def test_the_block_itself_may_be_the_link() -> None:
    link = Link(selector="", in_block=True, carry=("n",))
    extraction = follow("<a href=/1>x</a><a href=/2>y</a>", link, block="a", fields=(Field(name="n"),))
    assert found(extraction) == [("/1", {"n": "x"}), ("/2", {"n": "y"})]


def test_without_a_block_the_page_is_the_record() -> None:
    link = Link(selector="a", carry=("n",))
    assert found(follow("<h1>x</h1><a href=/1><a href=/2>", link, fields=(Field(name="n", selector="h1"),))) == [
        ("/1", {"n": "x"}),
        ("/2", {"n": "x"}),
    ]


def test_a_link_of_the_page_carries_fields_of_the_page() -> None:
    link = Link(selector="a.all", carry=("category", "now"))
    fields = (*PRODUCT.fields, Field(name="now", value="%{depth}"))
    extraction = extract(replace(PRODUCT, links=(link,), fields=fields), SHOP)
    assert found(extraction) == [("/all", {"category": "Tea", "now": "1"})]
    empty = extract(replace(PRODUCT, links=(link,), fields=fields), "<a class=all href=/all>")
    assert found(empty) == [("/all", {"now": "1"})], "even where there is no record"


def test_a_link_of_a_record_wins_over_that_of_the_page() -> None:
    links = (Link(selector="a", group="detail"), *PRODUCT.links)
    extraction = extract(replace(PRODUCT, links=links), SHOP)
    assert dict(found(extraction))["/p/1"] == {"sku": "1", "category": "Tea"}
    assert dict(found(extraction))["/p/2"] == {}
    assert len(extraction.links) == len({link.key for link in extraction.links})


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        (Field(name="f", selector="i"), "<i> a\nb </i>", "a b"),
        (Field(name="f", selector="i", type="int"), "<i>7</i>", "7"),
        (Field(name="f", selector="i", type="decimal"), "<i>1.50</i>", "1.50"),
        (Field(name="f", selector="i", type="bool", match="x"), "<i>x</i>", "true"),
        (Field(name="f", selector="u", type="bool", default=False, has_default=True), "<i>x</i>", "false"),
        (Field(name="f", selector="i", type="price"), "<i>1.116,90 €</i>", '{"amount":1116.90,"currency":"€"}'),
        (Field(name="f", selector="i", all=True), "<i>a</i><i>b</i>", "a|b"),
        (Field(name="f", selector="i", all=True, join="; "), "<i>a</i><i>b</i>", "a; b"),
        (Field(name="f", selector="p", fields=(Field(name="x", selector="i"),)), "<p><i>1</i></p>", '[{"x":"1"}]'),
        (Field(name="f", selector="u", default="none", has_default=True), "", "none"),
        (Field(name="f", value="%{document.url}"), "", URL),
        (Field(name="f", selector="u"), "", None),
        (Field(name="f", selector="u", all=True), "", None),
        (Field(name="f", selector="i"), "<i>%{env.SECRET}</i>", "%{env.SECRET}"),
        (Field(name="f", selector="i"), "<i>&#xD800;é</i>", "\ufffdé"),
    ],
)
def test_values_are_carried_as_the_texts_of_rows(field: Field, text: str, value: str | None) -> None:
    extraction = follow(f"{text}<a href=/x>", Link(selector="a", carry=("f",)), fields=(field,))
    assert found(extraction) == [("/x", {} if value is None else {"f": value})]


@pytest.mark.parametrize(("length", "followed"), [(MAX_CARRIED_BYTES - 13, True), (MAX_CARRIED_BYTES - 12, False)])
def test_a_link_that_carries_too_much_is_not_followed_and_reported(length: int, followed: bool) -> None:
    data_def = DataDef(
        name="d", block="p", fields=(Field(name="f", selector="i"),),
        links=(Link(selector="a", in_block=True, carry=("f",), group="detail"),),
    )  # fmt: skip
    source = page(f"<p><i>{'x' * length}</i><a href=/1></a></p><p><i>y</i><a href=/2></a></p>")
    extraction = RecordExtractor(data_def).extract(source, CONTEXT)
    assert [link.url[-1] for link in extraction.links] == (["1", "2"] if followed else ["2"])
    expected = "a link of detail is not followed: what it carries takes more than 4,096 bytes"
    assert list(source.faults) == ([] if followed else [expected])
    assert all(len((link.details and link.details.carried) or "") <= MAX_CARRIED_BYTES for link in extraction.links)
    assert len(extraction.rows) == 2


def test_bytes_count_and_not_characters() -> None:
    extraction = follow(
        f"<i>{'é' * 2_048}</i><a href=/x>", Link(selector="a", carry=("f",)), fields=(Field(name="f", selector="i"),)
    )
    assert extraction.links == ()


API = Link(
    selector="", in_block=True, group="api", request=RequestTemplate(url="/api?sku=%{field.sku}&c=%{field.category}")
)


def test_a_link_may_be_made_of_values() -> None:
    extraction = extract(replace(PRODUCT, links=(API,)), SHOP)
    assert [(link.url, link.details) for link in extraction.links] == [
        ("https://shop.example/api?sku=1&c=Tea", None),
        ("https://shop.example/api?sku=4&c=Tea", None),
    ]
    assert extraction.links[0].key == link_key("api", extraction.links[0].url), "a page that a plain link leads to"


def test_a_request_is_identified_by_method_and_body() -> None:
    request = RequestTemplate(url="/api", method="PUT", json='{"sku":"%{field.sku}","price":"%{field.price}"}')
    link = Link(selector="", in_block=True, carry=("name",), request=request)
    extraction = extract(replace(PRODUCT, links=(link,)), SHOP)
    bodies = [link.details.request.body for link in extraction.links if link.details]
    assert bodies == ['{"sku":"1","price":1.50}', '{"sku":"4","price":4.00}']
    assert [link.key for link in extraction.links] == [
        request_key("books", "https://shop.example/api", "PUT", body) for body in bodies
    ]
    assert [carried(link) for link in extraction.links] == [{"name": "Green"}, {"name": "White"}]


def test_a_link_that_needs_a_missing_value_is_not_followed() -> None:
    link = replace(API, request=RequestTemplate(url="/api?p=%{field.price}"))
    extraction = extract(replace(PRODUCT, links=(link,), filters=()), SHOP)
    assert [link.url[-6:] for link in extraction.links] == ["p=1.50", "p=4.00"]


def test_a_list_in_a_request_is_joined_as_in_its_row() -> None:
    link = Link(selector="", request=RequestTemplate(url="/x?t=%{field.t}"))
    fields = (Field(name="t", selector="i", all=True, join=";"),)
    assert [link.url for link in follow("<i>a</i><i>b</i>", link, fields=fields).links] == [
        "https://shop.example/x?t=a%3Bb"
    ]


def test_carried_values_may_be_sent_on() -> None:
    context = Context(
        group="g", locator="l", locator_url=URL, depth=0, run="r", run_time="", carried={"shop": "a b"}
    )  # fmt: skip
    link = Link(selector="", request=RequestTemplate(url="/x?s=%{carried.shop}"))
    extractor = RecordExtractor(DataDef(name="d", fields=(Field(name="s", value="%{carried.shop}"),), links=(link,)))
    extraction = extractor.extract(page(""), context)
    assert extraction.rows == ({"s": "a b"},)
    assert [link.url for link in extraction.links] == ["https://shop.example/x?s=a%20b"]
    assert extractor.extract(page(""), CONTEXT).links == (), "not carried: no request"


@pytest.mark.parametrize("request_", [None, RequestTemplate(method="POST"), RequestTemplate(form=(), has_form=True)])
def test_nofollow_is_respected(request_: RequestTemplate | None) -> None:
    link = Link(selector="a, form", in_block=True, request=request_)
    text = "<p><a rel='NOFOLLOW x' href=/1></a><a href=/2></a></p>"
    ignoring = replace(CONTEXT, nofollow=False)
    extractor = RecordExtractor(DataDef(name="d", block="p", links=(link,)))
    assert [link.url[-1] for link in extractor.extract(page(text), CONTEXT).links] == ["2"]
    assert [link.url[-1] for link in extractor.extract(page(text), ignoring).links] == ["1", "2"]
    meta = f"<meta name=robots content=nofollow>{text}"
    assert extractor.extract(page(meta), CONTEXT).links == ()
    assert len(extractor.extract(page(meta), ignoring).links) == 2


@pytest.mark.parametrize(("depth", "followed"), [(1, True), (2, False)])
def test_max_depth_is_respected(depth: int, followed: bool) -> None:
    for request in (None, RequestTemplate(url="/x")):
        link = Link(selector="a", in_block=True, max_depth=2, request=request)
        extractor = RecordExtractor(DataDef(name="d", block="p", links=(link,)))
        found = extractor.extract(page("<p><a href=/x>"), replace(CONTEXT, depth=depth)).links
        assert bool(found) is followed


def test_allow_deny_and_same_host_apply_to_the_url() -> None:
    text = "<p><a href=/a/1></a><a href=/b/2></a><a href=//other.example/a/3></a></p>"
    link = Link(selector="a", in_block=True, allow=("/a/",), deny=("3",))
    assert [link.url[-1] for link in follow(text, link, block="p").links] == ["1"]
    wide = replace(link, same_host=False, deny=())
    assert [link.url[-1] for link in follow(text, wide, block="p").links] == ["1", "3"]
    posted = replace(link, request=RequestTemplate(method="POST"))
    assert [link.url[-1] for link in follow(text, posted, block="p").links] == ["1"]


def test_max_links_counts_pages_and_the_rest_is_dropped() -> None:
    blocks = "".join(f"<p><a href=/{n}></a><a href=/0></a></p>" for n in range(30))
    for request in (None, RequestTemplate(method="POST")):
        data_def = DataDef(name="d", block="p", links=(Link(selector="a", in_block=True, request=request),))
        extraction = RecordExtractor(data_def, max_links=10).extract(page(blocks), CONTEXT)
        assert [link.url[21:] for link in extraction.links] == [str(n) for n in range(10)]
        assert extraction.dropped_links == 20
        assert RecordExtractor(data_def, max_links=30).extract(page(blocks), CONTEXT).dropped_links == 0


def test_a_link_that_does_not_compile_is_reported_once() -> None:
    place = SourcePosition("d.yml", 4, 5)
    extraction = follow("<p></p>" * 5, Link(selector="a[", in_block=True, place=place), block="p")
    (rejection,) = extraction.rejected
    assert (rejection.field, rejection.place) == ("links", "d.yml:4:5")


def test_values_of_the_page_that_take_too_much_fail_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 100)
    data_def = DataDef(
        name="d", block="p", fields=(Field(name="f", selector="i", scope="page"),),
        links=(Link(selector="a", carry=("f",)),),
    )  # fmt: skip
    with pytest.raises(PageTooCostly):
        extract(data_def, f"<i>{'x' * 200}</i><a href=/x>")


SENDING = RequestTemplate(form=(("key", "%{env.KEY}"),), has_form=True, method="POST")


@pytest.mark.parametrize(
    ("markup", "template", "target"),
    [
        ("<form action=/own method=post>", SENDING, "https://shop.example/own"),
        ("<form action=http://shop.example/own method=post>", SENDING, None),
        ("<form action=https://shop.example:444/own method=post>", SENDING, None),
        ("<form action=https://evil.example/own method=post>", SENDING, None),
        ("<base href=https://evil.example/>", replace(SENDING, url="/api"), None),
        ("<i>https://evil.example</i>", replace(SENDING, url="%{field.i}"), None),
        ("<i>evil.example</i>", replace(SENDING, url="https://%{field.i}/"), None),
        ("<i>evil.example</i>", replace(SENDING, url="https://shop.example@%{field.i}/"), None),
        ("<base href=https://evil.example/>", replace(SENDING, url="https://api.example/x"), "https://api.example/x"),
    ],
)
def test_a_page_does_not_decide_to_which_site_a_variable_of_the_environment_goes(
    markup: str, template: RequestTemplate, target: str | None
) -> None:
    link = Link(selector="form", request=template, same_host=False)
    extraction = follow(markup, link, fields=(Field(name="i", selector="i"),))
    assert [link.url for link in extraction.links] == ([] if target is None else [target])
    refused = [rejection.reason for rejection in extraction.rejected]
    assert all("it would send a secret to http" in reason for reason in refused)
    assert len(refused) <= (target is None)


@pytest.mark.parametrize(
    ("page_url", "locator_url", "is_sent"),
    [
        ("https://www.shop.example/x", "http://shop.example/", True),
        ("https://evil.example/x", "https://shop.example/", False),
        ("http://shop.example/x", "https://shop.example/", False),
        ("https://shop.example:444/x", "https://shop.example/", False),
        ("https://shop.example./x", "https://shop.example/", True),
        ("http://shop.example:81/x", "http://shop.example:80/", False),
        ("http://shop.example:81/x", "http://www.shop.example:81/", True),
        ("https://shop.example/x", "", True),
    ],
)
def test_a_redirect_does_not_decide_either(page_url: str, locator_url: str, is_sent: bool) -> None:
    link = Link(selector="form", request=replace(SENDING, url="/api"), same_host=False)
    extractor = RecordExtractor(DataDef(name="d", links=(link,)))
    extraction = extractor.extract(page("<b>x</b>", url=page_url), replace(CONTEXT, locator_url=locator_url))
    assert bool(extraction.links) is is_sent
    assert bool(extraction.rejected) is not is_sent


def follow_skus(text: str, link: Link) -> tuple[ExtractedLink, ...]:
    return follow(text, link, block="li", fields=(Field(name="sku", attribute="data-sku"),)).links


def test_a_link_may_send_headers() -> None:
    headers = (("Accept", "application/json"), ("X-Sku", "%{field.sku} %%{env.A}"), ("X-Key", "%{env.KEY}"))
    link = Link(selector="a", in_block=True, request=RequestTemplate(headers=headers))
    [made] = follow_skus('<li data-sku="a %{env.SECRET}"><a href=/x></a>', link)
    assert made.details is not None
    assert made.details.request.headers == (
        ("Accept", "application/json"), ("X-Sku", "a %%{env.SECRET} %%{env.A}"), ("X-Key", "%{env.KEY}"),
    )  # fmt: skip
    assert LinkDetails.from_line(made.details.to_line()) == made.details
    [plain] = follow_skus("<li><a href=/x></a>", Link(selector="a", in_block=True))
    assert made.key != plain.key


def test_a_header_without_a_value_or_with_a_secret_for_another_site_makes_no_link() -> None:
    missing = RequestTemplate(headers=(("X-Sku", "%{field.sku}"),))
    assert follow_skus("<li><a href=/x></a>", Link(selector="a", in_block=True, request=missing)) == ()
    secret = Link(
        selector="a", in_block=True, same_host=False, request=RequestTemplate(headers=(("X-Key", "%{env.KEY}"),))
    )
    written = replace(secret, request=RequestTemplate(headers=(("Cookie", "literal=1"),)))
    assert follow_skus("<li><a href=https://evil.example/></a>", secret) == ()
    assert follow_skus("<li><a href=https://evil.example/></a>", written) == ()
    assert len(follow_skus("<li><a href=/x></a>", written)) == 1
    assert len(follow_skus("<li><a href=/x></a>", secret)) == 1
