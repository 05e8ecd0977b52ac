"""Two stores told apart by a cookie: with `cookieScope` each has its own pages, however they are led to."""

import random
import time
from collections import Counter

import pytest

from .killed_crawl import kill
from .project import Project, until
from .site import Page, Request, Site, html, redirect

pytestmark = pytest.mark.timeout(150)
STORES = ("north", "south")
PAGES = 6
NEXT = "next: {url: '%{n}', n: 'xpath://a[@class=\"next\"]/@href'}"


def store_of(request: Request) -> str:
    return request.headers.get("cookie", "store=none").partition("=")[2]


def shelf(request: Request, inner: str = "") -> str:
    """A page of a store, which names it."""
    return html(f"<h1>{store_of(request)}</h1><p class=p><b>{request.path}</b></p>{inner}")


def local(site: Site) -> str:
    """The same site at another origin."""
    return site.url("/").replace("127.0.0.1", "localhost")


def write(
    project: Project, site: Site, locator: str, *, lead: str = "", group: str = "", names: bool = True,
    delay: str = "0", fields: str = "", other: bool = False,
) -> None:  # fmt: skip
    """`locator`: the keys of both; `lead`: of the dataDef, how it leads on."""
    locators = ", ".join(
        f"{{{f'name: {store}, ' if names else ''}{locator}, cookies: {{store: {store}}}, cookieScope: group}}"
        for store in STORES
    )
    project.write(
        f"baseUrl: {site.url('/')}\n"
        f"locatorGroups:\n  g: {{locators: [{locators}]}}\n"
        + (f'  other: {{locators: [{{url: "{local(site)}seen"}}]}}\n' if other else "")
        + f"taskGroups:\n  g: {{{group}page: {{dataDef: item}}}}\n"
        + ("  other: {page: {dataDef: other}}\n" if other else "")
        + "dataDefs:\n  item:\n    query: {block: .p}\n"
        f"    fields: {{shown: {{selector: h1, scope: page}}, at: {{selector: b}}{fields}}}\n    {lead}\n"
        + ("  other: {fields: {shown: {selector: h1}, at: {selector: b}}}\n" if other else "")
        + f'hosts: {{"127.0.0.1": {{robots: false, concurrency: 4, delay: {delay}}}}}\n'
    )


def rows_of(project: Project, data_def: str = "item") -> Counter[tuple[str, str]]:
    return Counter((row["shown"], row["at"]) for row in project.rows(data_def))


def expected(*paths: str) -> Counter[tuple[str, str]]:
    return Counter((store, path) for store in STORES for path in paths)


def linked(request: Request) -> Page:
    """Page n leads to the next one and back to the first."""
    number = int(request.path.rpartition("/")[2])
    more = f"<a class=next href=/l/{number + 1}>next</a>" if number < PAGES else ""
    return Page(shelf(request, f"<a href=/l/1>first</a>{more}"), delay=0.05)


LISTED = [f"/l/{number}" for number in range(1, PAGES + 1)]


@pytest.mark.parametrize("lead", ["links: [{selector: a}]", NEXT], ids=["links", "next"])
@pytest.mark.parametrize("names", [True, False], ids=["named", "unnamed"])
@pytest.mark.extended
def test_links_and_next_stay_in_their_store(project: Project, site: Site, lead: str, names: bool) -> None:
    site.fallback = linked
    write(project, site, "url: /l/1", lead=lead, names=names)
    done = project.crawl()
    assert rows_of(project) == expected(*LISTED)
    assert len(site.paths) == 2 * PAGES, "a page is asked for once in each store"
    assert project.status()["warnings"] == []
    assert "shared-url" not in done.err
    project.crawl("--set", "live=P1D")
    assert len(site.paths) == 2 * PAGES, "a later run finds the document of each store"
    assert rows_of(project) == expected(*LISTED)
    assert project.run_command("retry", "--state", "done", "--match", "/l/3$").code == 0
    project.crawl()
    assert len(site.paths) == 2 * PAGES + 2
    assert rows_of(project) == expected(*LISTED)


@pytest.mark.extended
def test_series_sitemaps_and_canonical_pages(project: Project, site: Site) -> None:
    site.fallback = lambda request: (
        Page(shelf(request)) if int(request.path.rpartition("/")[2]) <= 3 else Page(html("none"))
    )
    write(project, site, 'url: "/s/{1..}", until: empty')
    project.crawl()
    assert rows_of(project) == expected("/s/1", "/s/2", "/s/3")

    def sitemap(request: Request) -> Page:
        root, inner = ("sitemapindex", "sitemap") if request.path == "/map.xml" else ("urlset", "url")
        targets = ["/part.xml"] if request.path == "/map.xml" else ["/l/1", "/l/2"]
        entries = "".join(f"<{inner}><loc>{site.url(target)}</loc></{inner}>" for target in targets)
        return Page(f"<{root}>{entries}</{root}>" if store_of(request) in STORES else "no", 200)

    site.clear_log()
    site["/map.xml"] = site["/part.xml"] = sitemap
    write(project, site, "sitemap: /map.xml")
    project.crawl()
    assert rows_of(project) == expected("/l/1", "/l/2")
    assert Counter(site.paths) == dict.fromkeys(["/map.xml", "/part.xml", "/l/1", "/l/2"], 2)

    site["/c"] = lambda request: Page(shelf(request, "<a href=/c/1>1</a><a href=/c/2>2</a>"))
    for path, target in (("/c/1", "/c/2"), ("/c/2", "/c/1")):  # each names the other one: one of them is kept
        site[path] = lambda request, target=target: Page(
            shelf(request), headers={"Link": f"<{target}>; rel=canonical", "Content-Type": "text/html"}
        )
    write(project, site, "url: /c", lead="links: [{selector: a}]", group="canonical: true, ")
    project.crawl()
    kept = [shown for shown, path in rows_of(project).elements() if path != "/c"]
    assert sorted(kept) == sorted(STORES)


@pytest.mark.extended
def test_cookies_stay_in_the_group_and_at_the_origin(project: Project, site: Site) -> None:
    other = local(site)
    site["/l/1"] = lambda request: Page(
        shelf(request, f"<a class=o href=/o>o</a><a class=g href=/r>r</a><a class=g href={other}far>far</a>")
    )
    site["/r"] = redirect(f"{other}gone")
    site.fallback = lambda request: Page(shelf(request))
    lead = "links: [{selector: a.g, sameHost: false}, {selector: a.o, linkGroup: other}]"
    write(project, site, "url: /l/1", lead=lead, other=True)
    project.crawl()
    assert rows_of(project, "other") == {("none", "/o"): 1, ("none", "/seen"): 1}
    assert rows_of(project) == expected("/l/1") + Counter({("none", "/far"): 1, ("none", "/gone"): 1})
    cookies = {(e.path, e.request.headers.get("cookie")) for e in site.exchanges}
    assert {cookie for path, cookie in cookies if path in ("/o", "/far", "/gone")} == {None}


@pytest.mark.extended
@pytest.mark.parametrize("seed", [1, 2])
def test_stores_stay_apart_while_nodes_are_killed_and_defs_are_edited(project: Project, site: Site, seed: int) -> None:
    site.fallback = linked
    lead = "links: [{selector: a}]"
    write(project, site, "url: /l/1", lead=lead, delay="PT0.1S")
    chance = random.Random(seed)
    running = project.start("--set", "max_attempts=20", nodes=2)
    for _ in range(3):
        assert until(lambda: len(site.paths) > 2 or running.exited)
        time.sleep(chance.uniform(0.05, 0.3))
        if pids := [*project.children("node"), running.pid]:
            kill(chance.choice(pids))
    if not running.exited:
        running.wait()
    write(project, site, "url: /l/1", lead=lead, fields=", twice: {selector: b}")
    project.crawl("--set", "max_attempts=20")
    assert rows_of(project) == expected(*LISTED)
    assert {row["twice"] for row in project.rows("item")} == set(LISTED)
    asked = len(site.paths)
    write(project, site, "url: /l/1", lead=lead, fields=", thrice: {selector: b}")
    extracted = project.run_command("extract", "item", "--defs", str(project.defs))
    assert extracted.code == 0, extracted.err
    assert rows_of(project) == expected(*LISTED)
    assert len(site.paths) == asked, "pages are found by the keys of their store"


@pytest.mark.extended
def test_seeds_with_the_cookie_in_a_column(project: Project, site: Site) -> None:
    site.fallback = linked
    (project.defs / "stores.csv").write_text("url,store\n" + "".join(f"{site.url('/l/1')},{s}\n" for s in STORES))
    project.write(
        "locatorGroups:\n  g:\n    locators:\n      - {from: {file: stores.csv}, cookieScope: group,"
        ' cookies: {store: "%{seed.store}"}}\n'
        "taskGroups: {g: {page: {dataDef: item}}}\n"
        "dataDefs: {item: {query: {block: .p}, links: [{selector: a}],"
        ' fields: {store: {value: "%{seed.store}"}, shown: {selector: h1, scope: page}, at: {selector: b}}}}\n'
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    project.crawl()
    assert rows_of(project) == expected(*LISTED)
    assert all(row["store"] == row["shown"] for row in project.rows("item"))


@pytest.mark.extended
def test_without_it_the_run_says_that_pages_are_shared(project: Project, site: Site) -> None:
    site.fallback = linked
    write(project, site, "url: /l/1", lead="links: [{selector: a.next}]")
    text = (project.defs / "crawl.yml").read_text().replace(", cookieScope: group", "")
    project.write(text)
    done = project.crawl()
    [warning] = [one for one in project.status()["warnings"] if one["code"] == "shared-url"]
    assert (warning["code"], warning["subject"] if "subject" in warning else site.url("/l/1")) == (
        "shared-url", site.url("/l/1")
    )  # fmt: skip
    assert "the locators north, south ask for" in warning["text"]
    assert "crawl.yml:" in done.err
    assert "shared-url" in done.err
