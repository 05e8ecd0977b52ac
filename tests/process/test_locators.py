"""Start URLs: braces, files of URLs, stdin, sitemaps, forms, base URLs."""

import gzip
import json
import threading
import urllib.parse

import pytest

from .library import ok
from .project import Project, until
from .shared_crawl import Part, shared
from .site import Page, Request, Site, html
from .stopwatch import slowness

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


def fetch(project: Project, locator: str, *arguments: str, more: str = "", **options: object) -> list[str]:
    project.write(DEFS.format(locator=locator, more=more))
    project.crawl(*arguments, **options)  # type: ignore[arg-type]
    return sorted(row["url"] for row in project.rows("page"))


@shared()
def test_braces_expand(site: Site) -> Part:
    site.fallback = ok
    url = site.url("/{a,b}/{08..11}/x\\\\{1}")
    crawl = yield DEFS.format(locator=f'{{name: n, url: "{url}"}}', more="")
    assert sorted(site.paths) == sorted(f"/{x}/{n:02d}/x%7B1%7D" for x in "ab" for n in range(8, 12))
    assert len(crawl.rows("page")) == 8


def test_a_locator_expands_to_at_most_100000_urls(project: Project, site: Site) -> None:
    project.write(DEFS.format(locator=f'{{url: "{site.url("/{1..100001}")}"}}', more=""))
    done = project.start().wait()
    assert done.code == 2, done.err
    assert "100,000" in done.err
    assert "defs/crawl.yml:1:" in done.err
    assert site.exchanges == []


@pytest.mark.sweep
def test_many_locators(project: Project, site: Site) -> None:
    site.fallback = ok
    fetched = fetch(project, f'{{url: "{site.url("/{1..3000}")}"}}', "--set", "host_concurrency=64", seconds=90)
    assert len(fetched) == 3000
    assert len(site.paths) == len(set(site.paths)) == 3000


def test_urls_from_a_file_and_from_stdin(project: Project, site: Site) -> None:
    site.fallback = ok
    lines = f"\ufeff{site.url('/1')}\n# a comment\n\n  {site.url('/2')}  \r\n{site.url('/1')}\nnot a url\n"
    lines += site.url("/{x}")
    (project.defs / "seeds.txt").write_text(lines, "utf-8")
    assert fetch(project, "{name: n, from: seeds.txt}") == [
        site.url("/%7Bx%7D"),
        site.url("/1"),
        site.url("/2"),
    ]
    assert site.count("/1") == 1
    events = str(project.query("SELECT text FROM events WHERE kind = 'seed'"))
    assert "not a url" in events
    site.clear_log()
    assert fetch(project, '{name: n, from: "-"}', stdin=f"{site.url('/s')}\n".encode()) == [site.url("/s")]


def test_a_missing_file_of_urls_is_reported(project: Project) -> None:
    project.write(DEFS.format(locator="{name: n, from: nowhere.txt}", more=""))
    done = project.start().wait()
    assert done.code in (2, 3), done.err
    assert "nowhere.txt" in done.err
    assert "Traceback" not in done.err
    project.assert_no_process_left(4)


def test_sitemaps_plain_compressed_and_nested(project: Project, site: Site) -> None:
    def urlset(*paths: str) -> str:
        entries = "".join(f"<url><loc> {site.url(path)} </loc><lastmod>2020</lastmod></url>" for path in paths)
        return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'

    site.fallback = ok
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
    project.write(DEFS.format(locator=f'{{name: n, sitemap: "{site.url("/map.xml")}"}}', more=""))
    done = project.start().wait()
    assert done.code in (0, 1), done.err
    project.assert_clean(done)
    rows = {row["url"]: row for row in project.rows("page")}
    assert sorted(rows) == sorted(site.url(path) for path in ("/1", "/2?a=1&b=2", "/3", "/4", "/5"))
    assert {row["name"] for row in rows.values()} == {"n"}
    assert rows[site.url("/1")]["depth"] == "0"
    assert rows[site.url("/5")]["depth"] == "1"
    assert done.summary["jobs"]["done"] == 5, "a sitemap is not a page"
    assert max(site.count(path) for path in site.paths) == 1


@pytest.mark.parametrize("filler", [0, 2_000])
def test_a_sitemap_that_ends_too_early_and_one_that_fails_are_said(project: Project, site: Site, filler: int) -> None:
    """A large one is read in an extraction process."""
    entry = f"<url><loc>{site.url('/1')}</loc></url>"
    site["/cut.xml"] = Page(
        f"<urlset>{entry * (1 + filler)}<url><loc>{site.url('/12')}", headers={"Content-Type": "text/xml"}
    )
    site["/gone.xml"] = Page("", 404)
    site.fallback = ok
    locators = ", ".join(f'{{name: n, sitemap: "{site.url(path)}"}}' for path in ("/cut.xml", "/gone.xml"))
    project.write(DEFS.format(locator=locators, more=""))
    done = project.crawl()
    assert site.count("/1") == 1
    assert site.count("/12") == 0
    [text] = [
        text for (text,) in project.query("SELECT text FROM events WHERE level = 'WARNING' AND text LIKE '%cut.xml%'")
    ]
    assert text.endswith("it ends too early, and further entries may be missing")
    assert [warning["code"] for warning in done.summary["warnings"]] == ["failed-sitemap"]


def test_a_sitemap_that_is_html(project: Project, site: Site) -> None:
    site["/map.xml"] = html("<b>not fetched, but 200</b>")
    project.write(DEFS.format(locator=f'{{name: n, sitemap: "{site.url("/map.xml")}"}}', more=""))
    done = project.start().wait()
    assert done.code in (0, 1), done.err
    project.assert_clean(done)
    assert project.rows("page") == []
    text = f"1 sitemap gave nothing: {site.url('/map.xml')} (no sitemap: it has no entry)"
    assert text in [warning["text"] for warning in done.summary["warnings"]]


def test_a_robots_txt_as_a_sitemap_leads_to_sitemaps_and_feeds_and_ends(project: Project, site: Site) -> None:
    index = "".join(f"<sitemap><loc>{path}</loc></sitemap>" for path in ("/robots.txt", "/index.xml", "/feed", "/html"))
    site["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /no\nSitemap: /index.xml\n", headers={"Content-Type": "text/plain"}
    )
    site["/index.xml"] = f"<sitemapindex>{index}</sitemapindex>"
    site["/feed"] = "<rss><channel><item><link>/1</link></item></channel></rss>"
    site["/html"] = html("not found, but 200")
    site["/1"] = ok
    locator = f'{{name: n, sitemap: "{site.url("/robots.txt")}"}}'
    project.write(DEFS.format(locator=locator, more="").replace("robots: false", "robots: true"))
    done = project.crawl()
    assert done.summary["jobs"]["done"] == 1
    assert [site.count(path) for path in ("/index.xml", "/feed", "/html", "/1")] == [1, 1, 2, 1], (
        "an empty sitemap is asked for once more"
    )
    assert [warning["code"] for warning in done.summary["warnings"]] == ["empty-sitemap"]


@shared()
def test_forms_json_and_bodies_are_posted(site: Site) -> Part:
    def echo(request: Request) -> Page:
        return Page(html(f"<b>{request.method} {request.headers.get('content-type', '')} {request.body.decode()}</b>"))

    site["/post"] = echo
    url = site.url("/post")
    locator = (
        f'{{name: a, url: "{url}", form: {{q: "x y", n: [1, 2]}}}}, {{name: b, url: "{url}", json: {{k: [1, true]}}}},'
        f' {{name: c, url: "{url}", method: PUT, body: "raw=1", headers: {{Content-Type: text/plain}}}},'
        f' {{name: d, url: "{url}", form: {{q: other}}}}, {{name: e, url: "{url}"}}'
    )
    crawl = yield DEFS.format(locator=locator, more="")
    rows = {row["name"]: row["b"] for row in crawl.rows("page")}
    assert rows["a"].startswith("POST application/x-www-form-urlencoded")
    assert urllib.parse.parse_qs(rows["a"].split()[-1]) == {"q": ["x y"], "n": ["1", "2"]}
    assert rows["b"].startswith("POST application/json")
    assert json.loads(rows["b"].split(" ", 2)[2]) == {"k": [1, True]}
    assert rows["c"] == "PUT text/plain raw=1"
    assert rows["d"].endswith("q=other")
    assert rows["e"].startswith("GET")
    assert site.count("/post") == 5, "the request body is part of a page's identity"


@shared()
def test_a_post_and_a_link_to_the_same_url_are_two_pages(site: Site) -> Part:
    site["/"] = lambda request: Page(html(f'<b>{request.method}</b><a href="/">x</a>'))
    crawl = yield DEFS.format(locator=f'{{name: a, url: "{site.url("/")}", form: {{q: x}}}}', more="")
    assert sorted(row["b"] for row in crawl.rows("page")) == ["GET", "POST"]


@shared()
def test_a_locator_and_a_link_to_the_same_page_are_one_job(site: Site) -> Part:
    site["/a"] = html('<a href="/b">x</a><a href="/a">x</a>')
    site["/b"] = html('<a href="/a#top">x</a>')
    crawl = yield DEFS.format(
        locator=f'{{name: a, url: "{site.url("/a")}"}}, {{name: b, url: "{site.url("/b")}"}}', more=""
    )
    assert sorted(site.paths) == ["/a", "/b"]
    assert sorted((row["name"], row["depth"]) for row in crawl.rows("page")) == [("a", "0"), ("b", "0")]


@pytest.mark.sweep
def test_base_url_by_key_and_by_flag(project: Project, site: Site) -> None:
    site.fallback = ok
    assert fetch(project, '{name: a, url: "x/y"}', more=f'baseUrl: "{site.url("/one/")}"') == [site.url("/one/x/y")]
    assert fetch(project, '{name: a, url: "/z"}', "--base-url", site.url("/two/")) == [site.url("/z")]


@shared()
def test_environment_in_locators_is_sent_and_never_stored(site: Site) -> Part:
    site.fallback = lambda request: Page(html("<b>in</b>" if "hunter2x" in str(request) else "<b>out</b>"))
    locator = f'url: "{site.url("/?t=%{env.SECRET_TOKEN}")}", headers: {{X-T: "%{{env.SECRET_TOKEN}}"}}'
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_TOKEN", "hunter2x")
        crawl = yield DEFS.format(locator=f"{{name: a, {locator}}}", more="")
    [row] = crawl.rows("page")
    assert row["b"] == "in"
    assert site.exchanges[0].request.headers["x-t"] == "hunter2x"
    assert "hunter2x" not in row["url"]
    for path in crawl.project.data.rglob("*"):
        assert not path.is_file() or b"hunter2x" not in path.read_bytes(), path


@shared()
def test_depth_and_locator_url_follow_the_links(site: Site) -> Part:
    site["/0"], site["/1"], site["/2"] = html('<a href="/1">x</a>'), html('<a href="/2">x</a>'), html("<b>x</b>")
    crawl = yield DEFS.format(locator=f'{{name: a, url: "{site.url("/0")}"}}', more="")
    assert [(r["url"], r["depth"], r["start"]) for r in sorted(crawl.rows("page"), key=lambda r: r["url"])] == [
        (site.url(f"/{n}"), str(n), site.url("/0")) for n in range(3)
    ]


def test_many_groups_are_seeded_together(project: Project, site: Site) -> None:
    seeded = threading.Event()
    site.fallback = lambda request: Page(html("x"), hold=seeded)
    groups = [f"g{number}" for number in range(200)]
    project.write(
        "\n".join(
            [
                "locatorGroups:",
                *(f'  {name}: {{locators: [{{url: "{site.url(f"/{name}")}"}}]}}' for name in groups),
                "taskGroups:",
                *(f"  {name}: {{page: {{dataDef: page}}}}" for name in groups),
                'dataDefs: {page: {fields: {url: {value: "%{document.url}"}}}}',
                'hosts: {"127.0.0.1": {private: true, robots: false}}',
            ]
        )
    )
    running = project.start("--max-pages", "3")
    assert until(lambda: project.status()["state"] == "READY"), running.err
    seeded.set()
    done = running.wait()
    assert done.code == 0, done.err
    assert done.summary["state"] == "CANCELLED"
    assert project.query("SELECT count(*), sum(completed) FROM checkpoints WHERE step_name = 'seeder'") == [(200, 200)]
    assert project.query("SELECT count(*) FROM jobs WHERE origin = 'locator'") == [(200,)]
    (seconds,) = project.query(
        "SELECT max(at) FILTER (WHERE text = 'run READY') - min(at) FILTER (WHERE text = 'run SEEDING') FROM events"
    )[0]
    assert seconds / slowness() < 3, "one transaction for each group took 9 s"
