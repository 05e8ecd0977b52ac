"""Hostile pages for what makes records: chains of texts, conversions, JSON in pages, links with values, tables, PDF."""

import zlib
from collections.abc import Callable, Iterator

from tests.hostile.answer import HostileAnswer, page, selected

MILLION = 1_000_000
_JSON, _NDJSON, _CSV, _FEED, _PDF = (
    "application/json", "application/x-ndjson", "text/csv", "application/rss+xml", "application/pdf",
)  # fmt: skip
_EVERY_LI = "{block: li}"


def answers() -> Iterator[HostileAnswer]:
    """All of this module."""
    yield from _texts()
    yield from _conversions()
    yield from _embedded_json()
    yield from _json_records()
    yield from _feeds()
    yield from _links()
    yield from _next_pages()
    yield from _axes()
    yield from _pdf()


def _texts() -> Iterator[HostileAnswer]:
    backtracking = f"<li>{'a' * 50}!</li>" * 20_000
    yield page("replace-grows", lambda: f"<b>{'a' * 2 * MILLION}</b>",
               fields=selected("b", replace='[["a", "aaaaaaaaaa"], ["a", "aaaaaaaaaa"]]'))  # fmt: skip
    yield page("replace-many", lambda: f"<b>{'word, ' * 1_500_000}</b>",
               fields=selected("b", replace="[" + ", ".join(['["[wr]", "x"], ["x+", "wr"]'] * 10) + "]"))  # fmt: skip
    yield page("replace-backtracks", lambda: backtracking, query=_EVERY_LI,
               fields='{f: {replace: [["(a|aa)+$", ""]]}}')  # fmt: skip
    yield page("filter-backtracks", lambda: backtracking, query=_EVERY_LI,
               fields="{f: {attribute: text}}", more="filters: [{field: f, pattern: '(a|aa)+'}]")  # fmt: skip
    yield page("split-letters", lambda: f"<b>{'a,' * 4 * MILLION}</b>", fields=selected("b", split='","'))
    yield page("split-all", lambda: f"<pre>{'xa' * 10}</pre>" * 300_000,
               fields=selected("pre", split='"x"', whitespace="keep", all="true"))  # fmt: skip
    yield page("breaks", lambda: f"<div>{'<br>' * 2 * MILLION}</div>", fields=selected("div", whitespace="keep"))
    yield page("texts-of-levels", lambda: "<div>word " * 9_000, fields=selected("div", all="true"))
    yield page("own-texts-of-levels", lambda: "<div>x<i>y</i>" * 9_000,
               fields=selected("div", attribute="ownText", all="true"))  # fmt: skip
    yield page("markup-of-levels", lambda: "<div>word " * 9_000,
               fields=selected("div", all="true", attribute="outerHtml"))  # fmt: skip
    yield page("texts-of-page", lambda: f"<h1>{'x' * 90_000}</h1>" + "<li>y</li>" * 90_000, query=_EVERY_LI,
               fields="{f: {selector: h1, scope: page}}")  # fmt: skip
    yield page("lists-of-page", lambda: "<h1>x</h1>" * 20_000 + "<li>y</li>" * 20_000, query=_EVERY_LI,
               fields="{f: {selector: h1, scope: page, all: true}}")  # fmt: skip


def _conversions() -> Iterator[HostileAnswer]:
    def each(text: str, count: int) -> Callable[[], str]:
        return lambda: f"<li>{text}</li>" * count

    number = "9" * 4 * MILLION
    for kind in ("int", "float", "decimal"):
        yield page(f"number-{kind}", lambda: f"<b>{number}</b>", fields=selected("b", type=kind))
    yield page("number-exponent", each("1e999999999", 90_000), query=_EVERY_LI, fields="{f: {type: decimal}}")
    yield page("number-groups", lambda: f"<b>{'1.' * 4 * MILLION}</b>",
               fields=selected("b", type="decimal", decimalMark='","', groupMark='"."'))  # fmt: skip
    yield page("prices", each("from 1.116,90 € to 2.000 $ each", 150_000), query=_EVERY_LI,
               fields="{f: {type: price}}")  # fmt: skip
    yield page("prices-odd", each("1," * 99, 40_000), query=_EVERY_LI, fields="{f: {type: price}}")
    yield page("dates", each("Mittwoch, 6. M\u00e4rz 2024, 14:30 Uhr", 100_000), query=_EVERY_LI,
               fields="{f: {type: date, format: any, locale: de}}")  # fmt: skip
    yield page("dates-odd", each("1 " * 49, 90_000), query=_EVERY_LI,
               fields="{f: {type: date, format: any, locale: en}}")  # fmt: skip
    yield page("dates-strict", each("2024-01-01T" + "0" * 60, 90_000), query=_EVERY_LI, fields="{f: {type: date}}")
    yield page("urls", each("http://[::1]:99999/%%%" + "\u0660" * 20, 90_000), query=_EVERY_LI,
               fields="{f: {type: url}}")  # fmt: skip
    yield page("urls-base", lambda: f"<base href='/{'x' * 8_000}/'>" + "<li>a</li>" * 90_000, query=_EVERY_LI,
               fields="{f: {type: url}}")  # fmt: skip
    yield page("files", lambda: "".join(f"<li>/f/{n}</li>" for n in range(200_000)), query=_EVERY_LI,
               fields="{f: {type: file}}")  # fmt: skip
    yield page("files-of-one", lambda: "".join(f"<li>/f/{n}</li>" for n in range(200_000)),
               fields=selected("li", type="file", all="true"))  # fmt: skip


def _embedded_json() -> Iterator[HostileAnswer]:
    def block(text: str) -> str:
        return f"<script type=application/ld+json>{text}</script>"

    product = '{"@type":"Product","offers":{"price":1}}'
    in_page, in_record = selected("jsonld: Product.offers.price"), "{f: {selector: 'jmespath(script): a'}}"
    for name, text in {
        "jsonld-blocks": lambda: block(product) * 100_000,
        "jsonld-graph": lambda: block('{"@graph":[' + ",".join([product] * 150_000) + "]}"),
        "jsonld-graphs-nested": lambda: block('{"@graph":[' * 90_000 + "]}" * 90_000),
        "jsonld-deep": lambda: block('{"@type":"Product","offers":' + "[" * 4 * MILLION),
        "jsonld-types": lambda: block('{"@type":[' + ",".join(f'"T{n}"' for n in range(900_000)) + "]}"),
        "jsonld-open": lambda: "<script type=application/ld+json>{" * 200_000,
        "jsonld-number": lambda: block('{"@type":"Product","offers":{"price":' + "9" * 4 * MILLION + "}}"),
    }.items():
        yield page(name, text, fields=in_page)
    yield page("scripts-of-records", lambda: '<li><script>{"a":1}</script></li>' * 90_000, query=_EVERY_LI,
               fields=in_record)  # fmt: skip
    yield page("scripts-nested", lambda: '<li><script>{"a":1}</script>' * 9_000, query=_EVERY_LI, fields=in_record)
    yield page("script-huge", lambda: '<script>{"a":[' + "1," * 4 * MILLION + "1]}</script>",
               fields=selected("jmespath(script): a[-1]"))  # fmt: skip
    yield page("script-records", lambda: '<script>{"a":[' + "{}," * 2 * MILLION + "{}]}</script>",
               query="{block: 'jmespath(script): a'}", fields="{f: {selector: 'jmespath: b'}}")  # fmt: skip


def _json_records() -> Iterator[HostileAnswer]:
    query, fields = "{block: 'jmespath: @'}", "{a: {selector: 'jmespath: a'}}"
    cross = "{f: {selector: 'jmespath: [][][][]', all: true}}"
    yield page("json-flatten", lambda: "[" * 500 + ",".join(["[[[1]]]"] * 400_000) + "]" * 500, _JSON, fields=cross)
    yield page("json-sort", lambda: "[" + ",".join(f"{n * 7919 % 999983}" for n in range(900_000)) + "]", _JSON,
               fields="{f: {selector: 'jmespath: sort(@)[0]'}}")  # fmt: skip
    yield page("json-texts", lambda: "[" + ",".join(['"x"'] * MILLION) + "]", _JSON,
               fields="{f: {selector: \"jmespath: join(',', @)\"}}")  # fmt: skip
    for name, text, kind in (
        ("ndjson", lambda: '{"a":1}\n' * 900_000, _NDJSON),
        ("ndjson-broken", lambda: '{"a":\n' * 900_000, _NDJSON),
        ("ndjson-blank", lambda: "\n" * 9 * MILLION, _NDJSON),
        ("ndjson-deep", lambda: ("[" * 900 + "\n") * 9_000, _NDJSON),
        ("csv", lambda: "a,b\n" + "1,2\n" * 2 * MILLION, _CSV),
        ("csv-wide", lambda: "a," * 900_000 + "\n" + "1," * 900_000, _CSV),
        ("csv-wide-rows", lambda: "a\n" + ("1," * 90_000 + "\n") * 50, _CSV),
        ("csv-open-quote", lambda: 'a,b\n"' + "x" * 9 * MILLION, _CSV),
        ("csv-quotes", lambda: "a\n" + '"' * 9 * MILLION, _CSV),
        ("csv-separators", lambda: ",;\t|" * 2 * MILLION, _CSV),
        ("csv-nul", lambda: "a,b\n" + "\0,\r" * 900_000, _CSV),
    ):
        yield page(name, text, kind, query=query, fields=fields)


def _feeds() -> Iterator[HostileAnswer]:
    def feed(inner: str) -> str:
        return f'<rss xmlns:dc="u"><channel>{inner}</channel></rss>'

    items = "<item><title>x</title><link>/a</link></item>"
    yield page("feed-items", lambda: feed(items * 150_000), _FEED, query="{block: item}",
               fields="{t: {selector: title}}", links="[{selector: item link, attribute: text}]")  # fmt: skip
    yield page("feed-siblings", lambda: feed("<a/><b/>" * 60_000), _FEED, fields=selected("a ~ b", all="true"))
    yield page("feed-has", lambda: feed("<a><b/></a>" * 60_000), _FEED, fields=selected("a:has(~ a c)", all="true"))
    yield page("feed-deep", lambda: feed("<item>" * 9_000 + "</item>" * 9_000), _FEED, query="{block: item}",
               fields="{t: {selector: item item title}}")  # fmt: skip
    yield page("feed-html", lambda: feed(f"<item><title>{'&lt;b&gt;' * 900_000}</title></item>"), _FEED,
               query="{block: item}", fields="{t: {selector: title}}")  # fmt: skip


def _links() -> Iterator[HostileAnswer]:
    records = "<li><a href=/n/{0}>x</a></li>"

    def many(count: int) -> str:
        return "".join(records.format(n) for n in range(count))

    carried = "{c: {selector: h1, scope: page}}"
    yield page("carry-4-kb", lambda: f"<h1>{'x' * 4_000}</h1>" + many(90_000), query=_EVERY_LI, fields=carried,
               links="[{selector: a, inBlock: true, carry: [c]}]")  # fmt: skip
    yield page("carry-more", lambda: f"<h1>{'x' * 9_000}</h1>" + many(90_000), query=_EVERY_LI, fields=carried,
               links="[{selector: a, inBlock: true, carry: [c]}]")  # fmt: skip
    yield page("carry-huge", lambda: f"<h1>{'x' * 5 * MILLION}</h1>" + many(20_000), query=_EVERY_LI, fields=carried,
               links="[{selector: a, inBlock: true, carry: [c]}]")  # fmt: skip
    form = "<form method=post>" + "<input type=hidden name=k value=v>" * 20_000 + "</form>"
    yield page("form-inputs", lambda: form + many(20_000), query=_EVERY_LI,
               fields="{f: {selector: a, scope: page}}",
               links='[{selector: form, form: {q: "%{field.f}"}}]')  # fmt: skip
    yield page("form-of-records", lambda: f"<li>{form}</li>" + f"<li><b>y</b>{form[:9_000]}</li>" * 900,
               query=_EVERY_LI, fields="{f: {selector: b}}",
               links='[{selector: form, inBlock: true, form: {q: "x"}}]')  # fmt: skip
    yield page("forms", lambda: "<form action=a><input name=q><button>x</button></form>" * 100_000,
               links="[{selector: form, form: {}}]")  # fmt: skip
    yield page("form-unclosed", lambda: "<form>" + "<input name=a>" * 300_000, links="[{selector: form, form: {}}]")
    yield page("form-options", lambda: f"<form><select name=s>{'<option selected>x' * 500_000}</select></form>",
               links="[{selector: form, form: {}}]")  # fmt: skip
    yield page("json-links", lambda: f"<h1>{'x' * 90_000}</h1>" + many(50_000), query=_EVERY_LI,
               fields="{c: {selector: h1, scope: page}, a: {selector: a, attribute: href}}",
               links='[{url: /p, inBlock: true, json: {c: "%{field.c}", a: "%{field.a}"}}]')  # fmt: skip
    yield page("json-links-deep", lambda: '{"a":[{"c":' + "[" * 900 + "]" * 900 + "}]}", _JSON,
               query="{block: 'jmespath: a'}", fields="{c: {selector: 'jmespath: c', type: json}}",
               links='[{url: /p, inBlock: true, json: {c: "%{field.c}"}}]')  # fmt: skip
    yield page("url-links", lambda: f"<h1>{'x' * 90_000}</h1>" + many(50_000), query=_EVERY_LI, fields=carried,
               links='[{url: "/p?c=%{field.c}", inBlock: true}]')  # fmt: skip


def _next_pages() -> Iterator[HostileAnswer]:
    query, fields = "{block: 'jmespath: a'}", "{f: {selector: 'jmespath: b'}}"
    more = "next: {url: '/cursors?c=%{c}', c: 'jmespath: n', until: empty}"
    for name, text in {
        "cursor-huge": lambda: '{"a":[{}],"n":"' + "x" * 9 * MILLION + '"}',
        "cursor-deep": lambda: '{"a":[{}],"n":' + "[" * 900 + "]" * 900 + "}",
        "cursor-number": lambda: '{"a":[{}],"n":' + "9" * 3 * MILLION + "}",
        "cursor-records": lambda: '{"n":1,"a":[' + ",".join(["{}"] * MILLION) + "]}",
    }.items():
        yield page(name, text, _JSON, query=query, fields=fields, more=more)
    yield page("next-blocks", lambda: f"<li>{'word ' * 90}</li>" * 15_000, query=_EVERY_LI, fields="{f: {}}",
               more="next: {url: '/next-blocks?p=%{p}', p: li, until: empty}")  # fmt: skip
    yield page("next-blocks-nested", lambda: "<li>word <ul>" * 4_000, query=_EVERY_LI, fields="{f: {}}",
               more="next: {url: '/next-blocks-nested?p=%{p}', p: b, until: empty}")  # fmt: skip


def _axes() -> Iterator[HostileAnswer]:
    def table(rows: int) -> str:
        return "<table>" + "<tr><td>x</td><td>1</td></tr>" * rows + "</table>"

    def axes(selector: str, block: str = "table", more: str = "indexRange: 1-") -> dict[str, str]:
        query = f"{{block: '{block}', selector: 'tr:nth-child(%{{item.index}}) > td:nth-child(2)'}}"
        return {"query": query, "fields": "", "more": f"items: [{{item: {{name: i, selector: '{selector}', {more}}}}}]"}

    row = "tr:nth-child(%{index}) > td:nth-child(1)"
    yield page("axis-open", lambda: table(60_000), **axes(row))
    yield page("axis-break", lambda: table(60_000), **axes(row, more='index: 1, breakAfter: ["y"]'))
    yield page("axis-range", lambda: table(9), **axes(row, more="indexRange: 1-90000"))
    yield page("axis-contains", lambda: table(60_000), **axes(row, block="table:contains(x)"))
    yield page("axis-contains-deep", lambda: "<div>x" * 9_000, **axes("div:contains(y)", block="div:contains(x)"))
    yield page("axis-matches", lambda: f"<p>{'a' * 50}!</p>" * 20_000, **axes("p:matchesOwn((a|aa)+$)", block="body"))


def _pdf() -> Iterator[HostileAnswer]:
    def document(content: bytes, pages: int = 1, kids: bytes = b"") -> bytes:
        """A PDF whose pages all have this content; a reader has to find its objects without a table of them."""
        refs = kids or b" ".join(b"%d 0 R" % (number + 10) for number in range(pages))
        objects = [
            b"1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
            b"2 0 obj<</Type/Pages/Count %d/Kids[%s]>>endobj" % (pages, refs),
            b"3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
            b"4 0 obj<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream endobj" % (len(content), content),
            *[
                b"%d 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R/MediaBox[0 0 99 99]/Resources<</Font<</F 3 0 R>>>>>>"
                b"endobj" % (number + 10)
                for number in range(pages)
            ],
        ]
        return b"%PDF-1.4\n" + b"\n".join(objects) + b"\ntrailer<</Root 1 0 R>>\n%%EOF"

    def text(operators: bytes) -> bytes:
        return zlib.compress(b"BT /F 9 Tf " + operators + b" ET", 9)

    def bomb() -> bytes:
        packer = zlib.compressobj(9)
        spaces = b" " * 10 * MILLION
        return b"".join(packer.compress(spaces) for _ in range(100)) + packer.flush()

    for name, body in {
        "pdf-bomb": lambda: document(bomb()),
        "pdf-texts": lambda: document(text(b"(word) Tj 1 1 Td " * 3 * MILLION)),
        "pdf-text-in-one-place": lambda: document(text(b"(a) Tj 0 0 Td " * 900_000)),
        "pdf-pages": lambda: document(text(b"(x) Tj"), pages=60_000),
        "pdf-page-texts": lambda: document(text(b"(x) Tj 1 1 Td " * 9_000), pages=9_000),
        "pdf-loop": lambda: document(text(b"(x) Tj"), kids=b"2 0 R " * 90_000),
        "pdf-strings": lambda: document(text(b"(" + b"x" * 200 * MILLION + b") Tj")),
        "pdf-nested": lambda: document(text(b"[" * 3 * MILLION)),
        "pdf-states": lambda: document(text(b"q " * 9 * MILLION)),
        "pdf-cut": lambda: document(text(b"(x) Tj"))[:150],
        "pdf-zeros": lambda: b"%PDF-1.4\n" + bytes(9 * MILLION),
    }.items():
        yield page(name, body, _PDF, fields=selected("p"))
