"""Hostile documents other than HTML: JSON, XML, sitemaps, robots.txt, and texts in broken charsets."""

import gzip
import random
from collections.abc import Iterator

from tests.hostile.answer import HostileAnswer, page, selected

MILLION = 1_000_000
_JSON, _XML = "application/json", "application/xml"


def answers() -> Iterator[HostileAnswer]:
    """All of this module."""
    yield from _json()
    yield from _xml()
    yield from _css_on_xml()
    yield from _charsets()
    yield from _sitemaps()
    yield from _robots()


def _json() -> Iterator[HostileAnswer]:
    field = "{a: {selector: 'jmespath: a'}, b: {selector: 'jmespath: [*].b', all: true}}"
    records = "{a: {selector: 'jmespath: a'}}"
    for name, text in {
        "json-deep": lambda: '{"a":' + "[" * 2 * MILLION,
        "json-deep-900": lambda: '{"a":' + "[" * 900 + '"\\ud800"' + "]" * 900 + "}",
        "json-deep-objects": lambda: '{"a":' * 300_000,
        "json-number": lambda: '{"a":' + "9" * 4 * MILLION + "}",
        "json-exponent": lambda: '{"a":1e999999999999}',
        "json-string": lambda: '{"a":"' + "x" * 9 * MILLION + '"}',
        "json-keys": lambda: "{" + ",".join(f'"k{n}":1' for n in range(600_000)) + ',"a":1}',
        "json-same-keys": lambda: "{" + '"a":1,' * 900_000 + '"a":2}',
        "json-surrogates": lambda: '{"a":"' + "\\ud800" * 900_000 + '"}',
        "json-cut": lambda: '[{"a":1},' * 500_000,
        "json-nan": lambda: '{"a":[NaN,Infinity,-Infinity]}',
        "json-nul": lambda: '{"a":"\\u0000"}\0\0',
    }.items():
        yield page(name, text, _JSON, fields=field)
    yield page("json-records", lambda: "[" + ",".join(['{"a":1}'] * 300_000) + "]", _JSON,
               query="{block: 'jmespath: [*]'}", fields=records)  # fmt: skip
    yield page("json-product", lambda: "[" + ",".join(["[1]"] * 20_000) + "]", _JSON,
               fields="{a: {selector: 'jmespath: [?contains(@, `2`)] | sort(@)'}}")  # fmt: skip


def _xml() -> Iterator[HostileAnswer]:
    laughs = "".join(f"<!ENTITY l{n} '" + f"&l{n - 1};" * 10 + "'>" for n in range(1, 12))
    item = selected("xpath: //a")
    for name, text in {
        "xml-laughs": lambda: f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">{laughs}]><a>&l11;</a>',
        "xml-quadratic": lambda: "<!DOCTYPE a [<!ENTITY e '" + "x" * 90_000 + "'>]><a>" + "&e;" * 90_000 + "</a>",
        "xml-external": lambda: '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
        "xml-external-dtd": lambda: '<!DOCTYPE a SYSTEM "http://127.0.0.1:1/x.dtd"><a>x</a>',
        "xml-parameter": lambda: "<!DOCTYPE a [<!ENTITY % p \"<!ENTITY q '&#37;p;'>\">%p;]><a>&q;</a>",
        "xml-deep": lambda: "<a>" * 900_000,
        "xml-deep-9000": lambda: "<a>" * 9_000 + "</a>" * 9_000,
        "xml-cdata": lambda: "<a><![CDATA[" + "x" * 9 * MILLION + "]]></a>",
        "xml-attributes": lambda: "<a " + " ".join(f"a{n}='1'" for n in range(300_000)) + "/>",
        "xml-namespaces": lambda: "<a " + " ".join(f"xmlns:n{n}='u{n}'" for n in range(90_000)) + "/>",
        "xml-namespaces-nested": lambda: "".join(f'<a xmlns:n{n}="u">' for n in range(9_000)),
        "xml-instructions": lambda: "<a>" + "<?x y?>" * 900_000 + "</a>",
        "xml-elements": lambda: "<r>" + "<a>x</a>" * MILLION + "</r>",
        "xml-name": lambda: f"<{'a' * 9 * MILLION}/>",
        "xml-references": lambda: "<r>" + "&lt;" * 2 * MILLION + "</s></r>",
        "xml-ampersands": lambda: "<r>" + "&" * 9 * MILLION + "</r>",
        "xml-entities": lambda: "<r>" + "&eacute;&nope;" * 500_000 + "</r>",
        "xml-prefixes": lambda: "<r>" + "".join(f"<p{n}:a/>" for n in range(600_000)) + "</r>",
        "xml-cdata-open": lambda: "<r>" + "<![CDATA[" * 900_000 + "</r>",
    }.items():
        yield page(name, text, _XML, fields=item)


def _css_on_xml() -> Iterator[HostileAnswer]:
    def nested(levels: int, count: int) -> str:
        return "<rss>" + "<item>" * levels + "<a/>" * count + "</item>" * levels + "</rss>"

    for size, levels, count in (("small", 29, 15_000), ("large", 200, 2 * MILLION)):
        for number, selector in enumerate(("channel item item item a", "channel > item item a", "item item item a")):
            yield page(f"xml-css-descend-{number}-{size}", lambda x=levels, y=count: nested(x, y), _XML,
                       fields=selected(selector))  # fmt: skip
    for size, count in (("small", 15_000), ("large", 2 * MILLION)):
        for name, selector in (
            ("next", "i + a + a + a"), ("before", "i ~ a"), ("first", "a:first-child + a"), ("last", "a:last-child"),
            ("nth", "a:nth-child(2)"), ("of-type", "a:nth-last-of-type(2n)"), ("has", "a:has(~ i)"),
        ):  # fmt: skip
            yield page(f"xml-css-{name}-{size}", lambda y=count: f"<r>{'<a/>' * y}</r>", _XML,
                       fields=selected(selector))  # fmt: skip


def _charsets() -> Iterator[HostileAnswer]:
    rng = random.Random(3)
    html = "<meta charset=utf-8><b>caf\u00e9</b>" + "<p>text</p>" * 50_000
    for name, body, content_type in (
        ("utf16", lambda: html.encode("utf-16"), "text/html"),
        ("utf16-odd", lambda: html.encode("utf-16-le")[1:], "text/html; charset=utf-16"),
        ("utf16-lie", lambda: html.encode(), "text/html; charset=utf-16"),
        ("utf32", lambda: html.encode("utf-32"), "text/html; charset=utf-32"),
        ("utf7", lambda: b"+ADw-script+AD4-" * 90_000, "text/html; charset=utf-7"),
        ("charset-idna", lambda: html.encode(), "text/html; charset=idna"),
        ("charset-zlib", lambda: b"x\x9c" * 900_000, "text/html; charset=zlib_codec"),
        ("charset-escape", lambda: b"\\N{DIGIT ONE}" * 500_000, "text/html; charset=unicode_escape"),
        ("charset-punycode", lambda: b"a-" * 90_000, "text/html; charset=punycode"),
        ("charset-iso2022", lambda: b"\x1b$B" * MILLION, "text/html; charset=iso-2022-jp"),
        ("bytes-random", lambda: rng.randbytes(4 * MILLION), "text/html"),
        ("bytes-nul", lambda: bytes(9 * MILLION), "text/html"),
        ("bytes-ff", lambda: b"\xff" * 9 * MILLION, "text/html"),
        ("bytes-binary", lambda: b"\x89PNG\r\n\x1a\n" + rng.randbytes(MILLION), "text/html"),
        ("bytes-bidi", lambda: "<b>\u202e\u2066\x1b]0;x\x07</b>".encode() * 90_000, "text/html"),
        ("bytes-combining", lambda: ("<b>a" + "\u0300" * 2 * MILLION + "</b>").encode(), "text/html"),
        ("metas-charset", lambda: b"<meta charset=x>" * 500_000, "text/html"),
    ):
        yield page(name, body, content_type)


def _sitemaps() -> Iterator[HostileAnswer]:
    entry = "<url><loc>/none/{}</loc></url>"
    urls = "".join(entry.format(n) for n in range(50_001))
    bomb = "<urlset>" + entry.format("x") * 190_000
    for name, body in {
        "sitemap-50001": lambda: f"<urlset>{urls}</urlset>".encode(),
        "sitemap-bomb": lambda: gzip.compress(bomb.encode()),
        "sitemap-gzip-bomb": lambda: gzip.compress(bytes(300 * MILLION), 9),
        "sitemap-self": lambda: b"<sitemapindex><sitemap><loc>/sitemap-self</loc></sitemap></sitemapindex>",
        "sitemap-deeper": lambda: b"<sitemapindex>" + b"<sitemap><loc>sitemap-deeper/x</loc></sitemap>" * 900,
        "sitemap-laughs": lambda: b'<!DOCTYPE a [<!ENTITY b "xx">]><urlset><url><loc>&b;</loc></url></urlset>',
        "sitemap-deep": lambda: b"<urlset>" * 500_000,
        "sitemap-long": lambda: b"<urlset><url><loc>/" + b"x" * 9 * MILLION + b"</loc></url></urlset>",
        "sitemap-lines": lambda: b"/x\n" * 2 * MILLION,
        "sitemap-binary": lambda: bytes(range(256)) * 9_000,
    }.items():
        yield page(name, body, _XML, locator="sitemap")


def _robots() -> Iterator[HostileAnswer]:
    for name, body in {
        "robots-giant": lambda: b"User-agent: *\nDisallow: /none\n" + b"Disallow: /x*y*z$\n" * 500_000,
        "robots-stars": lambda: b"User-agent: *\nDisallow: /" + b"*a" * 30_000 + b"\n",
        "robots-line": lambda: b"User-agent: " + b"x" * 9 * MILLION,
        "robots-binary": lambda: random.Random(4).randbytes(900_000),
        "robots-nul": lambda: bytes(900_000),
        "robots-agents": lambda: b"".join(b"User-agent: a%d\n" % n for n in range(90_000)) + b"Disallow: /none\n",
        "robots-delay": lambda: b"User-agent: *\nCrawl-delay: 1e-9\nCrawl-delay: NaN\nDisallow: /none\n",
    }.items():
        yield page(name, body, "text/plain", robots=True)
