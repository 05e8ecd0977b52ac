"""Where a crawl starts: braces, files of URLs, stdin, sitemaps plain, packed and nested, forms, base URLs."""

import gzip
import json
import urllib.parse

import pytest

from .house import House
from .library import ok
from .site import Asked, Page, Site, html

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{locator}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields:
      url: {{value: "%{{document.url}}"}}
      name: {{value: "%{{locator.name}}"}}
      depth: {{value: "%{{depth}}"}}
      start: {{value: "%{{locator.url}}"}}
      b: {{selector: b}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{robots: false}}}}
{more}
"""


def crawl(house: House, locator: str, *arguments: str, more: str = "", **kept: object) -> list[str]:
    house.write(DEFS.format(locator=locator, more=more))
    house.crawl(*arguments, **kept)  # type: ignore[arg-type]
    return sorted(row["url"] for row in house.rows("page"))


def test_braces_expand(house: House, site: Site) -> None:
    site.otherwise = ok
    url = site.url("/{a,b}/{08..11}/x\\\\{1}")
    found = crawl(house, f'{{name: n, url: "{url}"}}')
    assert sorted(site.paths) == sorted(f"/{x}/{n:02d}/x%7B1%7D" for x in "ab" for n in range(8, 12))
    assert len(found) == 8


def test_a_hundred_thousand_at_most(house: House, site: Site) -> None:
    house.write(DEFS.format(locator=f'{{url: "{site.url("/{1..100001}")}"}}', more=""))
    done = house.start().wait()
    assert done.code == 2, done.err
    assert "100,000" in done.err
    assert "defs/crawl.yml:1:" in done.err
    assert site.visits == []


def test_many_locators(house: House, site: Site) -> None:
    site.otherwise = ok
    found = crawl(house, f'{{url: "{site.url("/{1..3000}")}"}}', "--set", "host_concurrency=64", seconds=90)
    assert len(found) == 3000
    assert len(site.paths) == len(set(site.paths)) == 3000


def test_urls_from_a_file_and_from_stdin(house: House, site: Site) -> None:
    site.otherwise = ok
    lines = f"\ufeff{site.url('/1')}\n# a comment\n\n  {site.url('/2')}  \r\n{site.url('/1')}\nnot a url\n"
    lines += site.url("/{x}")
    (house.defs / "seeds.txt").write_text(lines, "utf-8")
    assert crawl(house, "{name: n, from: seeds.txt}") == [site.url("/%7Bx%7D"), site.url("/1"), site.url("/2")]
    assert site.times("/1") == 1
    told = str(house.query("SELECT text FROM events WHERE kind = 'seed'"))
    assert "not a url" in told
    site.forget()
    assert crawl(house, '{name: n, from: "-"}', stdin=f"{site.url('/s')}\n".encode()) == [site.url("/s")]


def test_a_file_of_urls_that_is_missing_is_told(house: House) -> None:
    house.write(DEFS.format(locator="{name: n, from: nowhere.txt}", more=""))
    done = house.start().wait()
    assert done.code in (2, 3), done.err
    assert "nowhere.txt" in done.err
    assert "Traceback" not in done.err
    house.assert_nobody_left(4)


def test_sitemaps_plain_packed_and_nested(house: House, site: Site) -> None:
    def urlset(*paths: str) -> str:
        entries = "".join(f"<url><loc> {site.url(path)} </loc><lastmod>2020</lastmod></url>" for path in paths)
        return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'

    site.otherwise = ok
    index = "".join(
        f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in ("/a.xml", "/b.xml.gz", "/c.txt", "/no")
    )
    site["/map.xml"] = Page(
        f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{index}</sitemapindex>',
        headers={"Content-Type": "application/xml"},
    )
    site["/a.xml"] = Page(urlset("/1", "/2?a=1&amp;b=2"), headers={"Content-Type": "text/xml"})
    site["/b.xml.gz"] = Page(gzip.compress(urlset("/3", "/1").encode()), headers={"Content-Type": "application/gzip"})
    site["/c.txt"] = Page(urlset("/4"), headers={"Content-Type": "application/xml"})
    site["/no"] = Page("none", 404)
    site["/2?a=1&b=2"] = html('<a href="/5">x</a>')
    house.write(DEFS.format(locator=f'{{name: n, sitemap: "{site.url("/map.xml")}"}}', more=""))
    done = house.start().wait()
    assert done.code in (0, 1), done.err
    house.assert_clean(done)
    rows = {row["url"]: row for row in house.rows("page")}
    assert sorted(rows) == sorted(site.url(path) for path in ("/1", "/2?a=1&b=2", "/3", "/4", "/5"))
    assert {row["name"] for row in rows.values()} == {"n"}
    assert rows[site.url("/1")]["depth"] == "0"
    assert rows[site.url("/5")]["depth"] == "1"
    assert done.summary["jobs"]["done"] == 5, "a sitemap is no page"
    assert max(site.times(path) for path in site.paths) == 1


def test_a_sitemap_that_is_none(house: House, site: Site) -> None:
    site["/map.xml"] = html("<b>not found, but 200</b>")
    house.write(DEFS.format(locator=f'{{name: n, sitemap: "{site.url("/map.xml")}"}}', more=""))
    done = house.start().wait()
    assert done.code in (0, 1), done.err
    house.assert_clean(done)
    assert house.rows("page") == []


def test_forms_json_and_bodies_are_posted(house: House, site: Site) -> None:
    def echo(asked: Asked) -> Page:
        return Page(html(f"<b>{asked.method} {asked.headers.get('content-type', '')} {asked.body.decode()}</b>"))

    site["/post"] = echo
    url = site.url("/post")
    locator = (
        f'{{name: a, url: "{url}", form: {{q: "x y", n: [1, 2]}}}}, {{name: b, url: "{url}", json: {{k: [1, true]}}}},'
        f' {{name: c, url: "{url}", method: PUT, body: "raw=1", headers: {{Content-Type: text/plain}}}},'
        f' {{name: d, url: "{url}", form: {{q: other}}}}, {{name: e, url: "{url}"}}'
    )
    crawl(house, locator)
    rows = {row["name"]: row["b"] for row in house.rows("page")}
    assert rows["a"].startswith("POST application/x-www-form-urlencoded")
    assert urllib.parse.parse_qs(rows["a"].split()[-1]) == {"q": ["x y"], "n": ["1", "2"]}
    assert rows["b"].startswith("POST application/json")
    assert json.loads(rows["b"].split(" ", 2)[2]) == {"k": [1, True]}
    assert rows["c"] == "PUT text/plain raw=1"
    assert rows["d"].endswith("q=other")
    assert rows["e"].startswith("GET")
    assert site.times("/post") == 5, "what is posted makes another page"


def test_a_post_is_not_taken_for_the_page_a_link_leads_to(house: House, site: Site) -> None:
    site["/"] = lambda asked: Page(html(f'<b>{asked.method}</b><a href="/">x</a>'))
    crawl(house, f'{{name: a, url: "{site.url("/")}", form: {{q: x}}}}')
    assert sorted(row["b"] for row in house.rows("page")) == ["GET", "POST"]


def test_a_locator_and_a_link_to_the_same_page_are_one_job(house: House, site: Site) -> None:
    site["/a"] = html('<a href="/b">x</a><a href="/a">x</a>')
    site["/b"] = html('<a href="/a#top">x</a>')
    crawl(house, f'{{name: a, url: "{site.url("/a")}"}}, {{name: b, url: "{site.url("/b")}"}}')
    assert sorted(site.paths) == ["/a", "/b"]
    assert sorted((row["name"], row["depth"]) for row in house.rows("page")) == [("a", "0"), ("b", "0")]


def test_base_url_by_key_and_by_flag(house: House, site: Site) -> None:
    site.otherwise = ok
    assert crawl(house, '{name: a, url: "x/y"}', more=f'baseUrl: "{site.url("/one/")}"') == [site.url("/one/x/y")]
    assert crawl(house, '{name: a, url: "/z"}', "--base-url", site.url("/two/")) == [site.url("/z")]


def test_environment_in_locators_is_sent_and_never_stored(
    house: House, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2x")
    site.otherwise = lambda asked: Page(html("<b>in</b>" if "hunter2x" in str(asked) else "<b>out</b>"))
    found = crawl(
        house, f'{{name: a, url: "{site.url("/?t=%{env.SECRET_TOKEN}")}", headers: {{X-T: "%{{env.SECRET_TOKEN}}"}}}}'
    )
    [row] = house.rows("page")
    assert row["b"] == "in"
    assert site.visits[0].asked.headers["x-t"] == "hunter2x"
    assert "hunter2x" not in found[0]
    for path in house.data.rglob("*"):
        assert not path.is_file() or b"hunter2x" not in path.read_bytes(), path


def test_depth_and_locator_url_follow_the_links(house: House, site: Site) -> None:
    site["/0"], site["/1"], site["/2"] = html('<a href="/1">x</a>'), html('<a href="/2">x</a>'), html("<b>x</b>")
    crawl(house, f'{{name: a, url: "{site.url("/0")}"}}')
    assert [(r["url"], r["depth"], r["start"]) for r in sorted(house.rows("page"), key=lambda r: r["url"])] == [
        (site.url(f"/{n}"), str(n), site.url("/0")) for n in range(3)
    ]
