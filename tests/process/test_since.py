"""`since: lastRun`: a page of a sitemap is asked for if it was modified after its stored document was."""

import time
from collections.abc import Mapping

import pytest

from .project import Project
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{{sitemap: {{url: "{url}"{since}}}}}]}}}}
taskGroups: {{shelf: {{page: {{dataDef: page}}}}, detail: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{path: {{selector: h1}}, text: {{selector: p}}}}
    links: [{{selector: a, linkGroup: detail}}]
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
OLD = "2020-01-01"


def sitemap(site: Site, dates: Mapping[str, str], nested: str = "") -> Page:
    entries = "".join(
        f"<url><loc>{site.url(path)}</loc>{f'<lastmod>{date}</lastmod>' if date else ''}</url>"
        for path, date in dates.items()
    )
    index = f"<sitemap><loc>{site.url(nested)}</loc><lastmod>{OLD}</lastmod></sitemap>" if nested else ""
    return Page(f"<urlset>{entries}{index}</urlset>", headers={"Content-Type": "application/xml"})


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def fill(site: Site, paths: Mapping[str, str], text: str) -> None:
    for path in paths:
        site[path] = html(f"<h1>{path}</h1><p>{text}</p>")


def texts(project: Project) -> dict[str, str]:
    return {row["path"]: row["text"] for row in project.rows("page")}


def write_defs(project: Project, site: Site, since: str = ", since: lastRun") -> None:
    project.write(DEFS.format(url=site.url("/map.xml"), since=since))


def asked(site: Site) -> list[str]:
    """The pages that were asked for since the last call."""
    paths = sorted(path for path in site.paths if not path.endswith(".xml"))
    site.clear_log()
    return paths


@pytest.mark.quick
def test_only_pages_that_were_modified_are_asked_for_and_all_have_rows(project: Project, site: Site) -> None:
    write_defs(project, site)
    dates = {f"/p/{number}": OLD for number in range(40)} | {"/undated": "", "/junk": "soon", "/wrong": "0001-01-01"}
    dates |= {"/future": "2999-01-01", "/today": stamp(time.time())[:10], "/broken": OLD, "/gone": OLD, "/changes": OLD}
    nested = {"/n/1": OLD, "/n/2": OLD}
    site["/map.xml"], site["/nested.xml"] = sitemap(site, dates, "/nested.xml"), sitemap(site, nested)
    fill(site, dates | nested, "first")
    site["/broken"], site["/gone"] = Page(status=400), Page(status=404)
    site["/p/1"] = html('<h1>/p/1</h1><p>first</p><a href="/linked">a page that no sitemap names</a>')
    fill(site, {"/linked": ""}, "first")
    project.crawl(code=1)
    first = texts(project)
    assert set(first.values()) == {"first"}
    assert len(asked(site)) == len(dates | nested) + 1

    fill(site, dates | nested | {"/linked": ""}, "second")
    dates |= {"/changes": stamp(time.time()), "/new": OLD}
    nested |= {"/n/3": OLD}
    fill(site, {"/new": "", "/n/3": ""}, "second")
    site["/map.xml"], site["/nested.xml"] = sitemap(site, dates, "/nested.xml"), sitemap(site, nested)
    time.sleep(1.1)  # a time without fractions is over when its second is
    project.crawl()
    again = {"/undated", "/junk", "/wrong", "/future", "/today", "/broken", "/gone", "/changes", "/linked"}
    again |= {"/new", "/n/3"}
    assert site.count("/nested.xml") == 1, "a file that an index names is read whatever its date"
    assert asked(site) == sorted(again)
    second = texts(project)
    assert second == dict.fromkeys(first, "first") | dict.fromkeys(again, "second")

    # what was asked for in the second run is younger than its date now
    project.crawl()
    assert asked(site) == sorted({"/undated", "/junk", "/wrong", "/future", "/today", "/linked"})
    assert texts(project) == second
    assert project.run_with_data("retry", "--state", "done", "--match", "/p/7$").code == 0
    project.crawl()
    assert asked(site) == ["/p/7"], "a retry asks for the page"
    assert texts(project) == second | {"/p/7": "second"}


@pytest.mark.sweep
def test_without_since_all_pages_are_asked_for_and_no_moment_is_stored(project: Project, site: Site) -> None:
    write_defs(project, site, "")
    dates = {f"/p/{number}": OLD for number in range(5)}
    site["/map.xml"] = sitemap(site, dates)
    fill(site, dates, "x")
    project.crawl()
    site.clear_log()
    project.crawl()
    assert asked(site) == sorted(dates)
    assert project.query("SELECT count(*) FROM jobs WHERE fresh_since IS NOT NULL") == [(0,)]
    write_defs(project, site)
    project.crawl()
    assert asked(site) == [], "the documents of runs without the key count"
    assert len(texts(project)) == 5


@pytest.mark.sweep
def test_a_large_sitemap_is_read_with_its_dates_in_an_extraction_process(project: Project, site: Site) -> None:
    write_defs(project, site)
    dates = {f"/p/{number}?{'x' * 300}": OLD for number in range(1500)}
    site.fallback = lambda request: Page(html(f"<h1>{request.path[:9]}</h1>"))
    site["/map.xml"] = sitemap(site, dates)
    project.crawl()
    assert len(asked(site)) == 1500
    changed = dict(list(dates.items())[700:703])
    site["/map.xml"] = sitemap(site, dates | dict.fromkeys(changed, stamp(time.time())))
    project.crawl()
    assert asked(site) == sorted(changed)
    assert len(project.rows("page")) == 1500
