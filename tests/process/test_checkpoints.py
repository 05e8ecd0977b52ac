"""Checkpoints and figures of whole runs: what was cut is never complete, a resume does what is left, sums are true."""

import json
import signal
import threading
from typing import Any

import pytest

from .house import House, until
from .library import Library
from .site import Asked, Page, Site, html

pytestmark = pytest.mark.timeout(90)

STEPS = {
    *(f"shelves/{step}" for step in ("seeder", "loader", "parser", "filter", "appender")),
    *(f"books/{step}" for step in ("loader", "parser", "filter", "appender")),
}
KEYS = {"step_name", "completed", "completed_at", "validation_status", "reason", "content_hash", "dependencies"}


def shown(house: House) -> dict[str, dict[str, Any]]:
    """The lines of state.jsonl by GROUP/STEP, as they stand; none before the run is begun."""
    path = house.data / "state.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    assert all(set(line) == KEYS | {"group", "run"} for line in lines)
    return {f"{line['group']}/{line['step_name']}": line for line in lines}


def state(house: House) -> dict[str, dict[str, Any]]:
    """The same of a run that is over: it is what the command says, too."""
    told = house.order("state", "--json")
    assert told.code == 0, told.err
    assert [json.loads(line) for line in told.out.splitlines()] == list(shown(house).values())
    return shown(house)


def done(house: House, site: Site) -> int:
    """Jobs done; 0 before the first request."""
    return int(house.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")[0][0]) if site.paths else 0


def complete(told: dict[str, dict[str, Any]]) -> set[str]:
    return {key for key, line in told.items() if line["completed"]}


def check_true(house: House) -> None:
    """No step of the table is complete that the jobs and the outputs do not bear out."""
    open_groups = {
        row[0]
        for row in house.query(
            "SELECT DISTINCT s.grp FROM jobs j JOIN sequences s ON s.id = j.sequence"
            " WHERE j.state IN ('READY', 'TAKEN', 'INCOMPLETE')"
        )
    }
    behind = house.query("SELECT 1 FROM outputs WHERE dirty OR cursor < (SELECT max(id) FROM rows)")
    for group, step in house.query("SELECT grp, step_name FROM checkpoints WHERE completed"):
        if step != "seeder":
            assert group not in open_groups, (group, step)
            assert group != "books" or "shelves" not in open_groups
        if step == "appender" and group == "books":
            assert not behind


def held(house: House, site: Site) -> tuple[Library, threading.Event]:
    """A library one of whose books does not answer until it may."""
    library = Library(site, shelves=2, books=3)
    hold = threading.Event()
    site["/book/1-1"] = Page(html("<b>ISBN 001-1</b>"), hold=hold)
    house.write(library.defs())
    return library, hold


def test_a_run_to_its_end_completes_every_step(house: House, site: Site) -> None:
    library = Library(site, shelves=2, books=3)
    house.write(library.defs())
    assert house.order("state").out.strip().endswith("no run yet: start one with `crawl-console run`")
    ended = house.crawl()
    told = state(house)
    assert complete(told) == set(told) == STEPS
    assert {line["validation_status"] for line in told.values()} == {"valid"}
    assert {line["run"] for line in told.values()} == {ended.summary["run"]}
    assert told["books/loader"]["dependencies"] == ["shelves/loader"]
    assert told["books/parser"]["dependencies"] == ["loader"]
    table = house.order("state").out
    assert "shelves" in table
    assert "yes" in table


def test_a_cancelled_run_has_no_complete_step_of_what_was_cut_and_the_next_one_completes_them(
    house: House, site: Site
) -> None:
    library, hold = held(house, site)
    running = house.start("--grace", "0.5")
    assert until(lambda: done(house, site) == 7)
    assert until(lambda: "shelves/appender" in complete(shown(house))), "what is over is complete meanwhile"
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    told = state(house)
    assert complete(told) == {key for key in STEPS if key.startswith("shelves/")}
    for step in ("loader", "parser", "filter", "appender"):
        line = told[f"books/{step}"]
        assert line["reason"] == "cancelled by signal: 1 job left"
        assert line["validation_status"] == "provisional"
        assert line["completed_at"] is None
    check_true(house)
    (house.data / "state.jsonl").write_bytes(b"{damaged")
    hold.set()
    site.forget()
    house.crawl()
    assert site.paths == ["/book/1-1"], "what was complete was not done again"
    after = state(house)
    assert complete(after) == STEPS
    assert after["shelves/parser"] == told["shelves/parser"], "an entry that was complete stayed as it was"
    assert house.counted("entry", "book") == library.rows()


def test_a_killed_run_and_one_cut_in_its_middle_tell_so(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.15)
    house.write(library.defs(concurrency=4))
    running = house.start()
    assert until(lambda: len(site.paths) > 6)
    running.send(signal.SIGTERM)
    running.send(signal.SIGINT)
    assert running.wait().code == 137
    told = state(house)
    assert complete(told) == {"shelves/seeder"}
    assert all("killed by signal" in line["reason"] for key, line in told.items() if key != "shelves/seeder")
    check_true(house)
    house.crawl()
    assert complete(state(house)) == STEPS


@pytest.mark.parametrize("at", [0, 6])
def test_after_sigkill_of_the_supervisor_nothing_is_complete_that_is_not(house: House, site: Site, at: int) -> None:
    library, hold = held(house, site)
    running = house.start()
    if at == 0:
        assert until(lambda: (house.data / "state.jsonl").exists())
    else:
        assert until(lambda: done(house, site) >= at)
    running.send(signal.SIGKILL)
    running.wait()
    house.assert_nobody_left()
    check_true(house)
    told = [json.loads(line) for line in (house.data / "state.jsonl").read_text("utf-8").splitlines()]
    assert all(line["group"] != "books" for line in told if line["completed"])
    assert {f"{line['group']}/{line['step_name']}" for line in told} == STEPS
    hold.set()
    house.crawl()
    assert complete(state(house)) == STEPS
    assert house.counted("entry", "book") == library.rows()


def test_changed_defs_invalidate_what_rests_on_them_and_nothing_else(house: House, site: Site) -> None:
    library, hold = held(house, site)
    running = house.start("--grace", "0.5")
    assert until(lambda: "shelves/appender" in complete(shown(house)))
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    before = state(house)
    house.write(
        library.defs().replace('path: {value: "%{document.url}"}', 'path: {value: "%{document.url}", default: x}')
    )
    running = house.start("--grace", "0.5")
    assert until(lambda: shown(house)["books/parser"]["validation_status"] == "invalid")
    told = shown(house)
    assert told["books/parser"]["reason"] == "what it extracts changed with defs v2"
    assert told["books/appender"]["reason"] == "depends on books/parser, which changed with defs v2"
    assert {key for key, line in told.items() if line["validation_status"] == "invalid"} == {
        "books/parser", "books/filter", "books/appender",
    }  # fmt: skip
    assert {key: line for key, line in told.items() if key.startswith("shelves/")} == {
        key: line for key, line in before.items() if key.startswith("shelves/")
    }
    hold.set()
    assert running.wait().code == 0
    assert complete(state(house)) == STEPS


def test_new_locators_invalidate_all_that_follows_and_are_worked_alone(house: House, site: Site) -> None:
    library, hold = held(house, site)
    running = house.start("--grace", "0.5")
    assert until(lambda: "shelves/appender" in complete(shown(house)))
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    site["/more"] = html("<p>nothing here</p>")
    site.forget()
    hold.set()
    house.write(library.defs().replace("locators: [", f'locators: [{{name: more, url: "{site.url("/more")}"}}, '))
    house.crawl()
    assert sorted(site.paths) == ["/book/1-1", "/more"]
    told = state(house)
    assert complete(told) == STEPS
    assert {line["validation_status"] for line in told.values()} == {"valid"}


def test_the_figures_add_up_to_what_the_site_served(house: House, site: Site) -> None:
    library = Library(site, shelves=3, books=4)
    refused = [0]

    def unwilling(page: Page) -> Any:
        def answer(asked: Asked) -> Page:
            if asked.attempt == 1:
                refused[0] += 1
                return Page("busy", status=503, headers={"Retry-After": "0"})
            return page

        return answer

    for path in ("/book/0-1", "/book/1-2", "/shelf/2"):
        site[path] = unwilling(site.pages[path])
    site["/book/2-3"] = Page(status=404)
    house.write(library.defs(robots=True))
    site["/robots.txt"] = "User-agent: *\nAllow: /\n"
    running = house.start("--max-pages", "8")
    first = running.wait()
    assert first.code == 0, first.err
    second = house.crawl()
    assert second.summary["run"] == first.summary["run"]
    told = house.status()["metrics"]
    served = 0
    for path in {visit.path for visit in site.visits}:
        times = site.times(path)
        program = site.pages[path]
        bodies = [program if isinstance(program, Page) else program(Asked(method="GET", path=path, headers={}, body=b"",
                  attempt=n + 1)) for n in range(times)]  # fmt: skip
        served += sum(len(page.content) for page in bodies)
    assert told["bytes"] == served
    assert told["retries"] == 3
    assert told["fetches"] == len(site.visits)
    groups = {group["group"]: group for group in told["groups"]}
    assert {name: group["done"] for name, group in groups.items()} == {"shelves": 3, "books": 11}
    assert groups["books"]["skipped"] == 1
    assert groups["books"]["retries"] == 2
    assert all(group["left"] == 0 for group in groups.values())
    assert told["success"] == 100.0
    assert told["takeovers"] == 0
    assert told["fetch_ms"] > 0
    assert told["seconds"] == second.summary["seconds"]
    assert abs(sum(share["share"] for share in told["shares"]) - 100) < 0.5
    assert "100.0 % success" in second.err
    assert "3 retries" in second.err


def test_a_node_that_dies_is_a_takeover_and_its_lost_fetches_count_once(house: House, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    house.write(library.defs(concurrency=4))
    running = house.start()
    assert until(lambda: len(site.paths) >= 8)
    assert house.order("kill", "n1").code == 0
    assert running.wait().code == 0
    told = house.status()["metrics"]
    assert told["takeovers"] == 1
    assert told["fetches"] == library.size, "a fetch whose result was lost with its node is none"
    assert told["retries"] == 0
    assert sum(group["done"] for group in told["groups"]) == library.size
