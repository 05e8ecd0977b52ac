"""A later run copies the rows of stored pages, follows their links, and extracts what has changed."""

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


def defs_of(library: Library, *tasks: str) -> str:
    """The library's defs with `live` in both groups; these tasks persist."""
    text = library.defs(more=OUTPUTS).replace("shelves: {list:", "shelves: {live: P1D, list:")
    text = text.replace("books: {page:", "books: {live: P1D, page:")
    for task, data_def in (("list", "entry"), ("page", "book"), ("more", "nothing")):
        if task in tasks:
            text = text.replace(
                f"{task}: {{dataDef: {data_def}}}", f"{task}: {{dataDef: {data_def}, persist: {{data: true}}}}"
            )
    return text


def run_of(project: Project) -> int:
    return int(project.query("SELECT max(seq) FROM runs")[0][0])


def page_events(project: Project, run: int) -> Counter[str]:
    """How the pages of a run were made: `copied`, `stored`, or `fetched`."""
    texts = [str(text) for (text,) in project.query(f"SELECT text FROM events WHERE run = {run} AND text LIKE '200 %'")]
    ways = [text.split()[1] for text in texts]
    return Counter(way if way in ("copied", "stored") else "fetched" for way in ways)


def outputs(project: Project) -> dict[str, list[bytes]]:
    folder = project.output("book.csv").parent
    return {path.name: sorted(path.read_bytes().splitlines()) for path in sorted(folder.iterdir())}


def health(project: Project, run: int) -> list[tuple[Any, ...]]:
    """What `status` says of the data of a run."""
    return [
        *project.query(f"SELECT data_def, rows, rejected FROM row_counts WHERE run = {run} ORDER BY 1"),
        *project.query(f"SELECT data_def, pages, records, rejected FROM health WHERE run = {run} ORDER BY 1"),
        *project.query(f"SELECT data_def, field, defaults, missing FROM field_health WHERE run = {run} ORDER BY 1, id"),
        *project.query(f"SELECT sum(records), sum(records_rejected) FROM hosts WHERE run = {run}"),
    ]


def test_a_second_run_copies_and_extracts_nothing(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library, "list", "page", "more"))
    project.crawl()
    first, files = run_of(project), outputs(project)
    site.clear_log()
    done = project.crawl()
    second = run_of(project)
    assert site.paths == [], "nothing was fetched"
    assert done.jobs == {"done": library.size}
    assert page_events(project, second) == {"copied": library.size}
    assert project.count_rows("entry", "book") == library.rows()
    assert outputs(project) == files
    assert health(project, second) == health(project, first)
    [(last, begin)] = project.query(
        f"SELECT max(id) FILTER (WHERE run = {first}), min(id) FILTER (WHERE run = {second}) FROM rows"
    )
    assert begin > last, "the rows have new ids"
    by_job = "SELECT count(*) FROM page_health p JOIN jobs j ON j.id = p.job WHERE j.run = "
    assert project.query(f"{by_job}{second}") == project.query(f"{by_job}{first}")


@pytest.mark.sweep
def test_without_persist_a_second_run_extracts(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library))
    project.crawl()
    project.crawl()
    assert page_events(project, run_of(project)) == {"stored": library.size}
    assert project.query("SELECT count(*) FROM row_sources") == [(0,)]
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_pages_of_an_edited_data_def_are_extracted(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(defs_of(library, "page", "more"))
    project.crawl()
    text = defs_of(library, "page", "more").replace("isbn: {selector: b,", 'isbn: {selector: b, match: "ISBN (.*)",')
    project.write(text)
    site.clear_log()
    project.crawl()
    run = run_of(project)
    assert site.paths == []
    assert page_events(project, run) == {"stored": library.size}, "`nothing` is copied, `book` extracted"
    assert sorted(row["isbn"] for row in project.rows("book")) == [f"{s:03d}-{b}" for s in range(4) for b in range(5)]
    project.crawl()
    assert page_events(project, run_of(project)) == {"copied": 20, "stored": 4}, "the new rows are copied"
    assert sorted(row["isbn"] for row in project.rows("book")) == [f"{s:03d}-{b}" for s in range(4) for b in range(5)]


def test_a_second_job_on_a_document_copies_within_the_run(project: Project, site: Site) -> None:
    site["/a"] = Page(html('<b>one</b><a href="/a">itself</a>'))
    task = "{t: {dataDef: d, persist: {data: true}}}"
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        f"taskGroups: {{g: {task}, h: {task}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}, links: [{selector: a, linkGroup: h}]}}\n"
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    project.crawl()
    assert site.paths == ["/a"]
    assert [row["x"] for row in project.rows("d")] == ["one", "one"]
    assert page_events(project, run_of(project)) == {"fetched": 1, "stored": 1}, (
        "the second group reads it for its links"
    )
    assert project.query("SELECT count(*), count(DISTINCT job) FROM rows") == [(2, 2)]
    assert project.query("SELECT count(*) FROM row_sources") == [(1,)]


@pytest.mark.sweep
def test_other_rules_for_links_read_the_page_and_copy_its_rows(project: Project, site: Site) -> None:
    site["/a"] = Page(html('<b>one</b><a href="/b">next</a><a href="/c" rel="nofollow">last</a>'))
    site["/b"] = site["/c"] = Page(html("<b>leaf</b>"))
    text = (
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/a")}"}}]}}}}\n'
        "taskGroups: {g: {live: P1D, t: {dataDef: d, persist: {data: true}}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}, links: [{selector: a}]}}\n"
        'hosts: {"127.0.0.1": {robots: false, nofollow: true}}\n'
    )
    project.write(text)
    project.crawl()
    assert sorted(site.paths) == ["/a", "/b"]
    project.write(text.replace("nofollow: true", "nofollow: false"))
    for expected in ({"stored": 2, "fetched": 1}, {"copied": 3}):
        project.crawl()
        assert page_events(project, run_of(project)) == expected
        assert [row["x"] for row in project.rows("d")].count("leaf") == 2
    assert sorted(site.paths) == ["/a", "/b", "/c"]
    sources = project.query(
        "SELECT count(*), count(*) FILTER (WHERE j.run = 1) FROM row_sources s JOIN jobs j ON j.id = s.job"
    )
    assert sources == [(3, 2)], "the rows of /a and /b are still those of the first run"


@pytest.mark.sweep
def test_links_of_large_pages_and_deep_ones_are_kept(project: Project, site: Site) -> None:
    """Pages of the extraction process; a link with `maxDepth` depends on the depth of its page."""
    large = "<p>text of a large page</p>" * 4_000
    site["/0"] = Page(html('<b>0</b><a href="/1">1</a><a href="/1">again</a>' + large))
    site["/1"] = Page(html('<b>1</b><a href="/2">2</a><a href="/0">0</a>' + large))
    site["/2"] = Page(html('<b>2</b><a href="/3">3</a>' + large))
    project.write(
        f'locatorGroups: {{g: {{locators: [{{url: "{site.url("/0")}"}}]}}}}\n'
        "taskGroups: {g: {live: P1D, t: {dataDef: d, persist: {data: true}}}}\n"
        "dataDefs: {d: {fields: {x: {selector: b}}, links: [{selector: a, maxDepth: 2}]}}\n"
        'hosts: {"127.0.0.1": {robots: false}}\n'
    )
    for expected in ({"fetched": 3}, {"copied": 3}):
        project.crawl()
        assert page_events(project, run_of(project)) == expected
        assert sorted(row["x"] for row in project.rows("d")) == ["0", "1", "2"]
    assert sorted(site.paths) == ["/0", "/1", "/2"]


@pytest.mark.sweep
def test_pages_with_a_rejected_record_are_extracted_again(project: Project, site: Site) -> None:
    library = Library(site)
    site["/book/0-0"] = Page(html("no number"))
    project.write(defs_of(library, "page", "more"))
    project.crawl()
    first, rejections = run_of(project), "SELECT text FROM events WHERE kind = 'row' AND run = "
    project.crawl()
    second = run_of(project)
    assert page_events(project, second) == {"copied": 19, "stored": 5}, "the shelves do not persist"
    assert health(project, second) == health(project, first)
    assert project.query(f"{rejections}{second}") == project.query(f"{rejections}{first}") != []


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [pytest.param("node", marks=pytest.mark.sweep), "several"])
def test_kills_while_rows_are_copied(project: Project, site: Site, kind: str) -> None:
    rng = random.Random(kind)
    library = Library(site, shelves=30, books=12)
    project.write(defs_of(library, "list", "page", "more"))
    project.crawl()
    first = run_of(project)
    copied_rows = f"SELECT count(*) FROM rows WHERE run > {first}"
    rerun_under_kills(project, kind, rng, count=copied_rows, until_at_most=200)
    second = run_of(project)
    assert second == first + 1
    assert project.count_rows("entry", "book") == library.rows()
    assert health(project, second) == health(project, first)
    assert page_events(project, second) == {"copied": library.size}
