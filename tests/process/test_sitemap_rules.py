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
