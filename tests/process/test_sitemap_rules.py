"""Sitemaps with rules, in a real crawl: filtered, routed to groups, and read again after an edit of the rules."""

import pytest

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{{sitemap: {{url: "{url}", {rules}}}}}]}}}}
taskGroups:
  shelf: {{page: {{dataDef: page}}}}
  detail: {{page: {{dataDef: page}}}}
dataDefs: {{page: {{fields: {{url: {{value: "%{{document.url}}"}}}}}}}}
hosts: {{"127.0.0.1": {{robots: false, delay: {delay}}}}}
"""


def urlset(site: Site, *paths: str) -> Page:
    entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
    return Page(f"<urlset>{entries}</urlset>", headers={"Content-Type": "application/xml"})


def index(site: Site, *paths: str) -> Page:
    entries = "".join(f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in paths)
    return Page(f"<sitemapindex>{entries}</sitemapindex>", headers={"Content-Type": "application/xml"})


def write_defs(project: Project, site: Site, rules: str, delay: float = 0.0) -> None:
    project.write(DEFS.format(url=site.url("/map.xml"), rules=rules, delay=delay))


def pages(project: Project) -> list[tuple[str, str]]:
    return project.query(
        "SELECT s.grp, replace(j.url, 'http://', '') FROM jobs j JOIN sequences s ON s.id = j.sequence"
        " WHERE s.kind = 'page' ORDER BY 1, 2"
    )


def test_entries_are_filtered_and_lead_into_their_groups(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html(request.path))
    site["/map.xml"] = index(site, "/old/nested.xml", "/more.xml")
    site["/old/nested.xml"] = urlset(site, "/p/1", "/old/p/2", "/s/1", "/about")
    site["/more.xml"] = urlset(site, "/p/1", "/p/3", "/s/2?x=1")
    write_defs(project, site, "deny: [/old/p], links: [{allow: [/p/], linkGroup: detail}, {allow: ['/s/']}]")
    done = project.crawl()
    host = f"127.0.0.1:{site.port}"
    assert pages(project) == [
        ("detail", f"{host}/p/1"), ("detail", f"{host}/p/3"), ("shelf", f"{host}/s/1"), ("shelf", f"{host}/s/2?x=1"),
    ]  # fmt: skip
    assert done.jobs["done"] == 4
    events = str(project.query("SELECT text FROM events"))
    assert "2 entries; 2 not followed, by the rules of the sitemap" in events
    assert max(site.count(path) for path in site.paths) == 1


def test_an_edit_of_the_rules_reads_the_sitemap_again(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html(request.path))
    site["/map.xml"] = urlset(site, *(f"/p/{number}" for number in range(12)), "/q/1")
    write_defs(project, site, "allow: [/p/], links: [{linkGroup: detail}]", delay=0.5)
    running = project.start()
    assert until(lambda: site.count("/p/0") == 1 or running.exited), running.err
    write_defs(project, site, "allow: [/p/, /q/], links: [{linkGroup: detail}]", delay=0.05)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert site.count("/map.xml") == 2
    assert len(pages(project)) == 13
    assert {site.count(path) for path in site.paths if path != "/map.xml"} == {1}


NAMED = """\
locatorGroups: {{shelf: {{locators: [{{sitemap: "{url}"}}]}}}}
taskGroups: {{shelf: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields:
      title: {{selector: p}}
      changed: {{value: "%{{sitemap.lastmod}}"}}
      headline: {{value: "%{{sitemap.news:title}}"}}
      picture: {{value: "%{{sitemap.image:loc}}"}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


@pytest.mark.quick
@pytest.mark.parametrize("many", [False, True], ids=["small", "large"])
def test_pages_know_what_their_entries_say(project: Project, site: Site, many: bool) -> None:
    """In an index; with other prefixes; with entries that say nothing; in a sitemap that a process reads."""
    site.fallback = lambda request: Page(html(f"<p>{request.path}</p>"))
    filler = f"<!-- {'x' * 100} -->" * (5_000 if many else 0)
    site["/map.xml"] = index(site, "/news.xml")
    site["/news.xml"] = Page(
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        ' xmlns:n="http://www.google.com/schemas/sitemap-news/0.9"'
        ' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">'
        f"<url><loc>{site.url('/1')}</loc><lastmod>2026-02-01</lastmod>"
        f"<n:news><n:title>First &amp; best</n:title></n:news>"
        f"<image:image><image:loc>/i/1.jpg</image:loc></image:image><image:image><image:loc>/i/2.jpg</image:loc></image:image></url>"
        f"{filler}<url><loc>{site.url('/2')}</loc></url></urlset>",
        headers={"Content-Type": "application/xml"},
    )
    project.write(NAMED.format(url=site.url("/map.xml")))
    project.crawl()
    rows = sorted(project.rows("page"), key=lambda row: row["title"])
    assert rows == [
        {"title": "/1", "changed": "2026-02-01", "headline": "First & best", "picture": "/i/1.jpg"},
        {"title": "/2", "changed": "", "headline": "", "picture": ""},
    ]


def test_a_feed_says_of_its_pages(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html(f"<p>{request.path}</p>"))
    entry = f"<item><title>One</title><link>{site.url('/1')}</link><dc:creator>Ann</dc:creator></item>"
    site["/map.xml"] = Page(
        f'<rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>All</title>{entry}</channel></rss>',
        headers={"Content-Type": "application/rss+xml"},
    )
    project.write(
        NAMED.format(url=site.url("/map.xml")).replace("news:title", "title").replace("image:loc", "dc:creator")
    )
    project.crawl()
    assert project.rows("page") == [{"title": "/1", "changed": "", "headline": "One", "picture": "Ann"}]
