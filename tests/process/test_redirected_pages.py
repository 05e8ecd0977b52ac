"""Pages that redirect to one: it is one page, whichever comes first, and whatever is killed."""

import random
from collections.abc import Callable

import pytest

from .killed_crawl import kill, victims
from .project import Project, until
from .shared_crawl import Part, shared
from .site import Page, Request, Site, html, redirect
from .verified_crawl import assert_exact_sums

pytestmark = pytest.mark.timeout(180)
SOLD_OUT = (2, 3, 5)
DEFS = """\
baseUrl: {base}
locatorGroups: {{shop: {{locators: [{locators}]}}}}
taskGroups: {{shop: {{{group}page: {{dataDef: tea}}}}{groups}}}
dataDefs:
  tea:
    fields: {{url: {{value: "%{{document.url}}"}}, name: {{selector: h1}}{fields}}}
    {links}
{more}hosts: {{"127.0.0.1": {{robots: false, concurrency: 4}}}}
"""
LINKS = 'links: [{selector: "a[href]"}]'


def text_of(site: Site, locators: str, *, group: str = "", links: str = "", **more: str) -> str:
    texts = {"groups": "", "fields": "", "more": ""} | more
    return DEFS.format(base=site.url(), locators=locators, group=group, links=links, **texts)


def shop(away: Callable[[], Page] = lambda: redirect("/")) -> Callable[[Request], Page]:
    """Products, of which some are sold out and lead to the front page."""

    def serve(request: Request) -> Page:
        if request.path == "/":
            return Page(html("<h1>front</h1>" + "".join(f"<a href='/p/{number}'>x</a>" for number in range(1, 7))))
        number = int(request.path.rpartition("/")[2])
        return away() if number in SOLD_OUT else Page(html(f"<h1>tea {number}</h1>"))

    return serve


TEAS = ["front", "tea 1", "tea 4", "tea 6"]
REASON = "redirects to a page of this run"


def names(rows: list[dict[str, str]]) -> list[str]:
    return sorted(row["name"] for row in rows)


@shared()
def test_a_page_to_which_several_redirect_is_one_row(site: Site) -> Part:
    site.fallback = shop()
    crawl = yield text_of(site, '{url: "/p/{1..6}"}')
    assert names(crawl.rows("tea")) == TEAS
    assert [(job["state"], job["reason"]) for job in crawl.all_jobs()] == [
        ("DONE", None), ("DONE", None), ("SKIPPED", REASON), ("DONE", None), ("SKIPPED", REASON), ("DONE", None),
    ]  # fmt: skip
    assert site.count("/") == 1


@shared()
def test_a_page_of_the_run_to_which_others_redirect(site: Site) -> Part:
    site.fallback = shop()
    crawl = yield text_of(site, "{url: /}", links=LINKS)
    assert names(crawl.rows("tea")) == TEAS
    assert crawl.jobs == {"done": 4, "skipped": 3}


@shared()
def test_pages_that_lead_on_by_themselves_redirect_too(site: Site) -> Part:
    site.fallback = shop(lambda: Page(html('<meta http-equiv=refresh content="0; url=/">')))
    crawl = yield text_of(site, '{url: "/p/{1..6}"}')
    assert names(crawl.rows("tea")) == TEAS
    assert crawl.jobs == {"done": 4, "skipped": 2}


@shared()
def test_pages_with_carried_values_keep_their_rows(site: Site) -> Part:
    site.fallback = shop()
    site["/list"] = Page(html("".join(f'<li data-sku="{n}"><a href="/p/{n}">x</a></li>' for n in range(1, 7))))
    crawl = yield text_of(
        site, "{url: /list}", group="list: {dataDef: item}, ", fields=', sku: {value: "%{carried.sku}"}',
        more="  item:\n    query: {block: li}\n    fields: {sku: {attribute: data-sku}}\n"
        "    links: [{selector: a, inBlock: true, linkGroup: detail, carry: [sku]}]\n",
        groups=", detail: {page: {dataDef: tea}}",
    )  # fmt: skip
    fronts = sorted(row["sku"] for row in crawl.rows("tea") if row["name"] == "front")
    assert fronts == ["2", "3", "5"]


@shared()
def test_a_group_may_skip_pages_that_redirect_where_nothing_leads(site: Site) -> Part:
    site.fallback = shop()
    crawl = yield text_of(site, '{url: "/p/{1..6}"}', group="redirects: linked, ")
    assert names(crawl.rows("tea")) == TEAS[1:]
    assert crawl.jobs == {"done": 3, "skipped": 3}


@shared()
def test_a_site_whose_pages_all_redirect_to_a_login_is_told(site: Site) -> Part:
    site.fallback = lambda request: Page(html("<h1>log in</h1>")) if request.path == "/login" else redirect("/login")
    crawl = yield text_of(site, '{url: "/p/{1..12}"}')
    assert names(crawl.rows("tea")) == ["log in"]
    text = f"11 pages of the group {crawl.prefix}shop redirect to {site.url('/login')}, and have no rows"
    assert ("redirected-pages", text) in [(w["code"], w["text"]) for w in crawl.project.status()["warnings"]]


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.quick), pytest.param(20, marks=pytest.mark.sweep)])
def test_redirected_pages_survive_kills(project: Project, site: Site, kills: int) -> None:
    """Chains of lists lead to products, of which most redirect to a few pages; lists are empty for a moment, too."""
    rng, lists = random.Random(kills), 2 * kills

    def serve(request: Request) -> Page:
        path, _, number = request.path.rpartition("/")
        page = int(number) if number.isdecimal() else 0
        if path == "/list":
            is_there = page <= lists and (page % 3 or request.attempt > 1)
            found = "".join(f"<a href='/p/{6 * page + n}'>x</a>" for n in range(6)) if is_there else ""
            return Page(html(f"<h1>list {page}</h1>{found}"), delay=0.05)
        if path == "/p":
            return Page(html(f"<h1>tea {page}</h1>"), delay=0.02) if page % 4 == 1 else redirect(f"/gone/{page % 3}")
        return Page(html(f"<h1>gone {page}</h1>"), delay=0.1)

    site.fallback = serve
    project.write(text_of(site, '{url: "/list/{1..}", until: empty}', links=LINKS))
    left = kills
    while True:
        running = project.start(nodes=2)
        while left and not running.exited:
            seen = len(site.paths)
            until(lambda seen=seen, running=running: len(site.paths) > seen + rng.randint(3, 12) or running.exited)
            if not running.exited:
                pids = victims(project, running, rng.choice(["node", "node", "supervisor"]), rng)
                kill(*pids)
                left -= len(pids)
        done = running.wait()
        if done.code == 0:
            break
        project.assert_no_process_left()
    project.assert_clean(done)
    assert_exact_sums(project)
    teas = [f"tea {number}" for number in range(6, 6 * lists + 6) if number % 4 == 1]
    assert names(project.rows("tea")) == sorted(
        [*teas, *(f"list {number}" for number in range(1, lists + 2)), "gone 0", "gone 1", "gone 2"]
    )
    first = "SELECT min(id) FROM jobs WHERE target = '{}'"
    for number in range(3):
        url = site.url(f"/gone/{number}")
        kept = project.query(f"SELECT id FROM jobs WHERE target = '{url}' AND state = 'DONE'")
        assert kept == project.query(first.format(url))
