"""Sitemaps: their entries, and when these were modified."""

import time
from datetime import UTC, datetime

import pytest

from crawl_engine.extract.documents.sitemap import UNKNOWN, SitemapEntries, parse_sitemap, read_lastmod

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


def at(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-22T10:00:00Z", at(2026, 11, 22, 10, 0, 1)),
        ("2026-11-22T10:00:00.25+02:00", at(2026, 11, 22, 8, 0, 1)),
        ("2026-11-22T10:00:00-0330", at(2026, 11, 22, 13, 30, 1)),
        ("2026-11-22T10:05Z", at(2026, 11, 22, 10, 6)),
        ("2026-11-22", at(2026, 11, 23)),
        ("2026-11-23", at(2026, 11, 24)),
        ("2026-10", at(2026, 11, 1)),
        ("2024-12", at(2025, 1, 1)),
        ("2026-02-28", at(2026, 3, 1)),
        ("2025", at(2026, 1, 1)),
        ("2026-11-22T10:00:00", at(2026, 11, 23)),
        ("2026-11-22 10:00", at(2026, 11, 23)),
        ("2026-11-24", UNKNOWN),
        ("2026-11-23T13:00:00Z", UNKNOWN),
        ("2026-11-23T13:00:00+02:00", at(2026, 11, 23, 11, 0, 1)),
        ("2999", UNKNOWN),
        ("9999-12-31T23:59:59-01:00", UNKNOWN),
        ("0001-01-01T00:00:00+00:00", UNKNOWN),
        ("1970-01-01", UNKNOWN),
        ("2026-02-30", UNKNOWN),
        ("2026-13", UNKNOWN),
        ("2026-11-22T24:00:00Z", UNKNOWN),
        ("2026-11-22T10:00:60Z", UNKNOWN),
        ("22.11.2026", UNKNOWN),
        ("Sun, 22 Nov 2026 10:00:00 GMT", UNKNOWN),
        ("yesterday", UNKNOWN),
        ("٢٠٢٦-11-22", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_date_means_the_end_of_what_it_names(text: str, moment: int) -> None:
    assert read_lastmod(text, NOW) == moment


DATED = """<?xml version="1.0"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc> /a </loc><lastmod> 2026-11-22 </lastmod></url>
  <url><lastmod>2026-11-21</lastmod><loc>/b</loc></url>
  <url><loc>/c</loc></url>
  <url><loc>/d</loc><image:image><image:loc>/d.png</image:loc></image:image><lastmod>2026-11-20</lastmod></url>
  <url><loc>/e</loc><loc>/f</loc><lastmod>2026-11-19</lastmod><loc>/g</loc><lastmod>2001</lastmod></url>
  <url><loc>/h</loc><lastmod/></url>
  <lastmod>2026-11-18</lastmod>
  <url><lastmod>never</lastmod><lastmod>2026-11-18</lastmod><loc>/i</loc></url>
  <url><lastmod>2026-11-17</lastmod></url>
  <url><loc>/j</loc></url>
</urlset>"""


def test_each_page_has_the_first_date_of_its_own_entry() -> None:
    entries = parse_sitemap(DATED, NOW)
    dates = dict(zip(entries.pages, entries.modified, strict=True))
    assert dates == {
        "/a": at(2026, 11, 23), "/b": at(2026, 11, 22), "/c": UNKNOWN, "/d": at(2026, 11, 21), "/e": at(2026, 11, 20),
        "/f": at(2026, 11, 20), "/g": at(2026, 11, 20), "/h": UNKNOWN, "/i": UNKNOWN, "/j": UNKNOWN,
    }  # fmt: skip


def test_the_urls_are_the_same_with_and_without_dates() -> None:
    nested = "<sitemap><loc>/1.xml</loc><lastmod>2020</lastmod></sitemap>"
    index = f"<sitemapindex>{nested}<url><loc>/x</loc></url></sitemapindex>"
    for text in (DATED, index, "/a\n\n /b \n", "<urlset>", "<urlset><url><loc>/a</loc>", "<", "<a>\0</a>", ""):
        plain, dated = parse_sitemap(text), parse_sitemap(text, NOW)
        assert (dated.pages, dated.sitemaps) == (plain.pages, plain.sitemaps)
        assert plain.modified == ()
        assert len(dated.modified) == len(dated.pages)


def test_entries_are_cut_together_with_their_dates() -> None:
    entries = SitemapEntries(["/a\n", "/too-long", "/b", "/c"], ["/s", "/t"], [1, 2, 3, 4])
    assert entries.cut(3, 5) == (SitemapEntries(["/a", "/b", "/c"], [], [1, 3, 4]), 3)
    assert entries.cut(4, 5) == (SitemapEntries(["/a", "/b", "/c"], ["/s"], [1, 3, 4]), 2)
    assert SitemapEntries(["/a"]).cut(9, 9) == (SitemapEntries(["/a"], [], ()), 0)


@pytest.mark.parametrize(
    "inner", ["<loc>/a</loc>", "<lastmod>2020-01-01</lastmod>", "<loc>/a</loc><lastmod>2020</lastmod>"]
)
def test_one_entry_with_many_urls_and_dates_takes_no_longer_than_many_entries(inner: str) -> None:
    begun = time.thread_time()
    parse_sitemap(f"<urlset>{f'<url>{inner}</url>' * 20_000}</urlset>", NOW)
    usual = time.thread_time() - begun
    begun = time.thread_time()
    parse_sitemap(f"<urlset><url>{inner * 20_000}</url></urlset>", NOW)
    assert time.thread_time() - begun < 5 * usual + 0.5


WHOLE = "<urlset><url><loc>http://h/1</loc></url><url><loc>http://h/12345</loc></url></urlset>"


@pytest.mark.parametrize("now", [None, 1e9])
@pytest.mark.parametrize(
    ("text", "pages", "is_cut_short"),
    [
        (WHOLE, 2, False),
        (WHOLE[: WHOLE.index("345<")], 1, True),
        (WHOLE.removesuffix("</url></urlset>"), 2, True),
        (WHOLE.removesuffix("</urlset>"), 2, True),
        ("<urlset><url><loc><![CDATA[http://h/12", 0, True),
        ("<urlset><url><loc><![CDATA[http://h/12]]></loc></url></urlset>", 1, False),
        ("<s:urlset xmlns:s='x'><s:url><s:loc>http://h/1", 0, True),
        (f"{WHOLE}<!-- a remark", 2, False),
    ],
)
def test_a_url_that_the_end_cuts_is_left_out(text: str, pages: int, is_cut_short: bool, now: float | None) -> None:
    entries = parse_sitemap(text, now)
    assert list(entries.pages) == ["http://h/1", "http://h/12345"][:pages] or pages == 1
    assert (len(entries.pages), entries.is_cut_short) == (pages, is_cut_short)
    assert entries.cut(10, 100)[0].is_cut_short is is_cut_short


@pytest.mark.parametrize(
    "fault",
    [
        "\n<?xml version='1.0'?>{}",
        "<?xml version='1.0' encoding='ISO-8859-1'?>{}",
        "<?xml version='1.0' encoding='UTF-16'?>{}",
        "<urlset><url><loc>/?a=1&b=2</loc></url>{}",
        "<urlset><url><loc>/caf&eacute;</loc></url>{}",
        "<urlset><url><loc>/x</loc><image:x y=1/></url>{}",
        "<urlset>\x0b{}",
        "<urlset><url><loc>/&#xD800;</loc></url>{}",
    ],
)
def test_the_urls_of_a_malformed_sitemap_are_whole(fault: str) -> None:
    entry = "<url><loc>/\u00e9?a=1&amp;b=2</loc></url>"
    text = fault.format(entry if "<urlset>" in fault else f"<urlset>{entry}</urlset>")
    assert parse_sitemap(text).pages[-1] == "/\u00e9?a=1&b=2"


def test_references_by_name_are_characters() -> None:
    assert parse_sitemap("<urlset><url><loc>/caf&eacute;?a&b&amp;c</loc></url></urlset>").pages == ["/caf\u00e9?a&b&c"]


RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>x</title>
<link>http://h/</link><atom:link rel="self" href="http://h/feed"/>
<item><title>1</title><link> http://h/1 </link><pubDate>Mon, 23 Nov 2026 08:00:00 GMT</pubDate></item>
<item><guid>http://h/2</guid><atom:updated>2026-11-22T10:00:00Z</atom:updated></item>
<item><guid isPermaLink="false">3</guid></item>
<item><link>/4</link><pubDate>soon</pubDate></item></channel></rss>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="x"><link>http://h/</link></channel>
<item rdf:about="http://h/1"><link>http://h/1</link><dc:date>2026-11-22</dc:date></item></rdf:RDF>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://h/"/><updated>2026-11-20</updated>
<entry><link rel="enclosure" href="/x.mp3"/><link rel="alternate" href="/1"/>
<updated>2026-11-22T10:00:00Z</updated></entry>
<entry><link href="/2"/><link href="/3"/></entry><entry><id>tag:4</id></entry></feed>"""


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        (RSS, {"http://h/1": at(2026, 11, 23, 8, 0, 1), "http://h/2": at(2026, 11, 22, 10, 0, 1), "/4": UNKNOWN}),
        (RDF, {"http://h/1": at(2026, 11, 23)}),
        (ATOM, {"/1": at(2026, 11, 22, 10, 0, 1), "/2": UNKNOWN}),
        (f"Warning: x in /srv/y.php on line 3\n{RDF}", {"http://h/1": at(2026, 11, 23)}),
    ],
)
def test_a_feed_names_the_pages_of_its_entries(text: str, pages: dict[str, int]) -> None:
    dated = parse_sitemap(text, NOW)
    assert dict(zip(dated.pages, dated.modified, strict=True)) == pages
    assert list(parse_sitemap(text).pages) == list(pages)
    assert not dated.sitemaps


@pytest.mark.parametrize(
    ("text", "sitemaps"),
    [
        (
            "User-agent: *\nDisallow: /no\nSitemap: http://h/a.xml\nsitemap: /b.xml # news\n",
            ["http://h/a.xml", "/b.xml"],
        ),
        ("\r\n# hello <you>\r\nSITEMAP : http://h/a.xml#x\r\n", ["http://h/a.xml"]),
        ("User-agent: *\nAllow: /\n", []),
        ("Sitemap:\nSitemap: /a\n", ["/a"]),
    ],
)
def test_a_robots_txt_names_sitemaps(text: str, sitemaps: list[str]) -> None:
    entries = parse_sitemap(text)
    assert (list(entries.pages), list(entries.sitemaps)) == ([], sitemaps)


@pytest.mark.parametrize(
    "text", ["<!doctype html><title>Not found</title><p>No item, no entry: <a href=/>x</a>", "Not found", ""]
)
def test_what_is_no_sitemap_has_no_entry(text: str) -> None:
    entries = parse_sitemap(text)
    assert not [*entries.sitemaps, *entries.pages]
