"""A later run asks for stored pages with their ETag and date; those that are unchanged serve again, each row once."""

import json
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from email.utils import formatdate

import pytest

from tests.sample import sampled

from .killed_crawl import rerun_under_kills
from .library import Library
from .project import Project
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)


class Versions:
    """Pages with a version: a request that names the newest one gets 304."""

    def __init__(self, site: Site, *, dated: bool = False) -> None:
        self.site, self.dated = site, dated
        self.bodies: dict[str, str] = {}
        self.answers: list[tuple[str, int]] = []

    def __setitem__(self, path: str, body: str) -> None:
        self.bodies[path] = body
        self.site[path] = self._answer

    def _answer(self, request: Request) -> Page:
        body = self.bodies[request.path]
        if self.dated:
            modified = formatdate(1_700_000_000 + len(body), usegmt=True)
            fits, headers = request.headers.get("if-modified-since") == modified, {"Last-Modified": modified}
        else:
            etag = f'"{hash(body):x}"'
            fits, headers = request.headers.get("if-none-match") == etag, {"ETag": etag}
        status = 304 if fits else 200
        self.answers.append((request.path, status))
        return Page(b"" if fits else body, status=status, headers=headers)

    def take_statuses(self) -> Counter[int]:
        """How often each status was answered since the last call."""
        counts = Counter(status for _, status in self.answers)
        self.answers.clear()
        return counts


def versioned_library(site: Site, *, dated: bool = False) -> tuple[Library, Versions]:
    library, versions = Library(site), Versions(site, dated=dated)
    for path in library.pages:
        versions[path] = site.pages[path].content.decode()
    return library, versions


def defs_of(library: Library, keys: str = "revalidate: true") -> str:
    text = library.defs().replace("shelves: {list:", f"shelves: {{{keys}, list:")
    return text.replace("books: {page:", f"books: {{{keys}, page:")


def run_of(project: Project) -> int:
    return int(project.query("SELECT max(seq) FROM runs")[0][0])


@pytest.mark.parametrize("dated", sampled([False, True], 0))
def test_a_later_run_fetches_only_the_bodies_that_changed(project: Project, site: Site, dated: bool) -> None:
    library, versions = versioned_library(site, dated=dated)
    project.write(defs_of(library))
    project.crawl()
    assert versions.take_statuses() == {200: library.size}
    files = sorted(project.output("book.csv").read_bytes().splitlines())
    done = project.crawl()
    assert versions.take_statuses() == {304: library.size}
    assert done.jobs == {"done": library.size}
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(project.output("book.csv").read_bytes().splitlines()) == files
    assert project.query("SELECT count(*) FROM documents") == [(library.size,)]
    versions["/book/1-2"] = html("<b>ISBN changed</b>")
    project.crawl()
    assert versions.take_statuses() == {304: library.size - 1, 200: 1}, (
        "a version that was confirmed is asked for again"
    )
    expected = library.rows()
    del expected["book", "ISBN 001-2", site.url("/book/1-2")]
    expected["book", "ISBN changed", site.url("/book/1-2")] = 1
    assert project.count_rows("entry", "book") == expected


@pytest.mark.sweep
def test_an_edited_data_def_is_extracted_from_unchanged_pages(project: Project, site: Site) -> None:
    library, versions = versioned_library(site)
    project.write(defs_of(library))
    project.crawl()
    versions.take_statuses()
    project.write(defs_of(library).replace("isbn: {selector: b,", 'isbn: {selector: b, match: "ISBN (.*)",'))
    project.crawl()
    assert versions.take_statuses() == {304: library.size}
    assert sorted(row["isbn"] for row in project.rows("book")) == [f"{s:03d}-{b}" for s in range(4) for b in range(5)]


@pytest.mark.sweep
def test_rows_that_name_their_run_are_extracted(project: Project, site: Site) -> None:
    library, _ = versioned_library(site)
    project.write(defs_of(library).replace('"%{document.url}"', '"%{run.id}"'))
    project.crawl()
    first = {row["path"] for row in project.rows("book")}
    project.crawl()
    second = [row["path"] for row in project.rows("book")]
    assert len(second) == 20
    assert first.isdisjoint(second)


@pytest.mark.sweep
def test_a_page_behind_a_redirect_is_asked_for_at_its_own_url(project: Project, site: Site) -> None:
    versions = Versions(site)
    versions["/new"] = html("<b>one</b>")
    site["/old"] = Page(status=301, headers={"Location": "/new"})
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/old")}"}}]}}}}\n'
        "taskGroups: {g: {revalidate: true, t: {dataDef: d}}}\n"
        'dataDefs: {d: {fields: {x: {selector: b}, u: {value: "%{document.url}"}}}}\n'
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    for expected in (200, 304, 304):
        project.crawl()
        assert versions.take_statuses() == {expected: 1}
        assert [(row["x"], row["u"]) for row in project.rows("d")] == [("one", site.url("/new"))]
    conditions = [e.request.headers.get("if-none-match") for e in site.exchanges if e.path == "/old"]
    assert conditions == [None, None, None], "the redirect has no version"


def test_a_304_that_nobody_asked_for_is_no_page(project: Project, site: Site) -> None:
    site["/a"] = Page(status=304)
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        "taskGroups: {g: {revalidate: true, t: {dataDef: d}}}\n"
        'dataDefs: {d: {fields: {x: {selector: b}}}}\nhosts: {"127.0.0.1": {robots: false}}\n'
    )
    project.crawl(code=1)
    assert project.query("SELECT state, reason FROM jobs WHERE origin = 'locator'") == [
        ("FAILED", "HTTP 304 (not modified), though no version was named")
    ]
    project.crawl(code=1)
    assert site.count("/a") == 2


@pytest.mark.sweep
def test_an_etag_names_no_variable_of_ours(project: Project, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret-of-the-operator")
    versions = Versions(site)
    versions["/a"] = html("<b>one</b>")
    site["/a"] = lambda request: Page(html("<b>one</b>"), headers={"ETag": '"%{env.CANARY}"'})
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        "taskGroups: {g: {revalidate: true, t: {dataDef: d}}}\n"
        'dataDefs: {d: {fields: {x: {selector: b}}}}\nhosts: {"127.0.0.1": {robots: false}}\n'
    )
    project.crawl()
    project.crawl()
    assert len(site.exchanges) == 2
    assert all("secret-of-the-operator" not in str(e.request.headers) for e in site.exchanges)


@pytest.mark.sweep
def test_a_retry_fetches_the_page_anew(project: Project, site: Site) -> None:
    library, versions = versioned_library(site)
    project.write(defs_of(library))
    project.crawl()
    project.crawl()
    versions.take_statuses()
    project.run_with_data("retry", "--state", "done", "--match", "/book/1-2$")
    project.crawl()
    assert versions.answers == [("/book/1-2", 200)]
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.quick
@pytest.mark.parametrize("kind", [pytest.param("node", marks=pytest.mark.sweep), "several"])
def test_kills_while_pages_are_asked_for_again(project: Project, site: Site, kind: str) -> None:
    rng = random.Random(kind)
    library = Library(site, shelves=20, books=10)
    versions = Versions(site)
    for path in library.pages:
        versions[path] = site.pages[path].content.decode()
    project.write(defs_of(library))
    project.crawl()
    first = run_of(project)
    done_pages = f"SELECT count(*) FROM jobs WHERE run > {first} AND state = 'DONE'"
    rerun_under_kills(project, kind, rng, count=done_pages, until_at_most=100)
    assert run_of(project) == first + 1
    assert versions.take_statuses()[200] == library.size, "no body was fetched again"
    assert project.count_rows("entry", "book") == library.rows()


def test_recrawl_serves_what_is_not_due_and_adapts(project: Project, site: Site) -> None:
    library, versions = versioned_library(site)
    keys = "recrawl: {min: PT1S, max: PT1H}, revalidate: true"
    project.write(defs_of(library, keys))
    project.crawl()
    assert versions.take_statuses() == {200: library.size}
    with closing(sqlite3.connect(project.data / "crawl.db")) as db, db:
        db.execute("UPDATE documents SET recrawl_after = 600 WHERE url LIKE '%/book/%'")
    time.sleep(1.1)
    project.crawl()
    assert versions.take_statuses() == {304: 4}, "only the shelves are due"
    assert project.count_rows("entry", "book") == library.rows()
    assert project.query("SELECT DISTINCT recrawl_after FROM documents WHERE url LIKE '%/shelf/%'") == [(2.0,)]
    versions["/shelf/0"] = versions.bodies["/shelf/0"] + "<p>new</p>"
    time.sleep(2.1)
    project.crawl()
    assert versions.take_statuses() == {304: 3, 200: 1}
    [*_, (changed,)] = project.query("SELECT recrawl_after FROM documents WHERE url LIKE '%/shelf/0' ORDER BY id")
    assert changed == 1.0, "half of what it was"
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_each_group_keeps_its_own_live(project: Project, site: Site) -> None:
    for path in ("kept", "asked"):
        for number in range(10):
            site[f"/{path}/{number}"] = html(f"<b>{number}</b>")
    locators = [
        f'{group}: {{locators: [{{url: "{site.url(f"/{path}/")}{{0..9}}"}}]}}'
        for group, path in (("a", "kept"), ("b", "asked"))
    ]
    project.write(
        f"locatorGroups: {{{', '.join(locators)}}}\n"
        "taskGroups: {a: {live: P1D, t: {dataDef: d}}, b: {t: {dataDef: d}}}\n"
        'dataDefs: {d: {fields: {x: {selector: b}}}}\nhosts: {"127.0.0.1": {robots: false}}\n'
    )
    project.crawl()
    site.clear_log()
    project.crawl(nodes=1)
    assert sorted(site.paths) == sorted(f"/asked/{number}" for number in range(10))
    assert len(project.rows("d")) == 20


@pytest.mark.extended
def test_what_a_304_says_anew_is_what_is_asked_with_and_read(project: Project, site: Site) -> None:
    def answer(request: Request) -> Page:
        named, run = request.headers.get("if-none-match"), request.attempt
        fits = named == f'"{run - 1}"'
        headers = {"ETag": f'"{run}"', "Content-Type": "text/html", "X-Stock": f"<p>{run}</p>"}
        return Page(b"" if fits else html(f"<b>sent in {run}</b>"), status=304 if fits else 200, headers=headers)

    site["/a"] = answer
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        "taskGroups: {g: {revalidate: true, t: {dataDef: d}, u: {dataDef: e}}}\n"
        "dataDefs:\n  d: {fields: {x: {selector: b}}}\n"
        '  e: {query: {from: "header: X-Stock", as: html}, fields: {x: {selector: p}}}\n'
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    for run in range(1, 5):
        project.crawl()
        assert (project.rows("d"), project.rows("e")) == ([{"x": "sent in 1"}], [{"x": str(run)}])
    assert [e.request.headers.get("if-none-match") for e in site.exchanges] == [None, '"1"', '"2"', '"3"']
    shown = project.run_command("pages", "show", site.url("/a"), "--json")
    assert json.loads(shown.out)["headers"]["etag"] == '"4"'
