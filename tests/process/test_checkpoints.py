"""Checkpoints and metrics: interrupted steps are incomplete, a resume does the rest, sums are exact."""

import json
import signal
import threading
from typing import Any

import pytest

from .library import Library
from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

BEHIND_LOADER = ("parser", "filter", "appender")
STEPS = {
    "shelves/seeder", "shelves/loader", *(f"shelves/list/{step}" for step in BEHIND_LOADER),
    "books/loader", *(f"books/{task}/{step}" for task in ("page", "more") for step in BEHIND_LOADER),
}  # fmt: skip
KEYS = {
    "task", "step_name", "completed", "completed_at", "validation_status", "reason", "content_hash", "dependencies",
    "done", "failed", "open", "rows", "document_sum", "row_sum",
}  # fmt: skip


def state_file(project: Project) -> dict[str, dict[str, Any]]:
    """The current lines of state.jsonl by key; none before the run starts."""
    path = project.data / "state.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    assert all(set(line) == KEYS | {"group", "run"} for line in lines)
    return {key_of(line): line for line in lines}


def key_of(line: dict[str, Any]) -> str:
    return "/".join(line[name] for name in ("group", "task", "step_name") if line[name])


def final_state(project: Project) -> dict[str, dict[str, Any]]:
    """The same for a run that has ended; the `state` command must print the same lines."""
    result = project.run_with_data("state", "--json")
    assert result.code == 0, result.err
    assert [json.loads(line) for line in result.out.splitlines()] == list(state_file(project).values())
    return state_file(project)


def count_done(project: Project, site: Site) -> int:
    """Jobs done; 0 before the first request."""
    return int(project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]) if site.paths else 0


def completed_steps(steps: dict[str, dict[str, Any]]) -> set[str]:
    return {key for key, line in steps.items() if line["completed"]}


def assert_no_false_completion(project: Project) -> None:
    """No step is complete while its jobs are open or its output is behind."""
    open_groups = {
        row[0]
        for row in project.query(
            "SELECT DISTINCT s.grp FROM jobs j JOIN sequences s ON s.id = j.sequence"
            " WHERE j.state IN ('READY', 'TAKEN', 'INCOMPLETE')"
        )
    }
    behind = project.query("SELECT 1 FROM outputs WHERE dirty OR cursor < (SELECT max(id) FROM rows)")
    for group, step in project.query("SELECT grp, step_name FROM checkpoints WHERE completed"):
        if step != "seeder":
            assert group not in open_groups, (group, step)
            assert group != "books" or "shelves" not in open_groups
        if step == "appender" and group == "books":
            assert not behind


def library_with_gate(project: Project, site: Site) -> tuple[Library, threading.Event]:
    """A library with one book that does not answer until the event is set."""
    library = Library(site, shelves=2, books=3)
    hold = threading.Event()
    site["/book/1-1"] = Page(html("<b>ISBN 001-1</b>"), hold=hold)
    project.write(library.defs())
    return library, hold


def test_a_run_to_its_end_completes_every_step(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    project.write(library.defs())
    assert project.run_with_data("state").out.strip().endswith("no run yet: start one with `crawl-console run`")
    finished = project.crawl()
    steps = final_state(project)
    assert completed_steps(steps) == set(steps) == STEPS
    assert {line["validation_status"] for line in steps.values()} == {"valid"}
    assert {line["run"] for line in steps.values()} == {finished.summary["run"]}
    assert steps["books/loader"]["dependencies"] == ["shelves/loader"]
    assert steps["books/page/parser"]["dependencies"] == ["loader"]
    table = project.run_with_data("state").out
    assert "shelves" in table
    assert "yes" in table


@pytest.mark.sweep
def test_a_cancelled_run_leaves_interrupted_steps_incomplete_and_the_next_run_completes_them(
    project: Project, site: Site
) -> None:
    library, hold = library_with_gate(project, site)
    running = project.start("--grace", "0.5")
    assert until(lambda: count_done(project, site) == 7)
    assert until(lambda: "shelves/list/appender" in completed_steps(state_file(project))), (
        "finished steps are complete while the run continues"
    )
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    steps = final_state(project)
    assert completed_steps(steps) == {key for key in STEPS if key.startswith("shelves/")}
    for line in (line for line in steps.values() if line["group"] == "books"):
        assert line["reason"] == "cancelled by signal: 1 job left"
        assert line["validation_status"] == "provisional"
        assert line["completed_at"] is None
    assert_no_false_completion(project)
    (project.data / "state.jsonl").write_bytes(b"{damaged")
    hold.set()
    site.clear_log()
    project.crawl()
    assert site.paths == ["/book/1-1"], "complete steps are not repeated"
    after = final_state(project)
    assert completed_steps(after) == STEPS
    assert after["shelves/list/parser"] == steps["shelves/list/parser"], "complete entries are unchanged"
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_killed_run_leaves_its_steps_incomplete_with_the_reason(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.15)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: len(site.paths) > 6)
    running.send(signal.SIGTERM)
    running.send(signal.SIGINT)
    assert running.wait().code == 137
    steps = final_state(project)
    assert completed_steps(steps) == {"shelves/seeder"}
    assert all("killed by signal" in line["reason"] for key, line in steps.items() if key != "shelves/seeder")
    assert_no_false_completion(project)
    project.crawl()
    assert completed_steps(final_state(project)) == STEPS


@pytest.mark.parametrize("at", [0, 6])
def test_after_sigkill_of_the_supervisor_no_unfinished_step_is_complete(project: Project, site: Site, at: int) -> None:
    library, hold = library_with_gate(project, site)
    running = project.start()
    if at == 0:
        assert until(lambda: (project.data / "state.jsonl").exists())
    else:
        assert until(lambda: count_done(project, site) >= at)
    running.send(signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    assert_no_false_completion(project)
    steps = [json.loads(line) for line in (project.data / "state.jsonl").read_text("utf-8").splitlines()]
    assert all(line["group"] != "books" for line in steps if line["completed"])
    assert {key_of(line) for line in steps} == STEPS
    hold.set()
    project.crawl()
    assert completed_steps(final_state(project)) == STEPS
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_changed_defs_invalidate_dependent_steps_and_nothing_else(project: Project, site: Site) -> None:
    library, hold = library_with_gate(project, site)
    running = project.start("--grace", "0.5")
    assert until(lambda: "shelves/list/appender" in completed_steps(state_file(project)))
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    before = final_state(project)
    project.write(
        library.defs().replace('path: {value: "%{document.url}"}', 'path: {value: "%{document.url}", default: x}')
    )
    running = project.start("--grace", "0.5")
    assert until(lambda: state_file(project)["books/page/parser"]["validation_status"] == "invalid")
    steps = state_file(project)
    assert steps["books/page/parser"]["reason"] == "what it extracts changed with defs v2"
    assert steps["books/page/appender"]["reason"] == "depends on books/page/parser, which changed with defs v2"
    assert {key for key, line in steps.items() if line["validation_status"] == "invalid"} == {
        "books/page/parser", "books/page/filter", "books/page/appender",
    }  # fmt: skip
    assert {key: line for key, line in steps.items() if key.startswith("shelves/")} == {
        key: line for key, line in before.items() if key.startswith("shelves/")
    }
    hold.set()
    assert running.wait().code == 0
    assert completed_steps(final_state(project)) == STEPS


@pytest.mark.sweep
def test_new_locators_invalidate_dependent_steps_and_only_they_are_fetched(project: Project, site: Site) -> None:
    library, hold = library_with_gate(project, site)
    running = project.start("--grace", "0.5")
    assert until(lambda: "shelves/list/appender" in completed_steps(state_file(project)))
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    site["/more"] = html("<p>nothing here</p>")
    site.clear_log()
    hold.set()
    project.write(library.defs().replace("locators: [", f'locators: [{{name: more, url: "{site.url("/more")}"}}, '))
    project.crawl()
    assert sorted(site.paths) == ["/book/1-1", "/more"]
    steps = final_state(project)
    assert completed_steps(steps) == STEPS
    assert {line["validation_status"] for line in steps.values()} == {"valid"}


@pytest.mark.sweep
def test_counts_stand_in_the_file_while_the_run_continues(project: Project, site: Site) -> None:
    library, hold = library_with_gate(project, site)
    running = project.start()
    assert until(lambda: state_file(project).get("books/loader", {}).get("done") == 5)
    steps = state_file(project)
    assert {(s["done"], s["failed"], s["open"]) for key, s in steps.items() if key.startswith("books/")} == {(5, 0, 1)}
    assert steps["books/page/parser"]["rows"] == 5
    assert steps["books/page/parser"]["row_sum"] is None, "it is not complete"
    assert until(lambda: state_file(project)["shelves/list/parser"]["completed"])
    shelves = state_file(project)["shelves/list/parser"]
    assert (shelves["done"], shelves["open"], shelves["rows"]) == (2, 0, 6)
    assert len(shelves["row_sum"]) == len(shelves["document_sum"]) == 32
    hold.set()
    assert running.wait().code == 0
    steps = final_state(project)
    assert steps["shelves/list/parser"]["row_sum"] == shelves["row_sum"]
    assert {(s["done"], s["open"], s["rows"]) for key, s in steps.items() if key.startswith("books/")} == {(6, 0, 6)}
    assert library.size == 8


def test_the_metrics_equal_what_the_site_served(project: Project, site: Site) -> None:
    library = Library(site, shelves=3, books=4)
    refused = [0]

    def refuse_first(page: Page) -> Any:
        def respond(request: Request) -> Page:
            if request.attempt == 1:
                refused[0] += 1
                return Page("busy", status=503, headers={"Retry-After": "0"})
            return page

        return respond

    for path in ("/book/0-1", "/book/1-2", "/shelf/2"):
        site[path] = refuse_first(site.pages[path])
    site["/book/2-3"] = Page(status=404)
    project.write(library.defs(robots=True))
    site["/robots.txt"] = "User-agent: *\nAllow: /\n"
    running = project.start("--max-pages", "8")
    first = running.wait()
    assert first.code == 0, first.err
    second = project.crawl()
    assert second.summary["run"] == first.summary["run"]
    metrics = project.status()["metrics"]
    served = 0
    for path in {exchange.path for exchange in site.exchanges}:
        times = site.count(path)
        program = site.pages[path]
        for attempt in range(1, times + 1):
            request = Request(method="GET", path=path, headers={}, body=b"", attempt=attempt)
            page = program if isinstance(program, Page) else program(request)
            served += len(page.content)
    assert metrics["bytes"] == served
    assert metrics["retries"] == 3
    assert metrics["fetches"] == len(site.exchanges)
    groups = {group["group"]: group for group in metrics["groups"]}
    assert {name: group["done"] for name, group in groups.items()} == {"shelves": 3, "books": 11}
    assert groups["books"]["skipped"] == 1
    assert groups["books"]["retries"] == 2
    assert all(group["left"] == 0 for group in groups.values())
    assert metrics["success"] == 100.0
    assert metrics["takeovers"] == 0
    assert metrics["fetch_ms"] > 0
    assert metrics["seconds"] == second.summary["seconds"]
    assert abs(sum(share["share"] for share in metrics["shares"]) - 100) < 0.5
    assert "100.0 % success" in second.err
    assert "3 retries" in second.err


def test_a_dead_node_counts_as_a_takeover_and_its_lost_fetches_are_not_counted(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.3)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: len(site.paths) >= 8)
    assert project.run_with_data("kill", "n1").code == 0
    assert running.wait().code == 0
    metrics = project.status()["metrics"]
    assert metrics["takeovers"] == 1
    assert metrics["fetches"] == library.size, "a fetch whose result was lost with its node is not counted"
    assert metrics["retries"] == 0
    assert sum(group["done"] for group in metrics["groups"]) == library.size
