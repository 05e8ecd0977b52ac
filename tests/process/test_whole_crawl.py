"""A whole crawl as a user runs it: what the files hold, what the summary says, what the program ends with."""

import json
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from .house import House, read_csv, until
from .library import Library
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

SUMMARY = {
    "run", "state", "exit_code", "seconds", "pages_per_s", "jobs", "rows", "appenders", "nodes", "defs_version"
}  # fmt: skip
JOBS = {"done", "failed", "skipped", "incomplete", "ready", "taken"}


def test_lists_and_details_give_exact_rows(house: House, site: Site) -> None:
    library = Library(site)
    house.write(library.defs())
    done = house.crawl(nodes=2)
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    assert done.jobs == {"done": library.size}
    assert done.summary["rows"] == {"entry": 20, "book": 20}


def test_summary_is_one_line_with_exactly_its_names(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    done = house.crawl()
    assert done.out.count("\n") == 1, "one object on one line and nothing else on stdout"
    told = done.summary
    assert set(told) == SUMMARY
    assert set(told["jobs"]) == JOBS
    assert told["state"] == "DONE"
    assert told["exit_code"] == 0
    assert told["defs_version"] == 1
    assert 0 < told["seconds"] < done.seconds
    assert told["pages_per_s"] == pytest.approx(told["jobs"]["done"] / told["seconds"], rel=0.01)
    for appender in told["appenders"]:
        assert {"name", "rows", "bytes", "path", "backlog"} <= set(appender)
        assert appender["backlog"] == 0
        path = Path(appender["path"])
        assert appender["bytes"] == path.stat().st_size
        assert appender["rows"] == len(read_csv(path))
    for node in told["nodes"]:
        assert {"id", "role", "state", "heart", "done", "failed"} <= set(node)
        assert node["state"] == "TERMINATED"
    assert sum(node["done"] for node in told["nodes"]) == told["jobs"]["done"]


def test_summary_keys_of_lists_are_those_of_the_contract(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    told = house.crawl().summary
    assert {frozenset(a) for a in told["appenders"]} == {frozenset({"name", "rows", "bytes", "path", "backlog"})}
    assert {frozenset(n) for n in told["nodes"]} == {frozenset({"id", "role", "state", "heart", "done", "failed"})}


def test_every_datadef_has_a_file_with_its_header(house: House, site: Site) -> None:
    house.write(Library(site).defs())
    running = house.start()
    latest = house.data / "output" / "latest"
    running.wait()
    assert latest.is_symlink()
    assert sorted(path.name for path in latest.glob("[!.]*")) == ["book.csv", "entry.csv", "nothing.csv"]
    assert house.output("nothing.csv").read_bytes() == b"x,y\r\n"
    assert house.output("entry.csv").read_bytes().startswith(b"title,price\r\n")
    assert house.output("entry.csv").stat().st_mode & 0o777 == 0o600
    assert house.data.stat().st_mode & 0o777 == 0o700


def test_link_to_the_latest_run(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    first, second = house.crawl().summary["run"], house.crawl().summary["run"]
    assert first != second
    assert (house.data / "output" / "latest").resolve() == (house.data / "output" / second).resolve()
    assert (house.data / "output" / first / "book.csv").exists()


def test_outputs_of_every_kind_hold_the_same_rows(house: House, site: Site) -> None:
    library = Library(site)
    semicolons = "{type: csv, delimiter: ';', dataDefs: [book], path: semi.csv}"
    outputs = f"appenders: {{a: {{type: csv}}, b: {{type: jsonl}}, c: {{type: sqlite}}, d: {semicolons}}}\n"
    house.write(library.defs(more=outputs))
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
    lines = house.output("entry.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["title"] for line in lines) == sorted(row["title"] for row in house.rows("entry"))
    assert '"price":0.00' in "".join(lines), "decimals keep their digits"
    with sqlite3.connect(house.output("book.db")) as db:
        assert {row[1:] for row in db.execute("SELECT * FROM book")} == {
            tuple(row.values()) for row in house.rows("book")
        }
    db.close()
    assert house.output("semi.csv").read_bytes().startswith(b"isbn;path\r\n")


def test_failed_jobs_exit_1_and_max_failed_allows_them(house: House, site: Site) -> None:
    library = Library(site, shelves=1, books=4)
    site["/book/0-2"] = Page("no", 403)
    house.write(library.defs())
    done = house.crawl(code=1)
    assert done.summary["state"] == "DONE"
    assert done.summary["exit_code"] == 1
    assert done.jobs == {"done": 4, "failed": 1}
    assert house.crawl("--max-failed", "1").summary["exit_code"] == 0
    assert house.job(site.url("/book/0-2")) == {"state": "FAILED", "reason": "HTTP 403", "attempts": 1}


def test_a_done_run_is_not_resumed(house: House, site: Site) -> None:
    library = Library(site, shelves=1)
    house.write(library.defs())
    house.crawl()
    site.forget()
    house.crawl()
    assert sorted(site.paths) == sorted(library.pages), "a new run fetches all again: nothing is live"


def test_bare_program_without_a_terminal_runs_headless(house: House, site: Site) -> None:
    library = Library(site, shelves=1)
    house.write(library.defs())
    done = house.run("--defs", str(house.defs), "--data", str(house.data), seconds=30)
    assert done.code == 0, done.err
    assert house.counted("entry", "book") == library.rows()
    assert done.out == ""


def test_quiet_says_nothing_on_stderr(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    assert house.crawl("--progress", "quiet").err == ""


def test_what_an_earlier_process_did_is_no_pace_of_this_one(house: House, site: Site) -> None:
    library = Library(site, shelves=3, books=20)
    house.write(library.defs(concurrency=2))
    house.crawl("--max-pages", "50")
    for page in library.pages:
        told = site.pages[page]
        assert isinstance(told, Page)
        site[page] = replace(told, delay=0.5)
    lines = [json.loads(line) for line in house.crawl("--progress", "json").err.splitlines()]
    paces = [line["pages_per_s"] for line in lines if "pages_per_s" in line]
    assert paces
    assert max(paces) < 20, "two at once, two a second each"


def test_progress_as_json_stays_json_when_it_is_stopped(house: House, site: Site) -> None:
    library = Library(site, shelves=5, delay=0.3)
    house.write(library.defs(concurrency=1))
    running = house.start("--progress", "json")
    assert until(lambda: len(site.paths) > 2)
    running.send(signal.SIGINT)
    done = running.wait()
    assert done.code == 130
    assert all(json.loads(line)["jobs"] for line in done.err.splitlines())


def test_progress_as_json_is_json(house: House, site: Site) -> None:
    house.write(Library(site, shelves=6, delay=0.2).defs())
    lines = house.crawl("--progress", "json").err.splitlines()
    assert len(lines) >= 2
    assert all(set(json.loads(line)) >= {"state", "jobs", "rows"} for line in lines)


def test_pages_of_a_large_site_are_all_there_once(house: House, site: Site) -> None:
    library = Library(site, shelves=30, books=30)
    house.write(library.defs(concurrency=32))
    house.crawl(nodes=3)
    assert house.counted("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


def test_links_in_a_ring_are_one_job_a_page(house: House, site: Site) -> None:
    count = 60
    for number in range(count):
        links = "".join(f'<a href="/{(number + step) % count}#f{step}">x</a>' for step in range(count))
        site[f"/{number}"] = html(links)
    house.write(
        f"""\
locatorGroups: {{ring: {{locators: [{{url: "{site.url("/0")}"}}]}}}}
taskGroups: {{ring: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}, depth: {{value: "%{{depth}}", type: int}}}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: 64}}}}
"""
    )
    house.crawl()
    assert sorted(site.paths) == sorted(f"/{n}" for n in range(count))
    assert sorted(row["depth"] for row in house.rows("page")) == ["0"] + ["1"] * (count - 1)
