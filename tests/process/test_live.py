"""A later run extracts the rows of stored pages again and follows their links, without a request."""

import random
from collections import Counter
from typing import Any

import pytest

from .killed_crawl import rerun_under_kills
from .library import Library
from .project import Project
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

OUTPUTS = "appenders: {rows: {type: csv}, lines: {type: jsonl}}\n"


def defs_of(library: Library) -> str:
    """The library's defs with `live` in both groups."""
    text = library.defs(more=OUTPUTS).replace("shelves: {list:", "shelves: {live: P1D, list:")
    return text.replace("books: {page:", "books: {live: P1D, page:")


def run_of(project: Project) -> int:
    return int(project.query("SELECT max(seq) FROM runs")[0][0])


def page_events(project: Project, run: int) -> Counter[str]:
    """How the pages of a run were made: `stored` or `fetched`."""
    texts = [str(text) for (text,) in project.query(f"SELECT text FROM events WHERE run = {run} AND text LIKE '200 %'")]
    return Counter("stored" if text.split()[1] == "stored" else "fetched" for text in texts)


def outputs(project: Project) -> dict[str, list[bytes]]:
    folder = project.output("book.csv").parent
    return {path.name: sorted(path.read_bytes().splitlines()) for path in sorted(folder.iterdir())}


def health(project: Project, run: int) -> list[tuple[Any, ...]]:
    """What `status` says of the data of a run."""
    return [
        *project.query(f"SELECT data_def, rows, rejected FROM row_counts WHERE run = {run} ORDER BY 1"),
        *project.query(f"SELECT data_def, pages, records, rejected FROM health WHERE run = {run} ORDER BY 1"),
        *project.query(f"SELECT data_def, field, defaults, missing FROM field_health WHERE run = {run} ORDER BY 1, id"),
        *project.query(f"""SELECT sum(h.records), sum(h.rejected) FROM host_health h JOIN hosts o ON o.id = h.host
            WHERE o.run = {run} AND h.field = ''"""),
    ]


def test_a_second_run_has_the_same_rows_and_fetches_nothing(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library).replace("{dataDef: book}", "{dataDef: book, persist: {data: true}}"))
    project.crawl()
    first, files = run_of(project), outputs(project)
    site.clear_log()
    done = project.crawl()
    second = run_of(project)
    assert site.paths == [], "nothing was fetched"
    assert done.jobs == {"done": library.size}
    assert page_events(project, second) == {"stored": library.size}
    assert project.count_rows("entry", "book") == library.rows()
    assert outputs(project) == files
    assert health(project, second) == health(project, first)
    [(last, begin)] = project.query(
        f"SELECT max(id) FILTER (WHERE run = {first}), min(id) FILTER (WHERE run = {second}) FROM rows"
    )
    assert begin > last, "the rows have new ids"
    by_job = "SELECT count(*) FROM page_health p JOIN jobs j ON j.id = p.job WHERE j.run = "
    assert project.query(f"{by_job}{second}") == project.query(f"{by_job}{first}")


def test_rows_of_stored_pages_are_those_of_the_defs_in_force(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library))
    project.crawl()
    project.write(defs_of(library).replace("isbn: {selector: b,", 'isbn: {selector: b, match: "ISBN (.*)",'))
    site.clear_log()
    for _ in range(2):
        project.crawl()
        assert site.paths == []
        assert page_events(project, run_of(project)) == {"stored": library.size}
        isbns = sorted(row["isbn"] for row in project.rows("book"))
        assert isbns == [f"{s:03d}-{b}" for s in range(4) for b in range(5)]


@pytest.mark.sweep
def test_a_second_job_on_a_document_of_the_run_fetches_nothing(project: Project, site: Site) -> None:
    site["/a"] = Page(html('<b>one</b><a href="/a">itself</a>'))
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        "taskGroups: {g: {t: {dataDef: d}}, h: {t: {dataDef: d}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}, links: [{selector: a, linkGroup: h}]}}\n"
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    project.crawl()
    assert site.paths == ["/a"]
    assert [row["x"] for row in project.rows("d")] == ["one", "one"]
    assert page_events(project, run_of(project)) == {"fetched": 1, "stored": 1}
    assert project.query("SELECT count(*), count(DISTINCT job) FROM rows") == [(2, 2)]


@pytest.mark.sweep
def test_links_of_stored_pages_follow_the_rules_in_force(project: Project, site: Site) -> None:
    site["/a"] = Page(html('<b>one</b><a href="/b">next</a><a href="/c" rel="nofollow">last</a>'))
    site["/b"] = site["/c"] = Page(html("<b>leaf</b>"))
    text = (
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        "taskGroups: {g: {live: P1D, t: {dataDef: d}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}, links: [{selector: a}]}}\n"
        'hosts: {"127.0.0.1": {robots: false, nofollow: true}}\n'
    )
    project.write(text)
    project.crawl()
    assert sorted(site.paths) == ["/a", "/b"]
    project.write(text.replace("nofollow: true", "nofollow: false"))
    for expected in ({"stored": 2, "fetched": 1}, {"stored": 3}):
        project.crawl()
        assert page_events(project, run_of(project)) == expected
        assert [row["x"] for row in project.rows("d")].count("leaf") == 2
    assert sorted(site.paths) == ["/a", "/b", "/c"]


@pytest.mark.sweep
def test_large_and_deep_stored_pages_lead_on(project: Project, site: Site) -> None:
    """Pages of the extraction process; a link with `maxDepth` depends on the depth of its page."""
    large = "<p>text of a large page</p>" * 4_000
    site["/0"] = Page(html('<b>0</b><a href="/1">1</a><a href="/1">again</a>' + large))
    site["/1"] = Page(html('<b>1</b><a href="/2">2</a><a href="/0">0</a>' + large))
    site["/2"] = Page(html('<b>2</b><a href="/3">3</a>' + large))
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/0")}"}}]}}}}\n'
        "taskGroups: {g: {live: P1D, t: {dataDef: d}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}, links: [{selector: a, maxDepth: 2}]}}\n"
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    for expected in ({"fetched": 3}, {"stored": 3}):
        project.crawl()
        assert page_events(project, run_of(project)) == expected
        assert sorted(row["x"] for row in project.rows("d")) == ["0", "1", "2"]
    assert sorted(site.paths) == ["/0", "/1", "/2"]


@pytest.mark.sweep
def test_each_run_reports_the_rejected_records_of_stored_pages(project: Project, site: Site) -> None:
    library = Library(site)
    site["/book/0-0"] = Page(html("no number"))
    project.write(defs_of(library))
    project.crawl()
    first, rejections = run_of(project), "SELECT text FROM events WHERE kind = 'row' AND run = "
    project.crawl()
    second = run_of(project)
    assert page_events(project, second) == {"stored": library.size}
    assert health(project, second) == health(project, first)
    assert project.query(f"{rejections}{second}") == project.query(f"{rejections}{first}") != []


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["node", "several"])
def test_kills_while_stored_pages_are_extracted(project: Project, site: Site, kind: str) -> None:
    rng = random.Random(kind)
    library = Library(site, shelves=30, books=12)
    project.write(defs_of(library))
    project.crawl()
    first = run_of(project)
    new_rows = f"SELECT count(*) FROM rows WHERE run > {first}"
    rerun_under_kills(project, kind, rng, count=new_rows, until_at_most=200)
    second = run_of(project)
    assert second == first + 1
    assert project.count_rows("entry", "book") == library.rows()
    assert health(project, second) == health(project, first)
    assert page_events(project, second) == {"stored": library.size}
