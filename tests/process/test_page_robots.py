"""What pages ask of robots, in `<meta>` and in X-Robots-Tag: `nofollow` and `noindex`, and the settings for them."""

import signal
import threading

import pytest

from crawl_engine.store.tables.run.events import TEXT

from .project import Project, until
from .site import Page, Request, Site, html
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)

META = '<meta name="{name}" content="{content}">'


def tagged(body: str, **headers: str) -> Page:
    return Page(html(body), headers={name.replace("_", "-"): value for name, value in headers.items()})


def ok(request: Request) -> Page:
    return Page(html("x"))


def page_event(project: Project, path: str) -> tuple[str, str]:
    [(level, text)] = project.query(
        f"WITH e AS (SELECT level, kind, {TEXT} AS text FROM events) "
        f"SELECT level, text FROM e WHERE kind = 'page' AND (text LIKE '%{path}' OR text LIKE '%{path};%')"
    )
    return str(level), str(text)


def end_events(project: Project) -> list[tuple[str, str]]:
    return project.query("SELECT level, text FROM events WHERE text LIKE '%noindex%' AND source = 'supervisor'")


NOFOLLOW: tuple[tuple[dict[str, str], str], ...] = (
    ({"X-Robots-Tag": "noarchive, nofollow"}, ""),
    ({"X-Robots-Tag": "otherbot: index, Crawl-Console: none"}, ""),
    ({"X-Robots-Tag": "crawl-console/1.0: noarchive; nofollow"}, ""),
    ({}, '<meta name="robots" content="noarchive;nofollow">'),
    ({}, META.format(name="crawl-console", content="nofollow")),
)
"""Headers and head of pages that forbid to follow their links."""


@pytest.mark.parametrize(
    ("settings", "host", "followed"),
    [((), "robots: false", False), (("--set", "meta_nofollow=false"), "robots: false", True),
     ((), "robots: false, nofollow: false", True)],
)  # fmt: skip
def test_links_of_a_page_that_says_nofollow(
    project: Project, site: Site, settings: tuple[str, ...], host: str, followed: bool
) -> None:
    for number, (headers, meta) in enumerate(NOFOLLOW):
        site[f"/{number}"] = Page(html(f'{meta}<a href="/{number}/linked">x</a>'), headers=headers)
    site.fallback = ok
    pages = [f"/{number}" for number in range(len(NOFOLLOW))]
    project.write(defs(*map(site.url, pages), host=host))
    project.crawl(*settings)
    assert sorted(site.paths) == sorted([*pages, *(f"{page}/linked" for page in pages if followed)])


def test_pages_that_say_noindex_are_counted(project: Project, site: Site) -> None:
    site["/"] = tagged('<a href="/a">x</a><a href="/b">x</a>', X_Robots_Tag="noindex")
    site["/a"] = html(META.format(name="robots", content="noindex"))
    site["/b"] = tagged("x", X_Robots_Tag="otherbot: noindex")
    project.write(defs(site.url("/")))
    done = project.crawl()
    assert done.summary["rows"] == {"page": 3}
    text = "2 pages say noindex: their rows are kept, because meta_noindex is false"
    assert end_events(project) == [("WARNING", text)]
    assert done.err.count(text) == 1
    assert page_event(project, "/a")[1].endswith("; noindex")
    assert page_event(project, "/a")[0] == "INFO"
    assert "noindex" not in page_event(project, "/b")[1]


def test_pages_that_say_noindex_give_no_rows_where_the_setting_says_so(project: Project, site: Site) -> None:
    site["/"] = tagged('<a href="/a">x</a>', X_Robots_Tag="noindex")
    site.fallback = ok
    project.write(defs(site.url("/")))
    project.crawl("--set", "meta_noindex=true")
    assert [row["url"] for row in project.rows("page")] == [site.url("/a")], "its links are followed"
    assert end_events(project) == [("INFO", "1 page says noindex: no rows (meta_noindex)")]


@pytest.mark.sweep
def test_a_stored_page_keeps_what_its_header_asked(project: Project, site: Site) -> None:
    site["/"] = tagged('<a href="/a">x</a>', X_Robots_Tag="none")
    project.write(defs(site.url("/")))
    project.crawl()
    project.crawl("--set", "live=P1D", "--set", "meta_noindex=true")
    assert site.paths == ["/"]
    assert project.rows("page") == []
    assert end_events(project)[-1][0] == "INFO"


@pytest.mark.sweep
def test_try_shows_what_a_crawl_would_make_of_the_page(project: Project, site: Site) -> None:
    site["/"] = tagged('<a href="/a">x</a>', X_Robots_Tag="none")
    project.write(defs(site.url("/")))
    arguments = ("try", "page", site.url("/"), "--defs", str(project.defs), "--json")
    shown = project.run_command(*arguments).out
    assert '"url"' in shown
    assert "/a" not in shown
    assert "/a" in project.run_command(*arguments, "--set", "meta_nofollow=false").out
    assert "url" not in project.run_command(*arguments, "--set", "meta_noindex=true").out.partition('"links"')[0]


TWO_DATA_DEFS = """\
locatorGroups: {{pages: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{pages: {{first: {{dataDef: first}}, second: {{dataDef: second}}}}}}
dataDefs:
  first: {{fields: {{url: {{value: "%{{document.url}}"}}}}}}
  second: {{fields: {{{more}url: {{value: "%{{document.url}}"}}}}}}
hosts: {{"127.0.0.1": {{private: true, robots: false}}}}
"""


@pytest.mark.extended
def test_a_re_extraction_deletes_all_rows_of_a_stored_page_that_says_noindex(project: Project, site: Site) -> None:
    hold = threading.Event()
    site["/said"] = tagged("<b>x</b>", X_Robots_Tag="noindex")
    site["/plain"] = html("<b>x</b>")
    site["/gate"] = Page(html("<b>x</b>"), hold=hold)
    urls = ", ".join(f'"{site.url(path)}"' for path in ("/said", "/plain", "/gate"))
    project.write(TWO_DATA_DEFS.format(urls=urls, more=""))
    running = project.start("--grace", "0")
    assert until(lambda: len(site.paths) == 3)
    assert until(lambda: project.query("SELECT total(done) FROM sequences WHERE kind = 'page'") == [(2,)])
    running.send(signal.SIGTERM)
    running.wait()
    hold.set()
    assert [len(project.rows(name)) for name in ("first", "second")] == [2, 2]
    project.write(TWO_DATA_DEFS.format(urls=urls, more='added: {value: "1"}, '))
    project.crawl("--set", "meta_noindex=true")
    for name in ("first", "second"):
        assert sorted(row["url"] for row in project.rows(name)) == [site.url("/gate"), site.url("/plain")]
    assert site.count("/said") == site.count("/plain") == 1, "they were not asked for again"
