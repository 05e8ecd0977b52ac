"""Hostile HTML: storms of attributes, rows, levels, formatting tags and links, and selectors that suffer from them."""

from collections.abc import Iterator

from tests.hostile.answer import HostileAnswer, page, selected

MILLION = 1_000_000


def answers() -> Iterator[HostileAnswer]:
    """All of this module."""
    yield from _attributes()
    yield from _tables()
    yield from _depth()
    yield from _formatting()
    yield from _tokens()
    yield from _records()
    yield from _links()


def _attributes() -> Iterator[HostileAnswer]:
    def storm(count: int) -> str:
        return f"<p {' '.join(f'a{number}=1' for number in range(count))}>x</p><b>x</b>"

    for count in (20_000, 80_000, 300_000):
        yield page(f"attributes-{count}", lambda count=count: storm(count))  # type: ignore[misc]
    yield page("attributes-same", lambda: f"<p {'a=1 ' * 500_000}>x</p><b>x</b>")
    yield page("attributes-on-html", lambda: "".join(f"<html a{number}=1>" for number in range(200_000)) + "<b>x</b>")
    yield page("attributes-valueless", lambda: f"<p {' '.join(f'a{number:x}' for number in range(150_000))}><b>x</b>")
    yield page(
        "attribute-long", lambda: f"<p title='{'x' * 8 * MILLION}'>x</p><b>x</b>", fields=selected("p[title*=y]")
    )
    yield page(
        "classes", lambda: f"<p class='{' '.join(f'c{n}' for n in range(900_000))}'>x</p>", fields=selected(".c9")
    )
    yield page("attributes-block", lambda: storm(30_000) * 3, query="{block: p}", fields=selected("p b"))


def _tables() -> Iterator[HostileAnswer]:
    def table(rows: int) -> str:
        return "<table>" + "<tr><td>x</td></tr>" * rows + "</table>"

    first = "table tr:nth-child(1) td"
    for rows in (10_000, 60_000, 100_000, 300_000):
        yield page(f"table-{rows}-first", lambda rows=rows: table(rows), fields=selected(first))  # type: ignore[misc]
    yield page("table-million-first", lambda: "<table>" + "<tr><td>" * MILLION, fields=selected(first))
    yield page("table-60000-all", lambda: table(60_000), fields=selected("table tr td", all="true"))
    yield page("table-60000-nth-all", lambda: table(60_000), fields=selected("tr:nth-child(2n) td", all="true"))
    yield page("table-last", lambda: table(60_000), fields=selected("tr:nth-last-child(2) td"))
    yield page("table-never", lambda: table(60_000), fields=selected("table tr:nth-child(999999) td"))
    yield page("table-of-type", lambda: table(60_000), fields=selected("tr:last-of-type td", all="true"))
    yield page("table-fragments", lambda: "<table>" + "<td>" * 500_000 + "<p>" * 500_000)
    yield page("siblings", lambda: "<h2>x</h2>" + "<p>y</p>" * 60_000, fields=selected("h2 ~ p", all="true"))
    yield page("siblings-none", lambda: "<p>y</p>" * 100_000, fields=selected("h2 ~ p ~ p ~ p"))
    yield page("has", lambda: "<ul>" + "<li><b>x</b></li>" * 60_000, fields=selected("li:has(~ li u)"))
    yield page("items-last", lambda: "<ul>" + "<li>x" * 60_000, fields=selected("li:nth-last-child(2)"))
    yield page(
        "count-xpath", lambda: table(40_000), fields=selected("xpath: //tr[count(preceding-sibling::tr) = 39999]")
    )
    yield page("axis-xpath", lambda: table(40_000), fields=selected("xpath: //td[following::td[last()]]"))
    yield page("nested-xpath", lambda: table(20_000), fields=selected("xpath: //tr[//td[. = //tr/td]]"))


def _depth() -> Iterator[HostileAnswer]:
    deep_selector = selected("section div div")
    yield page("deep-9000", lambda: "<div>" * 9_000, fields=deep_selector)
    yield page("deep-9000-leaves", lambda: "<div>" * 9_000 + "<i></i>" * 500_000, fields=selected("section i"))
    yield page("deep-100000", lambda: "<div>" * 100_000)
    yield page("deep-uppercase", lambda: "<DIV>" * 100_000)
    yield page("deep-bogus-ends", lambda: "<div></x>" * 100_000)
    yield page("deep-list-items", lambda: "<li><dd>" * 100_000)
    yield page("deep-tables", lambda: "<table><tr><td>" * 9_000, fields=selected("table table td"))
    yield page("deep-svg", lambda: "<svg>" + "<g>" * 100_000)
    yield page("deep-svg-html", lambda: "<svg/>" + "<g/>" * 100_000)
    yield page("deep-math", lambda: "<math>" + "<mrow>" * 100_000)
    yield page("deep-foreign", lambda: "<svg><foreignObject><div>" * 30_000)
    yield page("deep-template", lambda: "<template>" * 50_000)
    yield page("deep-select", lambda: "<select><optgroup><option>" * 50_000)
    yield page("deep-buttons", lambda: "<p><button>" * 50_000)
    yield page("deep-xpath", lambda: "<div>" * 9_000, fields=selected("xpath: //div[.//div//div//b]"))
    yield page("levels-xpath", lambda: "<div>" * 180 + "<li>" * 15_000, fields=selected("xpath: //div//li"))
    yield page("deep-many", lambda: ("<div>" * 99 + "</div>" * 99) * 5_000, fields=deep_selector)
    yield page("ends-unmatched", lambda: "<x>" * 9_000 + "</y>" * 900_000)
    yield page("deep-siblings", lambda: "<div><p>x</p>" * 9_000, fields=selected("p ~ div p ~ div p"))


def _formatting() -> Iterator[HostileAnswer]:
    yield page("reopened", lambda: "<p>" + "".join(f"<b id={n}>" for n in range(1_400)) + "</p>" + "<div>x</div>" * 700)
    yield page("reopened-2000", lambda: "<p>" + "".join(f"<b id={n}>" for n in range(2_000)) + "<p>x" * 2_000)
    yield page("adoption", lambda: ("<b><i><u>" + "<p>" * 10 + "</b></i></u>") * 20_000)
    yield page("adoption-deep", lambda: "<a>" + "<div>" * 9_000 + "</a>" * 5_000)
    yield page("nobr", lambda: "<nobr>" * 200_000)
    yield page("anchors-open", lambda: "<a href=x><table>" * 9_000)
    yield page("font", lambda: "".join(f"<font color=#{n:06x}>" for n in range(990)) + "<p>x</p>" * 900)


def _tokens() -> Iterator[HostileAnswer]:
    yield page("tags-2-million", lambda: "<b>" * 2 * MILLION)
    yield page("tags-3-million", lambda: "<i></i>" * 1_400_000)
    yield page("angle-brackets", lambda: "<" * 9 * MILLION)
    yield page("bogus-comments", lambda: "<!>" * 3 * MILLION)
    yield page("comment-open", lambda: "<b>x</b><!--" + "-" * 9 * MILLION)
    yield page("entities", lambda: "<b>" + "&amp;" * 1_800_000 + "</b>")
    yield page("entities-odd", lambda: "<b>" + "&#x110000;&#xd800;&notit;" * 300_000 + "</b>")
    yield page("script-open", lambda: "<b>x</b><script>" + "<!--<script>" * 700_000)
    yield page("textarea-open", lambda: "<textarea>" + "</textare" * 900_000)
    yield page("plaintext", lambda: "<b>x</b><plaintext>" + "<a>" * 3 * MILLION)
    yield page("title-huge", lambda: f"<title>{'x' * 9 * MILLION}</title><b>x</b>", fields=selected("title"))
    yield page("cell-huge", lambda: f"<table><td>{'word ' * 1_900_000}</table>", fields=selected("td"))
    yield page("cell-spaces", lambda: f"<b>{' ' * 9 * MILLION}x</b>", fields=selected("b", match='"x$"'))
    yield page("cdata-svg", lambda: "<svg><![CDATA[" + "]]" * 4 * MILLION)
    yield page("doctypes", lambda: "<!doctype html>" * 500_000)
    yield page("framesets", lambda: "<frameset><frame>" * 300_000)
    yield page("tag-name-huge", lambda: "<" + "x" * 9 * MILLION + "><b>x</b>")
    yield page("bodies", lambda: "<body><html><head>" * 400_000)
    yield page("imports", lambda: "<image><isindex><keygen>" * 300_000)


def _records() -> Iterator[HostileAnswer]:
    yield page("blocks-100000", lambda: "<li><b>x</b><i>y</i></li>" * 100_000, query="{block: li}",
               fields="{b: {selector: b}, i: {selector: 'li > i'}, t: {selector: 'b + i'}}")  # fmt: skip
    yield page("blocks-nested", lambda: "<div>some words " * 5_000, query="{block: div}", fields=selected("div"))
    yield page(
        "blocks-nested-xpath", lambda: "<div>words " * 5_000, query="{block: 'xpath: //div'}", fields=selected("div")
    )
    yield page("blocks-markup", lambda: "<div>words " * 5_000, query="{block: div}",
               fields="{f: {attribute: outerHtml}}")  # fmt: skip
    yield page("fields-nested", lambda: "<ul><li><b>x</b>" * 3_000,
               fields="{f: {selector: li, fields: {g: {selector: li, fields: {h: {selector: b}}}}}}")  # fmt: skip
    yield page(
        "rejected", lambda: "<li>x</li>" * 200_000, query="{block: li}", fields="{n: {selector: b, required: true}}"
    )
    yield page("regex", lambda: f"<b>{'a' * 60}!</b>", fields=selected("b", match="'^(a+)+$'"))
    yield page("regex-many", lambda: f"<p><b>{'a' * 60}!</b></p>" * 20_000, query="{block: p}",
               fields=selected("b", match="'^(a|aa)+$'"))  # fmt: skip
    yield page("regex-long", lambda: f"<b>{'ab' * 4 * MILLION}</b>", fields=selected("b", match="'(.*?,){11}P'"))


def _links() -> Iterator[HostileAnswer]:
    every = "[{selector: a}]"
    yield page("links-500000", lambda: "".join(f"<a href=/n/{n}></a>" for n in range(500_000)), links=every,
               settings={"max_body": "20000000"})  # fmt: skip
    yield page("links-700000", lambda: "".join(f"<a href=/n/{n}></a>" for n in range(700_000)), links=every,
               settings={"max_body": "20000000"})  # fmt: skip
    yield page("links-hosts", lambda: "".join(f"<a href=http://h{n}.invalid/></a>" for n in range(20_000)),
               links="[{selector: a, sameHost: true}]")  # fmt: skip
    base = f"<base href='/{'x' * 8_000}/'>"
    yield page("links-base", lambda: base + "".join(f"<a href={n}></a>" for n in range(99_999)), links=every)
    yield page("links-base-huge", lambda: f"<base href='/{'x' * MILLION}/'>" + "<a href=1></a>" * 99_999, links=every)
    yield page("links-long", lambda: "".join(f"<a href={n}{'x' * 90_000}></a>" for n in range(90)), links=every)
    yield page("links-regex", lambda: "".join(f"<a href={'a' * 40}{n}!></a>" for n in range(50_000)),
               links="[{selector: a, allow: ['(a+)+$']}]")  # fmt: skip
    odd = "<a href='http://['></a><a href='//'></a><a href='javascript:1'></a><a href='&#0;\r\n'></a>"
    yield page("links-odd", lambda: odd * 50_000, links=every)
    yield page("meta-refresh", lambda: "<meta http-equiv=refresh content='0;url=/meta-refresh'>" * 100_000)
    yield page("bases", lambda: "".join(f"<base href='http://h{n}.invalid/'>" for n in range(200_000)), links=every)
    yield page("metas-robots", lambda: "<meta name=robots content='index,x'>" * 200_000, links=every)
    yield page("links-trap", lambda: "<a href=links-trap/a/>a</a><a href=b/>b</a>", links=every)
