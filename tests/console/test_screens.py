"""Every screen, and the ways into it and out of it."""

import asyncio
import re

from msgspec.structs import replace

from crawl_console.tui.screens.base import View
from crawl_engine.model.run import Alarm, Eta, Judgement
from crawl_engine.store.read.data_warnings import DataWarning
from crawl_engine.store.tables.run.machines import MachineRow
from tests.console.builders import host, line, node, output, run, samples, snapshot
from tests.console.fakes import FakeSource, open_console


async def test_nodes_show_their_state_as_sign_and_word(tmp_path):
    async with open_console(tmp_path) as console:
        text = console.screen()
        for state in ("▶ ready", "◐ stopping", "● done", "! stale", "✗ dead", "○ standby", "SIGKILL · replaced by n7"):
            assert state in text
        assert "finishing 1 job" in text
        assert "no beat; img.example/a.png" in text
        assert "33,116 / ≥ 45,653  42.1 pg/s  118 rows/s  backlog 12  ETA ≥ 4:56" in text
        assert "4 Failed!7" in text


async def test_rows_a_second_and_the_backlog_stay_on_the_narrowest_screen(tmp_path):
    """What does not fit is dropped from the right."""
    late = replace(run().eta, seconds=None, bound_by=None, reason=None)
    for width, expected in (
        (160, "118 rows/s → 1 file  backlog 12  ETA ≥ 4:56 img.example (delay 0.5 s)"),
        (80, "33,116 / ≥ 45,653  42.1 pg/s  118 rows/s  backlog 12  ETA ≥ 4:56"),
        (60, "33,116 / ≥ 45,653  42.1 pg/s  118 rows/s  backlog 12"),
        (40, "118 rows/s  backlog 12"),
        (30, "118 rows/s  backlog 12"),
    ):
        async with open_console(tmp_path, size=(width, 24)) as console:
            assert expected in console.text()[1]
            if width <= 60:
                assert console.text()[1].endswith("backlog 12")
            console.source.current = snapshot(run=run(eta=late), appenders=[output(backlog=10_001)])
            await console.until(lambda: "118 rows/s" in console.text()[1] and "backlog 10k+" in console.text()[1])


async def test_without_an_estimate_its_reason_stands_in_its_place(tmp_path):
    source = FakeSource()
    eta = Eta(None, "a:80", exact=False, reason="a:80 silent 24 s")
    source.current = snapshot(run=run(eta=eta, judgement=Judgement(1.0, 2.0, 140.0)))
    async with open_console(tmp_path, source=source, size=(160, 24)) as console:
        assert "queue ▲ +140/s  ETA cannot say: a:80 silent 24 s" in console.text()[1]
    source.current = snapshot(run=run(eta=eta))
    async with open_console(tmp_path, source=source) as console:
        assert console.text()[1].endswith("ETA cannot say")


async def test_a_request_that_takes_long_shows_its_age(tmp_path):
    cases = (
        ({"now_age": 1.0, "now_limit": 30.0}, "item/88121", "text", None),
        ({"now_age": 9.4, "now_limit": 30.0}, "9 s of 30 s", "text", None),
        ({"now_age": 24.0, "now_limit": 30.0}, "24 s of 30 s", "warn", None),
        ({"now_age": 90.0, "now_limit": 0.0}, "· 90 s", "text", " of "),
    )  # fmt: skip
    source = FakeSource()
    async with open_console(tmp_path, source=source) as console:
        for changes, expected, role, unexpected in cases:
            source.current = snapshot(nodes=[node(1, **changes)])
            await console.until(lambda expected=expected: expected in console.screen())
            line = next(line for line in console.text() if " n1 " in line)
            assert "shop" in line
            assert unexpected is None or unexpected not in line
            text, shown = console.app.navigation.views["nodes"].nodes.rows[0].cells[-1]
            assert shown == role, text


async def test_a_node_whose_jobs_wait_for_their_host_says_so(tmp_path):
    source = FakeSource()
    source.current = snapshot(nodes=[node(1, now="", in_flight=3)], hosts=[host("a:80", next_in=0.4)])
    async with open_console(tmp_path, source=source, size=(120, 40)) as console:
        await console.until(lambda: "delay of a:80, next in 0.4s" in console.screen())
        assert "idle" not in console.screen()
        source.current = snapshot(nodes=[node(1, now="", in_flight=0)], run=run(paused="operator"))
        await console.until(lambda: "idle: the run is paused" in console.screen())


async def test_an_idle_node_names_no_host_unless_all_hosts_were_read(tmp_path):
    """The screen reads the first 60 hosts; pages of later ones may wait."""
    source = FakeSource()
    node_1, done = node(1, now="", in_flight=0), host("a:80", waiting=0, running=0)
    none = {"ready": 0, "taken": 0}
    jobs = snapshot().jobs
    cases = (
        ({"jobs": {**jobs, "ready": 98_000, "taken": 0}, "host_count": 10_000, "hosts": [done]}, "98,000 jobs waiting"),
        ({"jobs": {**jobs, "ready": 0, "taken": 9}, "host_count": 2, "hosts": [host("b:80")]}, "9 jobs waiting"),
        ({"jobs": {**jobs, **none}, "files": {"left": 5}, "host_count": 2, "hosts": [done]}, "5 jobs waiting"),
        ({"jobs": {**jobs, **none}, "host_count": 10_000, "hosts": [done]}, "no job is ready"),
        ({"jobs": {**jobs, **none}, "host_count": 1, "hosts": [done]}, "no job is ready"),
        ({"jobs": {**jobs, "ready": 7}, "host_count": 1, "hosts": [host("b:80", next_in=0.4)]}, "delay of b:80, next"),
    )
    async with open_console(tmp_path, source=source, size=(120, 40)) as console:
        for changes, expected in cases:
            source.current = snapshot(nodes=[node_1], running=0, **changes)
            await console.until(lambda expected=expected: f"idle: {expected}" in console.screen())
            await console.settle()


async def test_machines_are_rows_with_the_leader_their_beats_and_the_lag_of_the_database(tmp_path):
    source = FakeSource()
    machines = [
        MachineRow("web1", True, "LEADER", 0.4, 2, 1_234), MachineRow("web2", False, "STANDBY", 0.9, 2, 800),
        MachineRow("a-very-long-name", False, "STANDBY", 3.5, 0, 0),
    ]  # fmt: skip
    source.current = snapshot(nodes=[node(1)], machines=machines, lag=0.012)
    async with open_console(tmp_path, source=source, size=(100, 24)) as console:
        await console.until(lambda: "▶ leader    0.4s 2 nodes  1,234 done" in console.screen())
        assert "○ standby   0.9s 2 nodes  800 done" in console.screen()
        assert "! stale     3.5s 0 nodes  0 done  a-very-long-name" in console.screen()
        [line] = [line for line in console.text() if " database " in line]
        assert "▶ ready          answers in 12 ms  takeovers 0" in line
        assert " supervisor " not in console.screen()
        await console.press("G", "up", "enter")
        await console.until(lambda: "of supervisor" in console.screen())


async def test_appender_and_supervisor_are_rows_with_beat_and_state(tmp_path):
    source = FakeSource()
    source.current = snapshot(nodes=[node(1)])
    cases = (
        ({}, ("▶ writing", "0.1s", "backlog 12", "flush 4.2 ms", "rows/book")),
        ({"backlog": 0}, ("▶ writing", "backlog 0")),
        ({"backlog": 0, "rows_per_s": 0.0}, ("● done", "backlog 0")),
        ({"beat_age": 4.0}, ("! stale", "4.0s")),
        ({"beat_age": None}, ("… starting",)),
        ({"pid": None, "beat_age": None}, ("✗ dead",)),
        ({"error": "/full: no space"}, ("/full: no space",)),
    )
    async with open_console(tmp_path, source=source, size=(100, 24)) as console:
        for changes, expected in cases:
            source.current = snapshot(nodes=[node(1)], appenders=[output(**changes)])
            await console.settle()
            await console.settle()
            [line] = [line for line in console.text() if " appender " in line]
            for words in expected:
                assert words in line
        [line] = [line for line in console.text() if " supervisor " in line]
        assert "▶ ready     0.2s pid 4121  takeovers 0  tick 3 ms" in line
        await console.press("G", "enter")
        await console.until(lambda: "trouble of supervisor" in console.screen())
        await console.press("x", "X")
        assert "n1 stops" not in console.screen()
        assert console.control_client.commands == []
        await console.press("escape", "escape")
        source.supervisor = None
        await console.until(lambda: "✗ lost" in console.screen())


async def test_digits_open_screens(tmp_path):
    cases = (
        ("2", "shop.example/item/1"), ("3", "ROBOTS"), ("4", "HTTP 500"), ("5", "DATADEF"), ("6", "trouble · follow"),
        ("7", "answers a second"), ("1", "NODE"),
    )  # fmt: skip
    async with open_console(tmp_path) as console:
        for key, expected in cases:
            await console.press(key)
            await console.until(lambda: expected in console.screen())  # noqa: B023


async def test_a_screen_that_is_slow_to_appear_is_shown_once_it_is_there(tmp_path, monkeypatch):
    compose = View._compose

    async def compose_late(view):
        await asyncio.sleep(0.3)
        await compose(view)

    async with open_console(tmp_path) as console:
        monkeypatch.setattr(View, "_compose", compose_late)
        for key, expected in (("3", "ROBOTS"), ("5", "DATADEF"), ("7", "answers a second"), ("1", "NODE")):
            await console.press(key)
            await console.until(lambda: expected in console.screen())  # noqa: B023


async def test_enter_opens_a_nodes_jobs_and_a_job_and_escape_goes_back(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("down", "enter")
        await console.until(lambda: "Nodes > Jobs /node:n1" in console.screen())
        await console.until(lambda: "shop.example/item/1" in console.screen())
        await console.press("enter")
        await console.until(lambda: "job 1 DONE" in console.screen())
        assert "job 1" in console.text()[3]
        for tab, expected in (
            ("Page", "server: tea/1"),
            ("Error", "no error"),
            ("Attempts", "84 ms"),
            ("Links", "found on job 7, depth 1: shop.example/page-3"),
            ("Rows", "1.50"),
        ):
            await console.press("tab")
            await console.until(lambda: f"[{tab}]" in console.screen() and expected in console.screen())  # noqa: B023
        await console.press("escape", "escape")
        await console.until(lambda: "NODE" in console.screen())
        assert len(console.app.navigation.view_stack) == 1


async def test_enter_on_a_log_line_opens_its_job(tmp_path):
    async with open_console(tmp_path, screen="log") as console:
        await console.press("k", "k", "enter")
        await console.until(lambda: "job 2 FAILED" in console.screen())
        assert "[Error]" in console.screen()


async def test_tab_shows_the_next_pane_in_a_narrow_window(tmp_path):
    async with open_console(tmp_path) as console:
        assert "sequences 2" not in console.screen()
        await console.press("tab", "tab")
        await console.until(lambda: "sequences 2" in console.screen())
        assert "‖ detail" in console.screen()
        await console.press("tab", "tab")
        await console.until(lambda: "LEAST FILLED" in console.screen())
        [book] = [line for line in console.text() if "   book " in line]
        assert book.split() == ["book", "31,412", "3", "stock", "99.1%"]
        [detail] = [line for line in console.text() if "   detail " in line]
        assert detail.split() == ["detail", "0", "0", "!", "isbn", "0.0%"]
        await console.press("tab", "tab", "tab")
        await console.until(lambda: "alarms 3" in console.screen())


async def test_wide_windows_show_all_panes(tmp_path):
    async with open_console(tmp_path, size=(160, 48)) as console:
        for title in (
            "sequences 2",
            "hosts 3",
            "output",
            "flush 4.2 ms",
            "LEAST FILLED",
            "BYTES/S",
            "throughput",
            "alarms",
            "trouble · follow",
        ):
            assert title in console.screen()


async def test_zoom_shows_one_pane(tmp_path):
    async with open_console(tmp_path, size=(160, 48)) as console:
        await console.press("tab", "z")
        await console.until(lambda: "NODE" not in console.screen())
        assert "trouble · follow" in console.screen()
        await console.press("z")
        await console.until(lambda: "NODE" in console.screen())


async def test_hosts_sort_and_filter(tmp_path):
    async with open_console(tmp_path, screen="hosts", size=(120, 40)) as console:
        await console.press("s")
        await console.until(lambda: "hOST" in console.screen() and "BlOCKED" in console.screen())
        await console.press("l")  # by refused answers, the most first
        await console.until(lambda: " 31 " in console.text()[5])
        assert "fetching" in console.screen()
        await console.press("slash")
        await console.type("img !shop")
        await console.press("enter")
        await console.until(lambda: "slow.example" not in console.screen())
        assert "img.example" in console.screen()
        await console.press("escape")
        await console.until(lambda: "slow.example" in console.screen())
        await console.press("enter")
        await console.until(lambda: "img.example:443" in console.text()[3])


async def test_hosts_say_why_the_jobs_of_the_chosen_one_wait(tmp_path):
    source = FakeSource()
    source.host_reasons = [
        "books: delay 0.5 s: the next request in 0.4 s",
        "detail: its sequence is paused by an operator",
    ]
    async with open_console(tmp_path, screen="hosts", source=source) as console:
        await console.press("down")
        await console.until(lambda: "  shop.example:443  2xx 100  4xx 1" in console.screen())
        await console.until(lambda: "books: delay 0.5 s: the next request" in console.screen())
        assert "detail: its sequence is paused" in console.screen()
        source.host_reasons = []
        await console.press("up")
        await console.until(lambda: "no job waits for img.example:443" in console.screen())


async def test_hosts_show_the_content_signal_of_the_chosen_one(tmp_path):
    signal = {"search": "yes", "ai-train": "no"}
    source = FakeSource()
    source.current = snapshot(hosts=[host("a:80", content_signal=signal), host("b:80")])
    async with open_console(tmp_path, screen="hosts", source=source) as console:
        await console.until(lambda: "Content-Signal search=yes, ai-train=no" in console.screen())
        await console.until(lambda: "books: delay 0.5 s" in console.screen())
        await console.press("down")
        await console.until(lambda: "   b:80  2xx" in console.screen())
        assert "Content-Signal" not in console.screen()


async def test_jobs_are_filtered_and_a_bad_filter_is_reported(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.until(lambda: "✗ failed" in console.screen())
        await console.press("slash")
        await console.type("state:ready")
        await console.press("enter")
        await console.until(lambda: "item/3" in console.screen() and "item/1" not in console.screen())
        await console.press("slash")
        await console.press("right")  # keeps the text, which typing would replace
        await console.type(" colour:red")
        await console.press("enter")
        await console.until(lambda: "✗ unknown key 'colour'" in console.screen())
        await console.type("c")
        assert "state:ready colour:redc" in console.screen(), "typed text never becomes a command"
        assert "✗ unknown key" not in console.screen()
        await console.press("escape")
        await console.press("escape")
        await console.until(lambda: "item/1" in console.screen())


def cursor(console):
    """The job below the cursor, once it is read."""
    return re.findall(r"^>.*item/\d+", console.screen(), re.MULTILINE)


async def press_until(console, key, expected):
    """Press a key until the text is there; each time the cursor is on another job, once the rows beyond are read."""
    window = console.app.navigation.top.window
    for _ in range(40):
        if expected in console.screen():
            return
        await console.until(lambda: not window.needs_lines())
        before = cursor(console)
        await console.press(key)
        await console.until(lambda before=before: cursor(console) not in ([], before))
    raise AssertionError(f"no {expected}:\n{console.screen()}")


async def test_jobs_page_through_thousands(tmp_path):
    source = FakeSource()
    source.jobs_ = [line(number) for number in range(1, 3001)]
    async with open_console(tmp_path, source=source, screen="jobs") as console:
        await console.until(lambda: "item/9" in console.screen())
        await press_until(console, "pagedown", "item/80")
        await console.press("G")
        await console.until(lambda: "item/3000" in console.screen())
        await press_until(console, "pageup", "item/2870")
        await console.press("g")
        await console.until(lambda: "item/1\n" in console.screen() or "item/1 " in console.screen())


async def test_failed_shows_reasons(tmp_path):
    async with open_console(tmp_path, screen="failed") as console:
        await console.until(lambda: "HTTP 500" in console.screen())
        assert "item/1" not in console.screen()


async def test_defs_show_files_problems_and_data_defs(tmp_path):
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "blog.yaml").write_text("a: 1\nselctor: x\n")
    source = FakeSource()
    async with open_console(tmp_path, source=source, screen="defs") as console:
        await console.until(lambda: "blog.yaml" in console.screen() and "v3 is in use" in console.screen())
        assert "detail" in console.screen()
        await console.press("enter")
        await console.until(lambda: "2  selctor: x" in console.screen())
        await console.press("escape")
        await console.until(lambda: "in use" in console.screen())


async def test_plots_change_their_time_range(tmp_path, monkeypatch):
    monkeypatch.setattr("crawl_console.tui.screens.plots.time.time", lambda: 1_700_000_300.0)
    source = FakeSource()
    source.samples_ = samples()
    async with open_console(tmp_path, source=source, screen="plots") as console:
        await console.until(lambda: "⣿" in console.screen())
        for span in ("5m", "15m", "1h", "6h", "run"):
            await console.press("s")
            await console.until(lambda: f"Plots > {span}" in console.screen())  # noqa: B023


async def test_the_summary_stands_below_the_nodes_when_the_run_ends(tmp_path):
    async with open_console(tmp_path) as console:
        console.source.current = snapshot(
            run=run(state="DONE", stage="SHUTDOWN_COMPLETE", exit_code=1),
            nodes=[node(1, "TERMINATED", pid=None), node(2, "DEAD", pid=None, reason="died: signal 9")],
        )
        console.source.supervisor = None
        await console.until(lambda: "run 3f2a ENDED, exit 1" in console.screen())
        assert any("run 3f2a ENDED, exit 1: 1 shows" in toast for toast in console.toasts())
        text = console.screen()
        assert "00:12:34" in text
        assert "/data/output/3f2a/rows/" in text
        await console.until(lambda: "1  HTTP 500 (4 attempts)  shop.example:443" in console.screen())
        assert "n2 died: signal 9" in console.screen()
        assert console.app.quit_flow.run_exit_code() == 1, "that of the run"
        assert "NODE" in text, "the screen and its keys stay"
        await console.press("tab")
        await console.until(lambda: "trouble · follow" in console.screen())


async def test_the_end_of_a_run_leaves_the_screen_and_the_typed_text(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.press("slash")
        await console.type("item")
        console.source.current = snapshot(run=run(state="KILLED", stage="SHUTDOWN_COMPLETE"))
        console.source.supervisor = None
        await console.until(lambda: any("run 3f2a KILLED: 1 shows" in toast for toast in console.toasts()))
        assert console.app.prompt.value == "item"
        await console.press("enter")
        await console.until(lambda: "Jobs /item" in console.screen())
        await console.press("1")
        await console.until(lambda: "resumes the run" in console.screen())
        console.source.current, console.source.supervisor = snapshot(), 4121
        await console.until(
            lambda: "trouble · follow" in console.screen() and "run 3f2a KILLED" not in console.screen()
        )


async def test_warnings_about_the_data_stand_in_the_summary(tmp_path):
    warnings = [DataWarning("empty-field", f"book.f{n} was never filled in 20 records", "book") for n in range(4)]
    warnings.append(DataWarning("expectation", "book: 4 rows; expected at least 5"))
    async with open_console(tmp_path, size=(160, 48)) as console:
        console.source.current = snapshot(
            alarms=[Alarm(one.code, one.text, subject=one.text) for one in reversed(warnings)], nodes=[node(1)],
            hosts=[], paused_sequences=0,
        )  # fmt: skip
        await console.until(lambda: "book: 4 rows; expected at least 5" in console.screen())
        await console.until(lambda: "book.f1 was never filled" in console.screen())
        console.source.current = snapshot(
            run=run(state="DONE", stage="SHUTDOWN_COMPLETE", exit_code=0),
            jobs={"done": 5, "failed": 0, "skipped": 0, "incomplete": 0, "ready": 0, "taken": 0},
            warnings=warnings, nodes=[node(1, "TERMINATED", pid=None)],
        )  # fmt: skip
        console.source.supervisor = None
        await console.until(lambda: "run 3f2a DONE" in console.screen())
        assert "warning   book.f3 was never filled in 20 records" in console.screen()
        assert console.app.quit_flow.run_exit_code() == 0, "that of the run, whatever the warnings are"
        console.source.current = snapshot(
            run=run(state="CANCELLED", stage="SHUTDOWN_COMPLETE", reason="--max-pages 5 reached", exit_code=1),
            warnings=warnings,
        )
        await console.until(lambda: "run 3f2a ENDED, exit 1" in console.screen())
        assert console.app.quit_flow.run_exit_code() == 1, "as without a console"


async def test_tiny_windows_show_one_pane(tmp_path):
    for size in ((40, 10), (20, 5), (10, 3)):
        async with open_console(tmp_path, size=size) as console:
            await console.press("2", "3", "6", "7", "1")
            assert len(console.text()) == size[1]


async def test_a_data_dir_without_a_run(tmp_path):
    from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT

    source = FakeSource()
    source.current, source.supervisor = EMPTY_SNAPSHOT, None
    async with open_console(tmp_path, source=source) as console:
        assert "no run yet" in console.screen()
        await console.press("2", "3", "4", "5", "6", "7", "1", "c")
        assert any("no supervisor is running" in toast for toast in console.toasts())


async def test_an_empty_table_under_a_filter_says_what_there_is_without_it(tmp_path):
    async with open_console(tmp_path, screen="failed") as console:
        await console.press("slash")
        await console.type("nowhere")
        await console.press("enter")
        await console.until(lambda: "nothing matches /nowhere (7 failed)" in console.screen())
        assert "nothing failed" not in console.screen()


async def test_the_nodes_of_a_lost_supervisor_are_gone(tmp_path):
    source = FakeSource()
    source.supervisor = None
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: "its supervisor is gone" in console.screen())
        assert "ready" not in "".join(line for line in console.text() if " n1 " in line)
        assert not any("not replaced" in alarm.text for alarm in console.app.alarm_book.alarms)


async def test_a_database_that_cannot_be_read_is_named(tmp_path):
    source = FakeSource()
    source.error = "/data/crawl.db: damaged (file is not a database)"
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: "damaged (file is not a database)" in console.screen())
