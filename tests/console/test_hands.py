"""What an operator does with hosts, columns, saved filters, exclusions, and how an order is taken back."""

import pytest

from crawl_console.tui.config import Config, load
from crawl_console.tui.widgets.line_table import place_columns
from crawl_console.words.table import Column
from tests.console.builders import host, line, node, run, samples, snapshot
from tests.console.fakes import FakeSource, open_console


@pytest.mark.parametrize(
    ("keys", "arguments"),
    [
        (("p",), {"paused": True}),
        (("d", "2", "enter"), {"delay": 2.0}),
        (("C", "1", "enter"), {"concurrency": 1}),
        (("D",), {"reset": True}),
    ],
)
async def test_a_host_is_controlled(tmp_path, keys, arguments):
    async with open_console(tmp_path, screen="hosts") as console:
        await console.press(*keys)
        order = ("host", {"host": "img.example:443", **arguments})
        await console.until(lambda: console.control_client.commands == [order])


async def test_a_wrong_delay_stays_in_the_prompt(tmp_path):
    async with open_console(tmp_path, screen="hosts") as console:
        await console.press("d", "x", "enter")
        await console.until(lambda: "'x' is not a time" in console.screen())
        await console.press("C", "D", "escape")
        assert console.control_client.commands == []


async def test_what_an_operator_set_is_shown_and_no_alarm(tmp_path):
    source = FakeSource()
    changed = host("shop.example:443", paused=True, operator_delay=2.0, operator_concurrency=1)
    source.current = snapshot(
        hosts=[changed],
        paused_hosts=1,
        paused_sequences=0,
        nodes=[node(1)],
        warnings=[],
        alarms=[],
        jobs={**snapshot().jobs},
    )
    async with open_console(tmp_path, screen="hosts", source=source) as console:
        await console.until(lambda: "‖ paused" in console.screen())
        assert "delay 2 s  concurrency 1  D defs' values" in console.screen()
        assert "1 host paused" in console.text()[0]
        assert console.app.alarm_book.alarms == []


async def test_the_last_errors_of_a_host_are_one_key_away(tmp_path):
    async with open_console(tmp_path, screen="hosts") as console:
        await console.press("down", "l")
        await console.until(lambda: "no match '.price'" in console.screen())
        assert "1 failed page" in console.screen()
        assert "HTTP 500 (4 attempts)" in console.screen()
        assert "200   84 ms" not in console.screen(), "successes are no errors"
        await console.press("down", "enter")
        await console.until(lambda: "Error]" in console.screen() or "Attempts]" in console.screen())


@pytest.mark.parametrize(
    ("keys", "taken_back"),
    [
        (("p",), ("resume", {})),
        (("plus",), ("scale", {"count": 4})),
    ],
)
async def test_an_order_is_taken_back(tmp_path, keys, taken_back):
    async with open_console(tmp_path) as console:
        await console.press(*keys)
        await console.until(lambda: len(console.control_client.commands) == 1)
        await console.until(lambda: any("u takes it back" in toast for toast in console.toasts()))
        await console.press("u")
        await console.until(lambda: console.control_client.commands[1:] == [taken_back])
        await console.press("u")
        await console.until(lambda: any("nothing to undo" in toast for toast in console.toasts()))


async def test_taking_back_a_host_order_restores_what_was_set_before(tmp_path):
    source = FakeSource()
    source.current = snapshot(hosts=[host("shop.example:443", operator_delay=3.0)])
    async with open_console(tmp_path, screen="hosts", source=source) as console:
        await console.press("p")
        await console.until(lambda: any("u takes it back" in toast for toast in console.toasts()))
        await console.press("u")
        restored = {"host": "shop.example:443", "reset": True, "delay": 3.0}
        await console.until(lambda: console.control_client.commands[1:] == [("host", restored)])


async def test_a_retry_is_taken_back(tmp_path):
    async with open_console(tmp_path, screen="failed") as console:
        await console.until(lambda: "HTTP 500" in console.screen())
        await console.press("r", "y")
        await console.until(lambda: any("u takes it back" in toast for toast in console.toasts()))
        await console.press("u")
        await console.until(lambda: [name for name, _ in console.control_client.undone] == ["retry"])


async def test_an_exclusion_says_how_many_before_enter(tmp_path):
    source = FakeSource()
    source.jobs_ += [line(number, "READY", url=f"https://shop.example/calendar/{number}") for number in range(10, 15)]
    async with open_console(tmp_path, screen="jobs", source=source) as console:
        await console.press("E")
        await console.type("calendar")
        await console.until(lambda: "would exclude 5 queued jobs" in console.screen())
        await console.press("enter")
        await console.until(lambda: "Exclude 5 queued jobs" in console.screen())
        assert console.control_client.excluded == []
        await console.press("y")
        await console.until(lambda: console.control_client.excluded == ["calendar"])
        await console.until(lambda: any("u takes it back" in toast for toast in console.toasts()))
        await console.press("u")
        expected = [("exclude", "excluded by an operator: calendar")]
        await console.until(lambda: console.control_client.undone == expected)


async def test_a_filter_is_saved_by_name(tmp_path):
    state = tmp_path / "state.json"
    config = Config(tmp_path / "config", screen="jobs", state_path=state)
    async with open_console(tmp_path, config=config) as console:
        await console.press("slash")
        await console.type("item/2")
        await console.press("enter", "colon")
        await console.type("save filter")
        await console.press("enter")
        await console.type("second")
        await console.press("enter")
        await console.until(lambda: config.filters == {"second": "item/2"})
    config = load(tmp_path / "config", state_path=state)
    async with open_console(tmp_path, config=config) as console:
        await console.press("colon")
        await console.type("filter second")
        await console.press("enter")
        await console.until(lambda: "Jobs /item/2" in console.screen())


async def test_columns_are_chosen_and_kept(tmp_path):
    state = tmp_path / "state.json"
    config = Config(tmp_path / "config", screen="hosts", state_path=state)
    async with open_console(tmp_path, config=config) as console:
        assert "ROBOTS" in console.screen()
        await console.press("vertical_line")
        await console.until(lambda: "Columns" in console.screen())
        await console.press("G", "space", "escape")
        await console.until(lambda: "ROBOTS" not in console.screen())
    config = load(tmp_path / "config", state_path=state)
    assert config.hidden_columns == {"HostsTable": ["ROBOTS"]}
    config.screen = "hosts"
    async with open_console(tmp_path, config=config) as console:
        await console.until(lambda: "shop.example" in console.screen())
        assert "ROBOTS" not in console.screen()


async def test_a_click_on_a_heading_sorts_by_it(tmp_path):
    async with open_console(tmp_path, screen="hosts", size=(120, 40)) as console:
        heading = console.text()[4]
        await console.pilot.click(offset=(heading.index("BLOCKED") + 2, 4))
        await console.until(lambda: "BLOCKE↓" in console.text()[4] and " 31 " in console.text()[5])
        await console.pilot.click(offset=(heading.index("BLOCKED") + 2, 4))
        await console.until(lambda: "BLOCKE↑" in console.text()[4] and " 31 " in console.text()[7])


async def test_the_list_of_columns_says_what_each_shows(tmp_path):
    async with open_console(tmp_path, screen="hosts", size=(80, 40)) as console:
        await console.press("vertical_line")
        await console.until(lambda: "answers that refused the crawler (from 92 cells on)" in console.screen())
        assert "the share of bad answers" in console.screen()


def shown_column(title, width, **more):
    return Column(title, width, lambda item: (item[title], "text"), lambda item: item[title], "a test", **more)


def test_one_column_always_stays():
    columns = (shown_column("A", 4), shown_column("B", 0))
    assert [placed.column.title for placed in place_columns(columns, 40, {"A", "B"})] == ["A"]
    assert [(placed.start, placed.width) for placed in place_columns(columns, 40)] == [(3, 4), (8, 32)]


async def test_keys_that_belong_to_the_nodes_say_so_elsewhere(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        for key, text in (("plus", "+ adds a node on screen 1"), ("minus", "retires a node"), ("R", "restarts a node")):
            await console.press(key)
            await console.until(lambda text=text: any(text in toast for toast in console.toasts()))
        assert console.control_client.commands == []


async def test_a_lost_supervisor_is_restarted(tmp_path):
    source, started = FakeSource(), []
    source.supervisor = None

    def start():
        started.append(True)
        return True, "supervisor 77 started"

    async with open_console(tmp_path, source=source, start_supervisor=start) as console:
        await console.until(lambda: "R resumes the run" in console.screen())
        await console.press("R")
        await console.until(lambda: "resumes run 3f2a" in console.screen())
        assert not started
        await console.press("y")
        await console.until(lambda: started == [True])
        await console.until(lambda: any("supervisor 77 started" in toast for toast in console.toasts()))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("KILLED", "resumes run 3f2a (KILLED)"),
        ("CANCELLED", "resumes run 3f2a (CANCELLED)"),
        ("FAILED", "resumes run 3f2a (FAILED)"),
        ("DONE", "begins a new run"),
    ],
)
async def test_a_start_says_whether_it_resumes_the_run(tmp_path, state, words):
    source = FakeSource()
    source.current = snapshot(run=run(state=state, stage="SHUTDOWN_COMPLETE"))
    source.supervisor = None
    async with open_console(tmp_path, source=source, start_supervisor=lambda: (True, "started")) as console:
        await console.press("R")
        await console.until(lambda: words in console.screen())


async def test_the_cursor_stays_with_its_job_while_the_list_grows(tmp_path):
    """Also on the first line, to which newer failed jobs are added."""
    source = FakeSource()
    source.jobs_ = [line(number, "FAILED", reason="HTTP 500") for number in (50, 40, 30)]
    async with open_console(tmp_path, screen="failed", source=source) as console:
        await console.press("slash")
        await console.type("item")
        await console.press("enter")
        await console.until(lambda: "item/50" in console.screen())
        for grown in ((60,), (80, 70), tuple(range(200, 160, -1))):
            source.jobs_ = [*(line(number, "FAILED", reason="HTTP 500") for number in grown), *source.jobs_]
            table = console.app.navigation.top.table
            await console.until(lambda first=grown[0], table=table: table.rows[0].key == first)
            assert table.row.key == 50
            assert "item/50" in console.screen()
            assert len(grown) > 2 or f"item/{grown[0]}" in console.screen(), "what comes first stays in sight"
        await console.press("enter")
        await console.until(lambda: "job 50 FAILED" in console.screen())


async def test_the_palette_pauses_a_sequence_and_takes_it_back(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("colon")
        await console.type("pause books@shop")
        await console.press("enter")
        name = {"sequence": "books@shop.example:443"}
        await console.until(lambda: console.control_client.commands == [("pause", name)])
        await console.until(lambda: any("u takes it back" in toast for toast in console.toasts()))
        await console.press("u")
        await console.until(lambda: console.control_client.commands[1:] == [("resume", name)])


async def test_the_same_toast_is_not_stacked(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.press("plus", "plus", "plus")
        assert len(console.toasts()) == 1
        assert "heartbeat" in console.text()[2], "a toast does not cover the alarm"


async def test_a_frozen_display_keeps_its_sparkline_and_tabs(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("F")
        before = console.text()[1:3]
        console.source.current = snapshot(jobs={**snapshot().jobs, "failed": 99, "done": 40_000})
        console.source.samples_ = samples()[:2]
        await console.settle()
        assert console.text()[1:3] == before
