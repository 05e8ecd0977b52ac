"""No page leads a crawl to an address that the defs do not name, and redirects stay where the defs allow."""

import html as entities
from collections.abc import Iterator

import pytest

from .library import ok
from .project import Project, until
from .shared_crawl import Crawled, Part, shared
from .site import Page, Site, html, redirect
from .trap import Trap, notations, trapping

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{locator}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}}}
    links: [{{selector: a.out, sameHost: false}}, {{selector: a.in}}]
hosts: {{{hosts}}}
"""


@pytest.fixture
def trap() -> Iterator[Trap]:
    with trapping("127.0.0.1") as trap:
        yield trap


def defs(*urls: str, hosts: str = "", sitemap: str = "") -> str:
    listed = ", ".join(f'"{url}"' for url in urls)
    locator = f"{{urls: [{listed}]}}" if urls else f'{{sitemap: "{sitemap}"}}'
    return DEFS.format(locator=locator, hosts=hosts)


def out(*urls: str) -> str:
    return "".join(f'<a class=out href="{entities.escape(url)}">x</a>' for url in urls)


def skipped_parts(crawl: Crawled) -> dict[str, str]:
    """The reason of each page of a test that was skipped, by URL; none of them was attempted."""
    jobs = [job for job in crawl.all_jobs() if job["state"] == "SKIPPED"]
    assert all(job["attempts"] == 0 for job in jobs)
    return {job["url"]: job["reason"] for job in jobs}


def skipped(project: Project) -> dict[str, str]:
    """The reason of each page or sitemap that was skipped, by URL; none of them was attempted."""
    rows = project.query(
        "SELECT j.url, j.reason, j.attempts FROM jobs j JOIN sequences s ON s.id = j.sequence "
        "WHERE j.state = 'SKIPPED' AND s.kind <> 'robots'"
    )
    assert all(attempts == 0 for _, _, attempts in rows)
    return {url: reason for url, reason, _ in rows}


@pytest.mark.quick
@shared()
def test_links_in_every_notation_connect_nowhere(site: Site, trap: Trap) -> Part:
    written = [*notations("127.0.0.1", trap.port), f"http://[::1]:{trap.port}/", f"http://localhost:{trap.port}/name"]
    site["/"] = html(out(*written))
    crawl = yield defs(site.url("/"))
    reasons = skipped_parts(crawl)
    assert crawl.jobs == {"done": 1, "skipped": len(reasons)}
    assert len(reasons) >= len(written) - 6, "some notations are the same URL"
    for url, reason in reasons.items():
        assert reason.startswith("address ") and reason.endswith(": {private: true}}"), (url, reason)
    assert trap.connections == []
    where = f"named = 0 AND key LIKE '%:{trap.port}'"
    robots = crawl.project.query(f"SELECT DISTINCT robots, robots_status FROM hosts WHERE {where}")
    assert robots == [("KNOWN", -1)]


def test_a_dot_behind_a_guarded_name_ends_the_run(project: Project, site: Site, trap: Trap) -> None:
    """Whether or not the name with a dot has an address: both are one host, which is asked for robots.txt once."""
    names = [f"http://localhost:{trap.port}/a", f"http://localhost.:{trap.port}/b", f"http://LOCALHOST..:{trap.port}/c"]
    for number, order in enumerate((names, names[::-1])):
        site[f"/{number}"] = html(out(*order))
    project.write(defs(site.url("/0"), site.url("/1")))
    done = project.start().wait()
    project.assert_clean(done)
    assert done.jobs["done"] == 2
    assert not project.query("SELECT 1 FROM jobs WHERE state NOT IN ('DONE', 'SKIPPED', 'FAILED')")
    assert trap.connections == []


@pytest.mark.quick
@shared()
def test_redirects_in_every_notation_connect_nowhere(site: Site, trap: Trap) -> Part:
    targets = [*notations("127.0.0.1", trap.port), f"http://localhost:{trap.port}/name"]
    for index, target in enumerate(targets):
        site[f"/{index}"] = redirect(_header(target))
    locators = [site.url(f"/{index}") for index in range(len(targets))]
    crawl = yield defs(*locators)
    assert crawl.jobs == {"skipped": len(targets)}
    for url, reason in skipped_parts(crawl).items():
        assert reason.startswith("address "), (url, reason)
    assert trap.connections == []
    assert len(site.paths) == len(targets), "none is retried"


def _header(url: str) -> str:
    """The URL as a server sends it: header bytes are latin-1 in this server, UTF-8 on the wire."""
    return url.encode().decode("latin-1")


def robots_redirected_to(site: Site, trap: Trap, host: str) -> Part:
    site["/robots.txt"] = redirect(f"http://{host}:{trap.port}/robots.txt")
    crawl = yield defs(site.url("/1"))
    assert crawl.jobs == {"failed": 1}
    assert site.paths == []
    query = (
        f"SELECT robots_status, robots_text LIKE 'address %' FROM hosts WHERE named = 1 AND key LIKE '%:{site.port}'"
    )
    assert crawl.project.query(query) == [(0, 1)]
    assert trap.connections == []


@pytest.mark.quick
@shared()
def test_a_robots_txt_redirected_to_a_guarded_address_closes_its_host(site: Site, trap: Trap) -> Part:
    yield from robots_redirected_to(site, trap, "127.0.0.1")


@pytest.mark.quick
@shared()
def test_a_robots_txt_redirected_to_a_guarded_name_closes_its_host(site: Site, trap: Trap) -> Part:
    yield from robots_redirected_to(site, trap, "localhost")


@pytest.mark.sweep
def test_sitemaps_connect_nowhere(project: Project, site: Site, trap: Trap) -> None:
    target = f"http://127.0.0.1:{trap.port}"
    name = f"http://localhost:{trap.port}"
    entries = "".join(f"<url><loc>{entities.escape(url)}</loc></url>" for url in (f"{target}/page", f"{name}/page"))
    site["/entries.xml"] = f"<urlset>{entries}</urlset>"
    site["/moved.xml"] = redirect(f"{target}/moved.xml")
    listed = (site.url("/entries.xml"), site.url("/moved.xml"), f"{target}/map.xml", f"{name}/map.xml")
    site["/map.xml"] = (
        "<sitemapindex>" + "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in listed) + "</sitemapindex>"
    )
    project.write(defs(sitemap=site.url("/map.xml")))
    project.crawl(code=1)  # no page was fetched
    reasons = skipped(project)
    assert set(reasons) == {
        f"{target}/page", f"{name}/page", site.url("/moved.xml"), f"{target}/map.xml", f"{name}/map.xml"
    }  # fmt: skip
    assert all(reason.startswith("address ") for reason in reasons.values())
    assert trap.connections == []


def test_a_locator_opens_its_port_and_private_opens_a_host(project: Project, site: Site, second_site: Site) -> None:
    site["/"] = html(out(second_site.url("/a"), f"http://localhost:{second_site.port}/b"))
    second_site.fallback = ok
    project.write(defs(site.url("/")))
    assert project.crawl().jobs == {"done": 1, "skipped": 2}
    assert second_site.exchanges == []
    project.write(defs(site.url("/"), hosts=f'"127.0.0.1:{second_site.port}": {{private: true}}'))
    assert project.crawl("--fresh").jobs == {"done": 2, "skipped": 1}
    assert [e.path for e in second_site.exchanges] == ["/robots.txt", "/a"]
    rules = (
        f'"127.0.0.1": {{private: true}}, "127.0.0.1:{second_site.port}": {{delay: 0}}, localhost: {{private: true}}'
    )
    project.write(defs(site.url("/"), hosts=rules))
    assert project.crawl("--fresh").jobs == {"done": 3}


def test_the_base_url_counts_as_written_in_the_defs(project: Project, site: Site, second_site: Site) -> None:
    site["/"] = html(out(second_site.url("/a")))
    second_site.fallback = ok
    project.write(defs(site.url("/")))
    assert project.crawl("--base-url", second_site.url("/")).jobs == {"done": 2}


def test_a_redirect_leaves_its_host_only_where_the_defs_allow_it(project: Project, site: Site) -> None:
    """`localhost` stands for another host: the rule comes before its address is asked for."""
    elsewhere = f"http://localhost:{site.port}/there"
    site["/to"] = site["/to-2"] = site["/to-3"] = redirect(elsewhere)
    large = html(f"<a class=in href=/to-2>x</a>{out('/to-3')}" + "<p>filler</p>" * 10_000)
    site["/"] = html(f"<a class=in href=/to>x</a><a class=in href=/large>x</a>{out('/free')}")
    site["/large"], site["/free"], site["/there"] = large, redirect(elsewhere), html("<b>x</b>")
    project.write(defs(site.url("/")))
    assert project.crawl().jobs == {"done": 2, "skipped": 4}
    reasons = skipped(project)
    strict = {url.rpartition("/")[2]: reason for url, reason in reasons.items() if reason.startswith("redirect")}
    assert set(strict) == {"to", "to-2"}
    assert strict["to"].startswith("redirect leaves 127.0.0.1 for localhost; ")
    assert {url.rpartition("/")[2] for url, reason in reasons.items() if reason.startswith("address")} == {
        "free",
        "to-3",
    }
    assert site.count("/there") == 0
    project.write(defs(site.url("/"), hosts="localhost: {private: true}"))
    assert project.crawl("--fresh").jobs == {"done": 3, "skipped": 3}, "four pages redirect to one"


@pytest.mark.sweep
def test_a_stored_page_obeys_the_rule_of_redirects(project: Project, site: Site) -> None:
    site["/"] = html("<a class=in href=/to>x</a>")
    site["/to"], site["/there"] = redirect(f"http://localhost:{site.port}/there"), html("<b>x</b>")
    stored = defs(site.url("/"), hosts="localhost: {private: true}").replace(
        "{pages: {page", "{pages: {live: P1D, page"
    )
    project.write(stored)
    assert project.crawl().jobs == {"done": 2}
    project.write(stored.replace("localhost: {private: true}", ""))
    assert project.crawl("--fresh").jobs == {"done": 1, "skipped": 1}
    assert next(iter(skipped(project).values())).startswith("redirect leaves")


@pytest.mark.quick
def test_a_host_that_is_allowed_during_the_run_is_crawled_after_its_robots_txt(
    project: Project, site: Site, second_site: Site
) -> None:
    held = Page(html("x"), delay=60)
    site["/"] = html(out(second_site.url("/a"), second_site.url("/no")) + "<a class=in href=/held>x</a>")
    site["/held"] = held
    second_site["/robots.txt"] = "User-agent: *\nDisallow: /no\n"
    second_site.fallback = ok
    project.write(defs(site.url("/")))
    running = project.start()
    assert until(lambda: site.count("/held") == 1)
    assert until(lambda: len(skipped(project)) == 2)
    assert second_site.exchanges == []
    project.write(defs(site.url("/"), hosts=f'"127.0.0.1:{second_site.port}": {{private: true}}'))
    assert until(lambda: second_site.count("/a") == 1)
    assert [e.path for e in second_site.exchanges] == ["/robots.txt", "/a"]
    assert until(lambda: [reason[:10] for reason in skipped(project).values()] == ["robots.txt"])
    site["/held"] = html("x")
    running.process.kill()
    running.wait()


@pytest.mark.quick
def test_a_storm_of_redirects_ends_without_a_connection(project: Project, site: Site, trap: Trap) -> None:
    def hop(number: int) -> str:
        host = "localhost" if number % 2 else "127.0.0.1"
        return f"http://{host}:{site.port}/hop/{number}"

    for number in range(6):
        site[f"/hop/{number}"] = redirect(hop(number + 1))
    site["/hop/6"] = redirect(f"http://0x7f.1:{trap.port}/")
    site["/"] = html(out(*(f"{hop(0)}" for _ in range(3))))
    project.write(defs(site.url("/"), hosts="localhost: {private: true}"))
    assert project.crawl().jobs == {"done": 1, "skipped": 1}
    assert next(iter(skipped(project).values())).startswith("address 127.0.0.1 is loopback")
    assert trap.connections == []


def test_try_may_fetch_what_the_operator_names_and_no_more(project: Project, site: Site, trap: Trap) -> None:
    site["/"] = html("<b>x</b>")
    site["/trap"] = redirect(f"http://127.0.0.1:{trap.port}/")
    project.write(defs("http://shop.example/"))
    where = ("--defs", str(project.defs))
    assert project.run_command("try", "page", site.url("/"), *where).code == 0
    refused = project.run_command("try", "page", site.url("/trap"), *where)
    assert refused.code == 1
    assert f'address 127.0.0.1 is loopback; to allow it: hosts: {{"127.0.0.1:{trap.port}"' in refused.err
    assert "robots.txt" not in refused.err
    assert trap.connections == []
    project.write(defs(f"http://127.0.0.1:{trap.port}/{{1..3}}"))
    assert project.run_command("try", "page", site.url("/trap"), *where).code == 0
    assert trap.connections
