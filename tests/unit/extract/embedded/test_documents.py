"""Documents inside a page: where their texts are, how they are cut and read, and what cannot be read."""

from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.extract.embedded import documents
from crawl_engine.extract.page.page import Page, PageTooCostly
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link, NextPage, RequestTemplate, TextSource
from tests.unit.extract.pages import CONTEXT, URL, extract, page


def source(selector: str | None, as_: Any, match: str | None = None) -> TextSource:
    return TextSource(selector=selector, format=as_, match=match)


def names(
    text: str, *sources: TextSource, block: str | None = None, selector: str = "td", kind: Any = "html"
) -> list[Any]:
    data_def = DataDef(name="d", sources=sources, block=block, fields=(Field(name="n", selector=selector),))
    extraction = extract(data_def, text, kind=kind)
    assert extraction.rejected == ()
    return [row["n"] for row in extraction.rows]


ROWS = "<table><tr class=r><td>1</td></tr><tr class=r><td>2</td></tr></table>"


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        (f"<div id=c><p></p><!-- {ROWS} --></div><!-- <tr class=r><td>3 -->", "comment(#c)"),
        (f"<template id=t>{ROWS}</template>", "#t"),
        ("<template id=t><tr class=r><td>1<tr class=r><td>2</template>", "#t"),
        (f"<script type=text/template>{ROWS}</script>", "script"),
        ("<div data-rows='&lt;tr class=r>&lt;td>1&lt;tr class=r>&lt;td>2'></div>", "xpath: //div/@data-rows"),
        (f"<textarea>{ROWS}</textarea>", "textarea"),
        (f"<section>{ROWS}</section>", "section"),
    ],
)
def test_html_inside_a_page(text: str, selector: str) -> None:
    assert names(text, source(selector, "html"), block="tr.r") == ["1", "2"]
    assert names(text, source(selector, "html"), block="xpath: //tr[@class='r']", selector="xpath: .//td") == ["1", "2"]


def test_html_in_members_of_json_with_links_against_the_page() -> None:
    text = '{"html": "<li><a href=\'/p/1\'>a &amp; b</a></li><li><a href=p2>c</a></li>", "next": "/load?page=3"}'
    data_def = DataDef(
        name="d", sources=(source("jmespath: html", "html"),), block="li",
        fields=(Field(name="n", selector="a"), Field(name="u", selector="a", attribute="href", type="url"),
                Field(name="next", selector="jmespath: next", scope="page")),
        links=(Link(selector="li a"), Link(selector="jmespath: next", source=TextSource(format="json"))),
        next=NextPage(request=RequestTemplate(url="%{to}"), variables=(("to", "jmespath: next"),)),
    )  # fmt: skip
    extractor, loaded = RecordExtractor(data_def), page(text, kind="json")
    extraction = extractor.extract(loaded, CONTEXT)
    assert extraction.rows == (
        {"n": "a & b", "u": "https://shop.example/p/1", "next": "/load?page=3"},
        {"n": "c", "u": "https://shop.example/catalogue/p2", "next": "/load?page=3"},
    )
    urls = [link.url.removeprefix("https://shop.example") for link in extraction.links]
    assert urls == ["/p/1", "/catalogue/p2", "/load?page=3"]
    assert extractor.next_page is not None
    following = extractor.next_page.find(loaded, CONTEXT, None, documents.TimeBudget())
    assert following is not None
    assert following.url == "https://shop.example/load?page=3"


def test_each_text_is_a_document() -> None:
    commands = '[{"command": "x"}, {"data": "<b>1</b>"}, {"data": "<b>2</b><b>3</b>"}]'
    assert names(commands, source("jmespath: [].data", "html"), selector="b", kind="json") == ["1", "2"]
    assert names(commands, source("jmespath: [].data", "html"), block="b", selector="xpath: .", kind="json") == [
        "1",
        "2",
        "3",
    ]


ITEMS = '{"items":[{"n":"1"},{"n":"2"}]}'


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (f"window.X = {ITEMS}; f();", source("script", "js")),
        (f"var a = {{b:1}}; var data = {ITEMS}; var c = {{}}", source("script", "js", r"data = ")),
        (f"var a = {{b:1}}; var data = {ITEMS}; var c = {{}}", source("script", "json", r"data = (.*)")),
        (f"var a = {{b:1}}; var data = {ITEMS}; var c = {{}}", source("script", "json", r'\{"items')),
        ("data = {items: [{n: '1', at: undefined}, {n: '2', /* x */},]}", source("script", "js", r"data = (\{)")),
        (f"d = JSON.parse('{ITEMS}')", source("script", "js")),
        (f"{ITEMS}; // end", source("script", "json")),
        ("a,n\nx,1\n", source("script", "csv")),
    ],
)
def test_values_in_scripts(text: str, used: TextSource) -> None:
    block = "jmespath: @" if used.format == "csv" else "jmespath: items"
    expected = ["1"] if used.format == "csv" else ["1", "2"]
    html = f"<p>\n<script>g()</script><script>{text}</script>" if used.match else f"<p>\n<script>{text}</script>"
    assert names(html, used, block=block, selector="jmespath: n") == expected


def test_numbers_keep_their_digits_and_unknown_values_are_said_with_their_place() -> None:
    text = "<p>\n<script id=s>var data = {items: [{p: 1.10, at: new Date()}, {p: 2}], c: 'x'}</script>"
    fields = (Field(name="p", selector="jmespath: p", type="decimal"), Field(name="at", selector="jmespath: at"),
              Field(name="c", selector="jmespath: c", scope="from"))  # fmt: skip
    data_def = DataDef(name="d", sources=(source("#s", "js"),), block="jmespath: items", fields=fields)
    loaded = page(text)
    rows = RecordExtractor(data_def).extract(loaded, CONTEXT).rows
    assert rows == ({"p": Decimal("1.10"), "at": None, "c": "x"}, {"p": Decimal(2), "at": None, "c": "x"})
    (warning,) = loaded.warnings.values()
    assert warning.text == (
        "d: a value of `from: #s` at 2:48 of the page only a script knows: missing, such as"
        " `new Date()}, {p: 2}], c: 'x'}…`"
    )


def test_a_document_in_a_document_of_xml() -> None:
    feed = "<rss><item><title>t</title><description>&lt;!-- &lt;i>1&lt;/i>&lt;i>2&lt;/i> --></description></item></rss>"
    used = source("description", "html"), source("comment(html)", "html")
    assert names(feed, *used, block="i", selector="xpath: .", kind="xml") == ["1", "2"]
    assert names("<script><a><N>1</N></a></script>", source("script", "xml"), block="N", selector="xpath: .") == ["1"]


def test_headers_and_the_whole_body() -> None:
    loaded = Page(url=URL, text="x", kind="html", status=200, fetched_at=0, headers=(("x-items", ITEMS),))
    data_def = DataDef(name="d", sources=(source("header: X-Items", "json"),), block="jmespath: items",
                       fields=(Field(name="n", selector="jmespath: n"),))  # fmt: skip
    assert len(RecordExtractor(data_def).extract(loaded, CONTEXT).rows) == 2
    script = f"load({ITEMS}, 1)"
    assert names(script, source(None, "js"), block="jmespath: items", selector="jmespath: n") == ["1", "2"]


def test_several_data_defs_parse_a_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    embed = documents.embed
    monkeypatch.setattr(documents, "embed", lambda *given: read.append(str(given[2])) or embed(*given))
    loaded = page("<div><!-- <b>1</b> --></div>")
    used = (source("comment(div)", "html"),)
    for name in ("a", "b"):
        data_def = DataDef(name=name, sources=used, block="b", fields=(Field(name="n"),), links=(Link(selector="a"),))
        assert len(RecordExtractor(data_def).extract(loaded, CONTEXT).rows) == 1
    assert len(read) == 1


def test_what_cannot_be_read_is_a_warning_with_its_place_and_others_are_read() -> None:
    loaded = page("<p>\n<i>{bad}</i>\n<i>{}</i><i> </i><i>null</i>")
    data_def = DataDef(name="d", sources=(source("i", "json"),), fields=(Field(name="n", selector="jmespath: n"),))
    assert len(RecordExtractor(data_def).extract(loaded, CONTEXT).rows) == 1
    (warning,) = loaded.warnings.values()
    assert warning.text.startswith("d: `from: i`: the text at 2:4 of the page is not JSON")


def test_texts_of_all_documents_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MAX_CHARACTERS", 1_000)
    with pytest.raises(PageTooCostly, match="texts of more than 1,000 characters"):
        names("<div>" * 60 + "x" * 50, source("div", "html"))


def test_the_page_is_freed_with_its_documents() -> None:
    import gc
    import weakref

    gc.disable()
    try:
        loaded = page("<div><!-- <b>1</b> --></div>")
        data_def = DataDef(name="d", sources=(source("comment(div)", "html"),), block="b", fields=(Field(name="n"),))
        RecordExtractor(data_def).extract(loaded, CONTEXT)
        watched = weakref.ref(loaded)
        del loaded
        assert watched() is None
    finally:
        gc.enable()


def test_captured_answers_of_one_name_are_read_and_missing_ones_are_told() -> None:
    answer = '<script type="application/json" data-capture="{}" data-url="https://a/{}"{}>{}</script>'
    text = "<body>" + "".join(
        [
            answer.format("items", 1, "", '[{"n": "a<\\/b>"}]'), answer.format("other", 2, "", '[{"n": "x"}]'),
            answer.format("items", 3, ' data-problem="HTTP 500"', ""), answer.format("items", 4, "", '[{"n": "c"}]'),
        ]
    )  # fmt: skip
    data_def = DataDef(
        name="d", sources=(source("capture: items", "json"),), block="jmespath: @[*]",
        fields=(Field(name="n", selector="jmespath: n"),),
    )  # fmt: skip
    loaded = page(text)
    extraction = RecordExtractor(data_def).extract(loaded, CONTEXT)
    assert [row["n"] for row in extraction.rows] == ["a</b>", "c"]
    [warning] = loaded.warnings.values()
    assert (warning.code, warning.text) == (
        documents.LOST_ANSWER, "d: `from: capture: items`: an answer is missing: https://a/3: HTTP 500",
    )  # fmt: skip


def test_the_data_of_sveltekit_is_a_literal() -> None:
    script = """{ __sveltekit_1x2y = { base: "" }; const element = document.currentScript.parentElement;
    Promise.all([import("./start.js")]).then(([kit, app]) => { kit.start(app, element, { node_ids: [0, 2],
    data: [null,{type:"data",data:{teas:[{id:1,at:new Date(1769860800000)},{id:2}]},uses:{}}], form: null }); }); }"""
    source = TextSource(selector="script", match=r"\bstart\([^{]*", format="js")
    fields = (Field(name="id", selector="jmespath: id", type="int"), Field(name="at", selector="jmespath: at"))
    data_def = DataDef(name="d", sources=(source,), block="jmespath: data[].data.teas[]", fields=fields)
    extraction = RecordExtractor(data_def).extract(page(f"<script>{script}</script>"), CONTEXT)
    assert extraction.rows == ({"id": 1, "at": "2026-01-31T12:00:00.000Z"}, {"id": 2, "at": None})
