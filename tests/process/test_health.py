"""How the records of each dataDef were filled: the counters agree with a full recount, whatever happened meanwhile."""

import os
import signal
from typing import Any

import pytest

from .library import Library
from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

_SUMS = """
SELECT data_def, count(*), sum(records), sum(rejected) FROM page_health p JOIN jobs j ON j.id = p.job
WHERE j.run = (SELECT max(seq) FROM runs) GROUP BY data_def
"""
_COUNTED = "SELECT data_def, pages, records, rejected FROM health WHERE run = (SELECT max(seq) FROM runs) AND pages"
_ROWS = "SELECT data_def, count(*) FROM rows WHERE run = (SELECT max(seq) FROM runs) GROUP BY data_def"
_PAGE_FIELDS = """
SELECT p.data_def, m.key, sum(m.value) FROM page_health p JOIN json_each(p.missing) m JOIN jobs j ON j.id = p.job
WHERE j.run = (SELECT max(seq) FROM runs) GROUP BY p.data_def, m.key
"""
_FIELDS = "SELECT data_def, field, missing FROM field_health WHERE run = (SELECT max(seq) FROM runs) AND missing"
_HOSTS = """
SELECT sum(e.records), sum(e.rejected) FROM host_health e JOIN hosts h ON h.id = e.host
WHERE h.run = (SELECT max(seq) FROM runs) AND e.field = ''
"""


def recount(project: Project) -> None:
    """Compare the counters with what they count, page by page and row by row."""
    counted = sorted(project.query(_COUNTED))
    assert counted == sorted(project.query(_SUMS))
    rows = dict(project.query(_ROWS))
    assert {data_def: records - rejected for data_def, _, records, rejected in counted if records - rejected} == rows
    assert sorted(project.query(_FIELDS)) == sorted(project.query(_PAGE_FIELDS))
    assert project.query(_HOSTS) == [
        (sum(records for _, _, records, _ in counted), sum(rejected for *_, rejected in counted))
    ]


def test_the_fields_of_a_healthy_crawl_are_full(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    project.write(library.defs())
    done = project.crawl()
    assert done.summary["rejected"] == {}
    assert done.summary["fields"] == {
        "book": {"isbn": {"filled": 6, "of": 6}},
        "entry": {"title": {"filled": 6, "of": 6}, "price": {"filled": 6, "of": 6}},
        "nothing": {"x": {"filled": 0, "of": 0}, "y": {"filled": 0, "of": 0}},
    }
    status = project.status()
    assert status["fields"] == done.summary["fields"]
    assert done.summary["warnings"] == status["warnings"]
    assert [(one["code"], one["text"]) for one in status["warnings"]] == [
        (
            "no-rows",
            "nothing: block `p.none` (defs/crawl.yml:20:20) matched no element on 6 pages; no `p` is there",
        )
    ]
    assert [(h["pages"], h["records"], h["rejected"]) for h in status["hosts"]] == [(8, 12, 0)]
    recount(project)


def warnings(summary: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [(warning["code"], warning["data_def"], warning["host"]) for warning in summary["warnings"]]


def healthy_defs(library: Library) -> str:
    """Without the dataDef that gives no row."""
    return library.defs().replace(", more: {dataDef: nothing}", "")


def test_rejected_records_count(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    text = healthy_defs(library)
    project.write(text.replace("isbn: {selector: b, required: true}", "isbn: {selector: u, required: true}"))
    done = project.crawl(code=1)
    assert done.summary["rejected"] == {"book": 6}
    assert done.summary["fields"]["book"] == {"isbn": {"filled": 0, "of": 6}}
    assert warnings(done.summary) == [("all-rejected", "book", None)]
    assert "WARNING every record of book was rejected (6)" in done.err
    assert "every record of book was rejected" in project.run_with_data("status").out
    recount(project)
    quiet = project.crawl("--fresh", "--progress", "quiet", code=1)
    assert "every record of book was rejected (6)" in quiet.err
    project.crawl("--fresh", "--max-rejected", "100%")  # whoever writes a limit is judged by that alone


def test_a_fifth_of_the_records_rejected_is_a_warning(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=5)
    site["/book/0-0"] = Page(html("<i>broken</i>"))
    project.write(healthy_defs(library))
    assert warnings(project.crawl().summary) == []
    site["/book/1-1"] = Page(html("<i>broken</i>"))
    done = project.crawl("--fresh")
    assert warnings(done.summary) == [("many-rejected", "book", None)]
    assert "WARNING 2 of 10 records of book were rejected: isbn was not filled in 2" in done.err


@pytest.mark.quick
def test_a_run_that_could_fetch_nothing_ends_with_1_and_the_reason(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    site["/robots.txt"] = "User-agent: *\nDisallow: /\n"
    project.write(healthy_defs(library).replace("robots: false", "robots: true"))
    done = project.crawl(code=1)
    assert site.paths == []
    assert warnings(done.summary) == [("nothing-fetched", None, None)]
    assert ": robots.txt disallows it (line 2: Disallow: /)" in done.summary["warnings"][0]["text"]


def test_a_rule_for_a_host_that_nobody_asked_is_a_warning(project: Project, site: Site) -> None:
    text = healthy_defs(Library(site, shelves=2, books=3)).replace("127.0.0.1", "localhost")
    more = "  localhots: {delay: 2}\n  localhost:1: {delay: 2}\n  cdn.example: {delay: 1}\n"
    project.write(text.replace("hosts:\n", f"hosts:\n{more}"))
    checked = project.run_command("check", str(project.defs))
    said = {line.partition("unused-host ")[2] for line in checked.err.splitlines() if "unused-host" in line}
    assert (checked.code, said) == (0, {
        "hosts.localhots: no locator names it; did you mean localhost?",
        f"hosts.localhost:1: no locator names it; did you mean localhost:{site.port}?",
    })  # fmt: skip
    done = project.crawl()
    assert {warning["text"] for warning in done.summary["warnings"]} == {
        "hosts.localhots: no request went to it; did you mean localhost?",
        f"hosts.localhost:1: no request went to it; did you mean localhost:{site.port}?",
        "hosts.cdn.example: no request went to it",
    }


def test_empty_fields_and_pages_without_rows_are_warnings(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=11)
    fields = "isbn: {selector: u}\n      name: {selector: u, default: x}"
    text = library.defs().replace("isbn: {selector: b, required: true}", fields)
    project.write(text.replace("p.none", "ul.none").replace("selector: i,", "selector: em,"))
    done = project.crawl()
    assert warnings(done.summary) == [
        ("empty-field", "book", None), ("empty-field", "entry", None), ("no-rows", "nothing", None)
    ]  # fmt: skip
    assert {warning["text"] for warning in done.summary["warnings"]} >= {
        "book.isbn was never filled in 22 records by `u` (defs/crawl.yml:17:24); no `u` is there",
        "entry.price was never filled in 22 records by `em` (defs/crawl.yml:11:25); no `em` is there",
        "nothing: block `ul.none` (defs/crawl.yml:21:20) matched no element on 22 pages; no `ul` is there",
    }  # fmt: skip


@pytest.mark.sweep
def test_a_host_that_fails_and_a_group_without_a_page_are_warnings(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=20)
    for book in range(8):
        site[f"/book/0-{book}"] = Page("no", 500)
    project.write(healthy_defs(library).replace("li a", "li a.none"))
    done = project.crawl()
    assert warnings(done.summary) == [("group-without-page", None, None)]
    assert "no rows" not in done.err
    project.write(healthy_defs(library))
    done = project.crawl("--fresh", "--max-failed", "8", "--set", "max_attempts=1")
    assert warnings(done.summary) == [("failing-requests", None, f"127.0.0.1:{site.port}")]


@pytest.mark.sweep
def test_a_site_that_gives_half_of_what_it_gave_before_is_a_warning(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=15)
    defs = healthy_defs(library)
    project.write(defs)
    before = project.crawl().summary
    project.crawl("--fresh", "--max-pages", "5")  # cut short: compared with nothing, and no measure for others
    for shelf in range(2):
        for book in range(8):
            site[f"/book/{shelf}-{book}"] = html("no book")
    project.write(defs.replace("isbn: {selector: b, required: true}", "isbn: {selector: b}"))
    now = project.crawl("--fresh").summary
    assert warnings(now) == [("less-filled", "book", None)]
    assert now["warnings"][0]["text"] == (f"book.isbn is filled in 47% of the records; in run {before['run']} in 100%")
    assert project.status()["warnings"] == now["warnings"]
    site["/shelf/0"] = html("closed")
    fewer = [one for one in warnings(project.crawl("--fresh").summary) if one[0] == "fewer-rows"]
    assert fewer == [("fewer-rows", "book", None), ("fewer-rows", "entry", None)]
    codes = [code for code, *_ in warnings(project.crawl("--fresh").summary)]
    assert "fewer-rows" not in codes, "the last complete run is the measure"


@pytest.mark.sweep
def test_a_selector_that_breaks_during_the_run_is_a_warning(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=500, delay=0.3)
    for book in range(200, 500):
        site[f"/book/0-{book}"] = Page(f"<u>new markup {book}</u>", delay=0.3)
    defs = healthy_defs(library)
    project.write(defs.replace("isbn: {selector: b, required: true}", "isbn: {selector: b}"))
    running = project.start()
    assert until(lambda: warnings(project.status()) == [("dropped-field", "book", None)], 30)
    assert until(lambda: "book.isbn was filled in " in running.err), "said while it runs"
    assert not running.exited
    done = running.wait()
    logged = [line for line in project.run_with_data("events", "--level", "warning").out.splitlines() if "isbn" in line]
    assert len(logged) == 1
    [warning] = done.summary["warnings"]
    assert warning["text"].startswith("book.isbn was filled in ")
    assert [alarm["text"] for alarm in project.status()["alarms"]] == [warning["text"]]
    assert not warning["ended"]
    assert f"WARNING {warning['text']}" in done.err
    assert warning["text"] in project.run_with_data("status").out


@pytest.mark.parametrize(("good", "books"), [(40, 100), (30, 60)])
def test_a_wall_with_another_text_each_time_is_a_warning_however_quick_the_run_is(
    project: Project, site: Site, good: int, books: int
) -> None:
    library = Library(site, shelves=1, books=books)
    given = 0

    def book(_: Request) -> Page:
        nonlocal given
        given += 1
        return Page(html("<b>ISBN 1</b>" if given <= good else f"<u>request {given * 7919} was rejected</u>"))

    for number in range(books):
        site[f"/book/0-{number}"] = book
    defs = healthy_defs(library)
    project.write(defs.replace("isbn: {selector: b, required: true}", "isbn: {selector: b}"))
    done = project.crawl()
    [warning] = [warning for warning in done.summary["warnings"] if warning["data_def"] == "book"]
    assert (warning["code"], warning["ended"]) == ("dropped-field", False)
    assert "book.isbn was filled in 100% of the records, and is empty since page " in warning["text"]
    assert f"WARNING {warning['text']}" in done.err


def test_the_second_selector_of_a_list_that_takes_over_is_a_warning(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=60)
    given = 0

    def book(_: Request) -> Page:
        nonlocal given
        given += 1
        return Page(html(f"<{'b' if given <= 30 else 'u'}>ISBN {given}</{'b' if given <= 30 else 'u'}>"))

    for number in range(60):
        site[f"/book/0-{number}"] = book
    defs = healthy_defs(library)
    project.write(defs.replace("isbn: {selector: b, required: true}", "isbn: {selector: [b, u], required: true}"))
    done = project.crawl()
    assert done.summary["fields"]["book"] == {"isbn": {"filled": 60, "of": 60}, "isbn[1]": {"filled": 30, "of": 60}}
    [warning] = done.summary["warnings"]
    assert (warning["code"], warning["data_def"], warning["ended"]) == ("dropped-field", "book", False)
    assert "book.isbn[1] was filled in 100% of the records, and is empty since page " in warning["text"]
    assert warning["text"] in project.run_with_data("status").out
    recount(project)
    rows = sorted(row["isbn"] for row in project.rows("book"))
    site.clear_log()
    project.write(defs.replace("isbn: {selector: b, required: true}", "isbn: {selector: [i, u, b], required: true}"))
    assert project.run_with_data("extract").code == 0
    assert (site.paths, sorted(row["isbn"] for row in project.rows("book"))) == ([], rows)
    assert project.status()["fields"]["book"] == {
        "isbn": {"filled": 60, "of": 60}, "isbn[1]": {"filled": 0, "of": 60}, "isbn[2]": {"filled": 30, "of": 60},
    }  # fmt: skip
    recount(project)
    tried = project.run_with_data("try", "book", site.url("/shelf/0"), "--defs", str(project.defs))
    assert "isbn" in tried.out + tried.err


@pytest.mark.sweep
def test_a_quiet_run_says_in_one_line_why_it_did_not_end_with_0(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=2)
    project.write(library.defs())
    assert project.crawl("--progress", "quiet").err == ""
    done = project.crawl("--fresh", "--progress", "quiet", "--min-rows", "99", code=1)
    [line] = done.err.splitlines()
    assert line.endswith(" ENDED, exit 1: 4 rows; expected at least 99 (min_rows)")
    run = project.status()["run"]["id"]
    assert f"run {run} ENDED, exit 1" in project.run_with_data("events", "--level", "warning").out


@pytest.mark.sweep
def test_runs_with_other_locators_are_not_compared(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=11)
    defs = healthy_defs(library)
    project.write(defs)
    project.crawl()
    project.write(defs.replace("/shelf/0", "/shelf/1"))
    assert warnings(project.crawl("--fresh").summary) == []


@pytest.mark.sweep
def test_pages_that_are_gone_are_a_warning(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=20)
    for book in range(8):
        site[f"/book/0-{book}"] = Page("gone", 410 if book else 404)
    project.write(healthy_defs(library))
    done = project.crawl()
    assert warnings(done.summary) == [("failing-requests", None, f"127.0.0.1:{site.port}")]
    assert done.summary["warnings"][0]["text"] == f"8 gone of 21 answers of 127.0.0.1:{site.port}"


def test_counters_agree_with_a_recount_after_kills_a_reload_and_a_retry(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=10, delay=0.05)
    full, empty = library.defs(concurrency=8), library.defs(concurrency=8).replace("selector: i,", "selector: u,")
    project.write(full)
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) > 15)
    os.kill(project.children("node")[0], signal.SIGKILL)
    assert until(lambda: len(site.paths) > 25)
    project.write(empty)
    assert until(lambda: project.status()["defs_version"] == 2)
    assert until(lambda: len(site.paths) > 40)
    running.process.kill()
    running.wait()
    assert until(lambda: not project.live_processes())  # they commit until they know
    recount(project)
    assert project.crawl().summary["fields"]["entry"] == {
        "title": {"filled": 60, "of": 60}, "price": {"filled": 0, "of": 60}
    }  # fmt: skip
    recount(project)
    library.set_delay(0)
    assert project.run_with_data("retry", "--state", "done", "--match", "/shelf/").code == 0
    assert project.status()["fields"]["entry"]["title"]["of"] == 0
    recount(project)
    project.write(full)
    done = project.crawl()
    assert done.summary["fields"]["entry"]["price"] == {"filled": 60, "of": 60}
    assert done.summary["fields"]["book"] == {"isbn": {"filled": 60, "of": 60}}
    assert project.count_rows("entry", "book") == library.rows()
    recount(project)


EXPECTED = "  book:\n    expect: {rows: 6, rejected: 50%, filled: {isbn: 98%}}\n    fields:"


def texts(summary: dict[str, Any]) -> list[str]:
    return [warning["text"] for warning in summary["warnings"] if warning["code"] == "expectation"]


@pytest.mark.sweep
def test_a_run_that_gives_what_is_expected_ends_with_0(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    project.write(healthy_defs(library).replace("  book:\n    fields:", EXPECTED))
    done = project.crawl("--min-rows", "12", "--max-rejected", "0%")
    assert done.summary["warnings"] == []


@pytest.mark.quick
def test_a_run_that_misses_what_is_expected_ends_with_1_and_says_what(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    site["/book/0-0"] = site["/book/1-1"] = Page(html("<i>broken</i>"))
    text = healthy_defs(library).replace("  book:\n    fields:", EXPECTED.replace("rows: 6", "rows: 5"))
    project.write(text)
    done = project.crawl("--min-rows", "11", "--max-rejected", "10%", code=1)
    missed = [
        "10 rows; expected at least 11 (min_rows)",
        "16.7 % of all records were rejected; expected at most 10% (max_rejected)",
        "book: 4 rows; expected at least 5",
        "book.isbn: filled in 66.7 % of the records; expected 98 %",
    ]
    assert (done.summary["state"], done.summary["exit_code"], texts(done.summary)) == ("DONE", 1, missed)
    assert warnings(done.summary) == [("many-rejected", "book", None), *[("expectation", None, None)] * 2,
                                      *[("expectation", "book", None)] * 2]  # fmt: skip
    assert all(f"WARNING {text}" in done.err for text in missed)
    assert texts(project.status()) == missed
    # a change of what is expected makes no stored page stale; the next run is judged by it
    project.write(text.replace("filled: {isbn: 98%}", "filled: {isbn: 60%}").replace("rows: 5", "rows: 4"))
    done = project.crawl("--fresh", "--max-rejected", "20%")
    assert texts(done.summary) == []


@pytest.mark.sweep
def test_a_run_that_a_limit_ended_is_judged_by_its_records_and_not_by_their_number(
    project: Project, site: Site
) -> None:
    library = Library(site, shelves=2, books=3)
    text = library.defs().replace("  book:\n    fields:", EXPECTED.replace("rows: 6", "rows: 100"))
    project.write(text)
    assert texts(project.crawl("--max-pages", "4", "--min-rows", "100").summary) == []
    project.write(text.replace("isbn: {selector: b, required: true}", "isbn: {selector: u, required: true}"))
    done = project.crawl("--fresh", "--max-pages", "5", code=1)
    assert texts(done.summary) == [
        "book: 100 % of the records were rejected; expected at most 50 %",
        "book.isbn: filled in 0 % of the records; expected 98 %",
    ]


@pytest.mark.parametrize(
    ("expect", "code", "said"),
    [
        ("{filled: {isbnn: 98%}}", "unknown-field", "unknown field 'isbnn' (did you mean 'isbn'?)"),
        ("{rejected: 0.5}", "bad-percentage", "'0.5' is not a percentage; write for example 98%"),
        ("{rejected: 101%}", "bad-percentage", "'101%' is not a percentage"),
        ("{row: 5}", "unknown-key", "did you mean 'rows'"),
        ("{rows: -1}", "", "defs/crawl.yml:16:20"),
    ],
)
def test_a_wrong_expectation_is_a_clear_error(project: Project, site: Site, expect: str, code: str, said: str) -> None:
    text = Library(site).defs().replace("  book:\n    fields:", f"  book:\n    expect: {expect}\n    fields:")
    project.write(text)
    done = project.run_command("check", "defs")
    assert done.code == 2
    assert code in done.err + done.out
    assert said in done.err + done.out


def test_a_wrong_share_on_the_command_line_is_a_usage_error(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    done = project.start("--max-rejected", "half").wait()
    assert done.code == 2
    assert "max_rejected cannot be 'half'\n  Use a percentage, such as 5%." in done.err


@pytest.mark.sweep
def test_seeds_that_were_empty_are_a_warning(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=1)
    text = healthy_defs(library).replace(
        "  shelves: {locators: [",
        "  books: {locators: [{name: a, from: none.txt}, {name: b, from: '-'}]}\n  shelves: {locators: [",
    )
    project.write(text)
    (project.folder / "defs" / "none.txt").write_text("# nothing today\n")
    done = project.crawl(stdin=b"")
    shown = [warning["text"] for warning in done.summary["warnings"]]
    assert shown == [
        f"no URL in {project.folder / 'defs' / 'none.txt'}, the seeds of the group books",
        "no URL in standard input, the seeds of the group books",
    ]
    (project.folder / "defs" / "none.txt").write_text(f"{site.url('/book/0-0')}\n")
    done = project.crawl("--fresh", stdin=f"{site.url('/book/0-0')}\n".encode())
    assert done.summary["warnings"] == []
