"""Series, links and locators that lead to the same pages: each page counts once, and no series ends too early."""

import json
import urllib.parse

import pytest

from .project import Project, until
from .site import Page, Request, Site, html, redirect

pytestmark = pytest.mark.timeout(120)

DEFS = """\
baseUrl: {base}
locatorGroups: {{list: {{locators: [{locator}]}}}}
taskGroups: {{list: {{{group}page: {{dataDef: item}}{tasks}}}}}
dataDefs:
  item:
    query: {{block: .item}}
    fields: {{id: {{attribute: id}}}}
    {more}
  heading: {{query: {{block: h1}}, fields: {{text: {{selector: {heading}}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 8}}}}
"""


def write(project: Project, site: Site, locator: str, **parts: str) -> None:
    texts = {"group": "", "tasks": "", "more": "", "heading": "b"} | parts
    project.write(DEFS.format(base=site.url(), locator=locator, **texts))


def numbers(request: Request) -> dict[str, int]:
    return {name: int(value) for name, value in urllib.parse.parse_qsl(request.path.partition("?")[2])}


def page(chain: int, number: int, links: tuple[int, ...] = (), *, delay: float = 0.0) -> Page:
    pager = "".join(f'<a class="pager" href="/l?c={chain}&p={other}">{other}</a>' for other in links)
    rows = f'<h1><b>b</b><i>i</i></h1><p class="item" id="{chain}-{number}">x</p>' if number <= 6 else ""
    return Page(html(rows + (pager if rows else "")), delay=delay)


def ids(project: Project) -> list[str]:
    return sorted(row["id"] for row in project.rows("item"))


@pytest.mark.parametrize("nodes", [1, 3])
def test_pager_links_into_many_series(project: Project, site: Site, nodes: int) -> None:
    def serve(request: Request) -> Page:
        at = numbers(request)
        links = tuple(at["p"] + step for step in (1, 2, 3) if at["p"] + step <= 6)
        return page(at["c"], at["p"], links, delay=(at["c"] * 7 + at["p"] * 3) % 5 / 200)

    site.fallback = serve
    write(project, site, '{url: "/l?c={1..25}&p={1..}", until: empty}', more="links: [{selector: .pager}]")
    project.crawl(nodes=nodes)
    assert ids(project) == sorted(f"{chain}-{number}" for chain in range(1, 26) for number in range(1, 7))
    assert max(site.count(path) for path in site.paths if not path.endswith("p=7")) == 1
    assert project.query("SELECT DISTINCT state, depth FROM jobs") == [("DONE", 0)]


@pytest.mark.sweep
def test_a_failed_page_that_joins_a_series_stays_failed(project: Project, site: Site) -> None:
    site.fallback = lambda request: page(1, numbers(request)["p"], (3, 4) if numbers(request)["p"] == 1 else ())
    site["/l?c=1&p=2"] = page(1, 2, delay=0.5)
    site["/l?c=1&p=3"] = Page(status=500)
    write(project, site, '{url: "/l?c=1&p={1..}", until: empty}', more="links: [{selector: .pager}]")
    project.crawl("--set", "max_attempts=1", code=1)
    assert ids(project) == ["1-1", "1-2", "1-4"]
    del site.pages["/l?c=1&p=3"]
    assert project.run_with_data("retry").code == 0
    project.crawl()
    assert ids(project) == [f"1-{number}" for number in range(1, 7)]


def test_a_page_of_another_locator_of_the_name_joins_the_series(project: Project, site: Site) -> None:
    site.fallback = lambda request: page(1, numbers(request)["p"])
    write(project, site, '{url: "/l?c=1&p=3"}, {url: "/l?c=1&p={1..}", until: empty}')
    project.crawl()
    assert ids(project) == [f"1-{number}" for number in range(1, 7)]
    assert site.count("/l?c=1&p=7") == 2
    assert len(site.paths) == 8


@pytest.mark.sweep
def test_an_edit_of_one_of_two_data_defs_changes_nothing_of_a_series(project: Project, site: Site) -> None:
    """The last page is repeated for ever: what tells is the blocks of all dataDefs, whichever are extracted again."""
    site.fallback = lambda request: page(1, min(3, numbers(request)["p"]))
    tasks = ", head: {dataDef: heading}"
    for heading in ("b", "i", "b"):
        write(project, site, '{url: "/l?c=1&p={1..}", until: empty}', tasks=tasks, heading=f'"{heading}"')
        if heading == "b" and not (project.data / "crawl.db").exists():
            project.crawl()
        else:
            done = project.run_with_data("extract", "--defs", str(project.defs), seconds=60)
            assert done.code == 0, done.err
        assert ids(project) == ["1-1", "1-2", "1-3"], heading
        assert [row["text"] for row in project.rows("heading")] == [heading[0]] * 3
        assert len(site.paths) == 4


def test_pages_behind_the_end_that_redirect_to_the_start(project: Project, site: Site) -> None:
    site.fallback = lambda request: (
        page(1, numbers(request)["p"]) if numbers(request)["p"] < 5 else redirect("/l?c=1&p=1")
    )
    write(project, site, '{url: "/l?c=1&p={1..}", until: empty}')
    project.crawl()
    assert ids(project) == [f"1-{number}" for number in range(1, 5)]


def test_a_link_and_next_to_one_page(project: Project, site: Site) -> None:
    def serve(request: Request) -> Page:
        number = numbers(request).get("p", 1)
        to = f"/l?p={number + 1}"
        return Page(html(f'<p class="item" id="{number}">x</p>' + (f'<a href="{to}">{to}</a>' if number < 5 else "")))

    site.fallback = serve
    next_page = 'links: [{selector: a}]\n    next: {url: "%{to}", to: a}'
    write(project, site, '{url: "/l?p=1"}', more=next_page)
    project.crawl()
    assert ids(project) == ["1", "2", "3", "4", "5"]


def test_what_check_says_where_series_cannot_work(project: Project, site: Site) -> None:
    for locator, parts, message in (
        ('{url: "/a#{1..}", until: empty}', {}, "not part of the URL that is sent"),
        ('{url: "/x{1..}/../b", until: empty}', {}, "not part of the URL that is sent"),
        ('{url: "/l?p={1..}", until: empty}', {"group": "canonical: true, "}, "would end the series"),
        (
            '{url: "/l?p={1..}", until: empty}', {"more": 'next: {url: "%{to}", to: a}'},
            "both lead to the page that follows",
        ),
        ('{url: "/l"}', {"more": 'links: [{selector: form, form: {q: "{a,b}"}}]'}, "expand in locators alone"),
        (
            '{url: "/l?p={1..}", until: empty}, {url: "/l?p={5..1}", until: empty}', {},
            "another locator with `until` has the name 'list'",
        ),
    ):  # fmt: skip
        write(project, site, locator, **parts)
        done = project.run_command("check", "--defs", str(project.defs))
        assert message in done.out + done.err, (locator, done.out, done.err)


CARRY = """\
baseUrl: {base}
locatorGroups: {{list: {{locators: [{{urls: [/l1, /l2]}}]}}}}
taskGroups: {{list: {{page: {{dataDef: item}}}}, detail: {{{canonical}page: {{dataDef: detail}}}}}}
dataDefs:
  item:
    query: {{block: .item}}
    fields: {{s: {{selector: {field}}}}}
    links: [{{selector: a, inBlock: true, linkGroup: detail, carry: s}}]
  detail: {{fields: {{s: {{value: "%{{carried.s}}"}}, url: {{value: "%{{document.url}}", match: "/[^/]*$"}}}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 8}}}}
"""


@pytest.mark.sweep
def test_values_that_change_follow_the_first_parent_or_go_away(project: Project, site: Site) -> None:
    def listing(name: str, delay: float) -> Page:
        blocks = (f'<p class="item"><b>b{name}-{n}</b><i>i{name}-{n}</i><a href="/x{n}">x</a></p>' for n in range(3))
        return Page(html("".join(blocks)), delay=delay)

    site["/l1"], site["/l2"] = listing("1", 0.6), listing("2", 0.0)
    site.fallback = lambda request: Page(html("detail"))
    for field, values in (
        ("b", ["b2-0", "b2-1", "b2-2"]), ("i", ["i2-0", "i2-1", "i2-2"]), (".none", ["", "", ""]),
        ("b", ["b2-0", "b2-1", "b2-2"]),
    ):  # fmt: skip
        project.write(CARRY.format(base=site.url(), field=field, canonical=""))
        if (project.data / "crawl.db").exists():
            assert project.run_with_data("extract", "--defs", str(project.defs), seconds=60).code == 0
        else:
            project.crawl()
        assert sorted(row["s"] for row in project.rows("detail")) == values, field
    assert len(site.paths) == 5


@pytest.mark.sweep
def test_values_pass_through_a_page_that_is_skipped_for_its_canonical_url(project: Project, site: Site) -> None:
    blocks = (f'<p class="item"><b>b{n}</b><i>i{n}</i><a href="/x{n}?ref=1">x</a></p>' for n in range(3))
    site["/l1"], site["/l2"] = html("".join(blocks)), html("")
    site.fallback = lambda request: Page(f'<head><link rel="canonical" href="{request.path.partition("?")[0]}"></head>')
    for field in ("b", "i"):
        project.write(CARRY.format(base=site.url(), field=field, canonical="canonical: true, "))
        if (project.data / "crawl.db").exists():
            assert project.run_with_data("extract", "--defs", str(project.defs), seconds=60).code == 0
        else:
            project.crawl()
        assert sorted(row["s"] + row["url"] for row in project.rows("detail")) == [f"{field}{n}/x{n}" for n in range(3)]


def test_canonical_urls_that_contradict_each_other_lose_no_page(project: Project, site: Site) -> None:
    def named(url: str) -> Page:
        return Page(f'<head><link rel="canonical" href="{url}"></head><p class="item" id="{url}">x</p>', delay=0.05)

    site["/a"] = redirect("/a?sid=1")
    site["/a?sid=1"] = named("/a")
    site["/x"], site["/y"] = named("/y"), named("/x")
    site["/token"] = Page(json.dumps({}), headers={"Content-Type": "application/json"})
    write(project, site, "{urls: [/a, /x, /y]}", group="canonical: true, ")
    project.crawl()
    kept = {row["id"] for row in project.rows("item")}
    assert "/a" in kept
    assert len(kept & {"/x", "/y"}) == 1
    assert until(lambda: project.query("SELECT count(*) FROM jobs WHERE state IN ('READY', 'TAKEN')") == [(0,)])
