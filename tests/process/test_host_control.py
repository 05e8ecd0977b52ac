"""An operator pauses a host, and sets its delay and concurrency, while the run goes on."""

from typing import Any

import pytest

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)


def host_row(project: Project) -> dict[str, Any]:
    rows: list[dict[str, Any]] = project.status()["hosts"]
    return rows[0]


def control(project: Project, *flags: str) -> str:
    result = project.run_with_data("host", "127.0.0.1", *flags)
    assert result.code == 0, result.err
    return result.out


def start(project: Project, site: Site, *, robots: bool = False, delay: float = 0.3) -> tuple[Library, Running]:
    library = Library(site, shelves=8, books=8, delay=delay)
    project.write(library.defs(concurrency=4, robots=robots))
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) >= 5 or running.exited), running.err
    return library, running


def finish(project: Project, running: Running, library: Library) -> None:
    control(project, "--reset")
    library.set_delay(0)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()


def test_a_paused_host_is_asked_nothing_until_it_is_resumed(project: Project, site: Site) -> None:
    library, running = start(project, site)
    assert "paused" in control(project, "--pause")
    assert until(lambda: host_row(project)["running"] == 0)
    requests = len(site.paths)
    assert not until(lambda: len(site.paths) > requests, 1.5)
    assert host_row(project)["paused"]
    why = project.run_with_data("jobs", "--state", "ready", "--why", "--limit", "1").out
    assert "paused by an operator" in why
    control(project, "--resume")
    assert until(lambda: len(site.paths) > requests)
    finish(project, running, library)


@pytest.mark.sweep
def test_concurrency_and_delay_outlive_a_reload_and_a_resume(project: Project, site: Site) -> None:
    library, running = start(project, site)
    answer = control(project, "--concurrency", "1", "--delay", "0.2")
    assert "delay 0.2 s, concurrency 1; the defs say delay 0 s, concurrency 4" in answer
    project.write(library.defs(concurrency=3))
    assert project.run_with_data("reload").code == 0
    assert project.run_with_data("cancel").code == 0
    running.wait()
    site.max_concurrent = 0
    before = len(site.paths)
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) >= before + 4), running.err
    row = host_row(project)
    assert (row["delay"], row["concurrency"]) == (0.2, 1)
    assert (row["operator_delay"], row["operator_concurrency"]) == (0.2, 1)
    assert site.max_concurrent == 1
    control(project, "--reset")
    row = host_row(project)
    assert (row["delay"], row["concurrency"], row["operator_delay"]) == (0, 3, None)
    finish(project, running, library)


@pytest.mark.sweep
def test_a_delay_never_goes_under_the_crawl_delay(project: Project, site: Site) -> None:
    site["/robots.txt"] = Page("User-agent: *\nCrawl-delay: 0.4\n", headers={"Content-Type": "text/plain"})
    _, running = start(project, site, robots=True, delay=0)
    assert "its robots.txt asks for 0.4 s" in control(project, "--delay", "0")
    assert host_row(project)["delay"] == 0.4
    assert project.run_with_data("cancel").code == 0
    running.wait()


@pytest.mark.sweep
def test_wrong_orders_are_refused(project: Project, site: Site) -> None:
    library, running = start(project, site)
    for arguments, message in (
        (["nowhere.example", "--pause"], "no host 'nowhere.example'"),
        (["127.0.0.1", "--delay", "90000"], "0<=x<=86400"),
        (["127.0.0.1", "--concurrency", "5000"], "1<=x<=1000"),
        (["127.0.0.1"], "nothing to change"),
        (["127.0.0.1", "--pause", "--resume"], "exclude each other"),
    ):
        result = project.run_with_data("host", *arguments)
        assert result.code == 2
        assert message in result.err
    finish(project, running, library)


@pytest.mark.sweep
def test_answers_are_counted_by_status_and_measured(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=6, delay=0.05)
    site["/book/0-0"] = Page("gone", status=404)
    isbn = html("<b>ISBN 000-1</b>")
    site["/book/0-1"] = lambda request: Page("busy", status=429) if request.attempt == 1 else Page(isbn)
    site["/book/0-2"] = Page("<h1>Out of order</h1>", status=500, headers={"X-Why": "the test"})
    site["/book/0-3"] = Page(drop="unanswered")
    project.write(library.defs(concurrency=4))
    done = project.crawl("--set", "max_attempts=2", code=1, nodes=1)
    row = host_row(project)
    assert row["answers"] == {"2xx": 11, "4xx": 1, "429": 1, "5xx": 2, "none": 2}
    assert 0.04 < row["p50"] <= row["p95"] < 2
    assert row["bytes"] == sum(group["bytes"] for group in project.status()["metrics"]["groups"])
    assert done.summary["jobs"]["failed"] == 2


@pytest.mark.sweep
def test_the_answer_of_a_failed_page_is_kept(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=3)
    site["/book/0-0"] = Page("<h1>Out of order</h1>" + "x" * 100_000, status=500, headers={"X-Why": "the test"})
    site["/book/0-1"] = Page("<h1>Not for you</h1>", status=403)
    project.write(library.defs())
    project.crawl("--set", "max_attempts=2", code=1, nodes=1)
    kept = project.query(
        "SELECT j.url, d.status, d.size, hex(d.key) FROM jobs j JOIN documents d ON d.id = j.document "
        "WHERE j.state = 'FAILED' ORDER BY j.url"
    )
    assert [(url[-3:], status, size, key) for url, status, size, key in kept] == [
        ("0-0", 500, 65_536, ""),
        ("0-1", 403, 20, ""),
    ]
    assert project.query("SELECT count(*) FROM failures") == [(2,)]
    site["/book/0-0"] = site["/book/0-1"] = Page(html("<b>ISBN 000-0</b>"))
    assert project.run_with_data("retry", "--match", 'reason:"HTTP 500"').out.startswith("1 job ")
    assert project.query("SELECT reason, jobs FROM failures") == [("blocked: HTTP 403 (2 attempts)", 1)]
    assert project.run_with_data("retry").out.startswith("1 job ")
    project.crawl(nodes=1)
    assert project.query("SELECT count(*) FROM failures") == [(0,)]
