"""What keys do, what dialogs ask, and that key table, panel and docs agree."""

import re
from pathlib import Path

import pytest

from crawl_console.tui.bindings import KEYS, KEYS_BY_ID, resolve_keymap
from crawl_console.tui.config import Config, load
from tests.console.builders import browsing, node, run, snapshot
from tests.console.fakes import FakeControlClient, FakeSource, open_console

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "console.md"


def test_every_key_is_documented_and_no_other():
    rows = re.findall(r"^\| `([^`]+)` \| `([a-z_]+)` \| (.+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert {(label.replace("\\|", "|"), id_): description for label, id_, description in rows} == {
        (k.label, k.id): k.description for k in KEYS
    }


def test_no_key_has_two_meanings():
    keys = [key for k in KEYS for key in k.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert len({k.id for k in KEYS}) == len(KEYS)


async def test_the_panel_shows_every_key(tmp_path):
    async with open_console(tmp_path, size=(160, 60)) as console:
        await console.press("question_mark")
        text = console.screen()
        for key in KEYS:
            assert f"{key.label}  {key.description[:28]}" in text
        await console.press("escape")
        assert "NODE" in console.screen()


async def test_keys_send_commands(tmp_path):
    cases = (
        (("x",), ("drain", {"node": "n4"})),
        (("down", "down", "down", "R", "y"), ("restart", {"node": "n3"})),
        (("p",), ("pause", {})),
        (("plus",), ("scale", {"count": 5})),
        (("minus",), ("scale", {"count": 3})),
        (("ctrl+r",), ("reload", {})),
        (("c", "y"), ("cancel", {})),
        (("X", "w"), ("kill", {})),
        (("down", "X", "k"), ("kill", {"node": "n1"})),
        (("space", "X", "y"), ("kill", {"node": "n4"})),
        (("tab", "tab", "p"), ("pause", {"sequence": "books@shop.example:443"})),
        (("down", "p"), ("resume", {"sequence": "detail@img.example:443"})),
    )
    async with open_console(tmp_path) as console:
        for keys, command in cases:
            await console.press("escape", "g", *keys)
            await console.until(lambda: console.control_client.commands == [command])  # noqa: B023
            await console.until(lambda: any("done" in toast for toast in console.toasts()))
            console.control_client.commands.clear()
            console.app.clear_notifications()


async def test_keys_on_the_rows_of_browsers_act_on_their_node_or_say_why_not(tmp_path):
    source = FakeSource()
    source.current = browsing()
    async with open_console(tmp_path, source=source) as console:
        await console.press("g", "down", "X", "k")
        await console.until(lambda: console.control_client.commands == [("kill", {"node": "n1"})])
        console.control_client.commands.clear()
        await console.press("escape", "tab", "tab", "G", "p")
        await console.until(lambda: any("select a sequence first" in toast for toast in console.toasts()))
        assert console.control_client.commands == []


async def test_several_marked_nodes_are_drained_at_once(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("space", "space", "x")
        await console.until(lambda: len(console.control_client.commands) == 2)
        assert {arguments["node"] for _, arguments in console.control_client.commands} == {"n1", "n4"}


async def test_a_dialog_that_is_not_confirmed_changes_nothing(tmp_path):
    async with open_console(tmp_path) as console:
        for keys in (("c", "n"), ("c", "escape"), ("c", "enter"), ("X", "enter"), ("X", "n")):
            await console.press(*keys)
            assert console.control_client.commands == [], keys
            assert "NODE" in console.screen(), keys


async def test_x_kills_on_the_nodes_screen_alone(tmp_path):
    async with open_console(tmp_path) as console:
        for screen in "234567":
            await console.press(screen, "X")
            await console.until(lambda: any("X kills on screen 1" in toast for toast in console.toasts()))
        assert console.control_client.commands == []


async def test_the_key_panel_scrolls_at_once_in_a_low_window(tmp_path):
    async with open_console(tmp_path, size=(80, 24)) as console:
        await console.press("question_mark")
        assert "quit: detach" not in console.screen()
        await console.press("pagedown", "pagedown")
        await console.until(lambda: "quit: detach" in console.screen())


async def test_a_kill_says_what_is_lost(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("space", "X")
        assert "n4 stops immediately" in console.screen()
        assert "8 jobs in flight are lost" in console.screen()


async def test_a_refused_command_is_reported(tmp_path):
    source = FakeSource()
    control_client = FakeControlClient(source)
    control_client.error = "the supervisor is busy"
    async with open_console(tmp_path, source=source, control_client=control_client) as console:
        await console.press("x")
        await console.until(lambda: any("the supervisor is busy" in toast for toast in console.toasts()))


async def test_retry_asks_with_the_count_and_changes_the_store(tmp_path):
    async with open_console(tmp_path, screen="failed") as console:
        await console.until(lambda: "HTTP 500" in console.screen())
        await console.press("r")
        await console.until(lambda: "Retry 1 job" in console.screen())
        await console.press("y")
        group = 'state:failed host:shop.example:443 reason:"HTTP 500 (4 attempts)"'
        await console.until(lambda: console.control_client.retried == [(group, [])])
        await console.until(lambda: any("1 job READY again" in toast for toast in console.toasts()))


async def test_marked_jobs_alone_are_retried(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.until(lambda: "item/3" in console.screen())
        await console.press("down", "space", "r", "y")
        await console.until(lambda: [ids for _, ids in console.control_client.retried] == [[2]])


async def test_with_all_jobs_marked_all_ended_jobs_are_retried(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.until(lambda: "item/3" in console.screen())
        await console.press("asterisk", "r")
        ended = sum(job.state in ("DONE", "FAILED", "SKIPPED", "INCOMPLETE") for job in console.source.jobs_)
        assert 0 < ended < len(console.source.jobs_)
        await console.until(lambda: f"Retry {ended} jobs" in console.screen())
        assert "state:failed state:skipped state:done" in console.screen()
        await console.press("y")
        await console.until(lambda: console.control_client.retried == [("", [])])


async def test_read_only_sends_no_commands(tmp_path):
    async with open_console(tmp_path, read_only=True) as console:
        assert "read-only" in console.screen()
        for key in ("c", "X", "x", "plus", "minus", "R", "p", "r", "ctrl+r"):
            await console.press(key)
        assert console.control_client.commands == []
        assert len(console.app.screen_stack) == 1


async def test_freeze_stops_the_display_only(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("F")
        console.source.current = snapshot(nodes=[node(99)])
        await console.settle()
        assert "FROZEN" in console.screen()
        assert "n99" not in console.screen()
        await console.press("F")
        await console.until(lambda: "n99" in console.screen())


async def test_escape_clears_marks_and_filters(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("asterisk")
        assert console.screen().count("●") >= 7
        await console.press("escape")
        assert not console.app.navigation.views["nodes"].nodes.marks
        await console.press("slash")
        await console.type("drain")
        await console.press("enter")
        await console.until(lambda: "SIGKILL" not in console.screen().split("log")[0])
        await console.press("escape")
        await console.until(lambda: "SIGKILL" in console.screen())


async def test_the_log_is_searched_filtered_and_followed(tmp_path):
    async with open_console(tmp_path, screen="log") as console:
        await console.press("slash")
        await console.type("price")
        await console.press("enter")
        assert not console.app.navigation.views["log"].log_pane.following
        await console.press("f", "L", "L")
        await console.until(lambda: "item/88121" not in console.screen() and "no match" in console.screen())
        await console.press("L", "ampersand")
        await console.type("!88122")
        await console.press("enter")
        await console.until(lambda: "88122" not in "\n".join(console.text()[5:]) and "88121" in console.screen())


async def test_a_stopped_log_counts_new_lines(tmp_path):
    from crawl_engine.store.tables.run.events import Event

    async with open_console(tmp_path, screen="log") as console:
        await console.press("k")
        console.source.lines = console.source.lines + [
            (5 + n, Event(1.7e9, "INFO", "super", "command", f"more {n}")) for n in range(120)
        ]
        await console.until(lambda: "▼ 120 new" in console.screen())
        assert "more 7" not in console.screen()
        await console.press("G")
        await console.until(lambda: "more 119" in console.screen() and "follow" in console.screen())


async def test_the_log_of_several_nodes(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("down", "space", "down", "space", "l")
        await console.until(lambda: "trouble of n1, n3" in console.screen())
        assert "shop.example last 1 ok" in console.screen()
        await console.press("l")
        await console.until(lambda: "shop.example last 2 ok" in console.screen())


async def test_the_palette_has_commands_for_current_nodes_and_hosts(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("colon")
        await console.type("drain n2")
        await console.press("enter")
        await console.until(lambda: console.control_client.commands == [("drain", {"node": "n2"})])
        await console.press("ctrl+p")
        await console.type("retry host img")
        await console.press("enter")
        await console.until(lambda: any("no failed job matches" in toast for toast in console.toasts()))
        await console.press("colon")
        await console.type("go hosts")
        await console.press("enter")
        await console.until(lambda: "ROBOTS" in console.screen())


async def test_rows_are_exported(tmp_path):
    async with open_console(tmp_path, screen="hosts") as console:
        await console.press("ctrl+s")
        [path] = (tmp_path / "shop" / "data" / "exports").iterdir()
        assert "slow.example:80" in path.read_text()
        await console.press("2")
        await console.until(lambda: "item/3" in console.screen())
        await console.press("ctrl+s")
        await console.until(lambda: len(list(path.parent.iterdir())) == 2)


async def test_the_theme_and_the_screen_of_each_data_dir_are_kept(tmp_path):
    kept, data = tmp_path / "state" / "console.json", tmp_path / "shop"
    config = load(tmp_path / "config", data=data, state_path=kept)
    async with open_console(tmp_path, config=config) as console:
        await console.press("T", "3")
    again = load(tmp_path / "config", data=data, state_path=kept)
    assert (again.theme, again.screen) == ("day", "hosts")
    other = load(tmp_path / "config", data=tmp_path / "other", state_path=kept)
    assert (other.theme, other.screen) == ("day", "nodes")
    assert not (tmp_path / "config").exists(), "the state is not configuration"


async def test_a_user_keymap(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "console.toml").write_text('theme = "clear"\n[keys]\nhosts = "f3"\nnonsense = "x"\n')
    config = load(tmp_path / "config")
    assert config.problems
    async with open_console(tmp_path, config=config) as console:
        await console.press("3")
        assert "ROBOTS" not in console.screen()
        await console.press("f3")
        await console.until(lambda: "ROBOTS" in console.screen())
        assert console.app.theme == "clear"


def test_a_key_moved_by_the_user_leaves_its_old_action():
    keymap = resolve_keymap({"quit": "r", "filter": "question_mark", "hosts": "j"})
    moved = {"quit": "r", "filter": "question_mark", "hosts": "j"}
    assert keymap == {**moved, "retry": "unbound", "help": "unbound", "down": "down"}
    assert resolve_keymap({"quit": "?"})["help"] == "unbound"
    assert resolve_keymap({"hosts": "f3"}) == {"hosts": "f3"}


async def test_a_user_key_wins_over_the_default_key_of_a_focused_widget(tmp_path):
    config = Config(tmp_path / "config", keys={"hosts": "x"})
    async with open_console(tmp_path, config=config) as console:
        await console.press("x")
        await console.until(lambda: "ROBOTS" in console.screen())
        assert console.control_client.commands == []


async def test_a_key_without_an_action_here_says_so(tmp_path):
    async with open_console(tmp_path, screen="hosts") as console:
        await console.press("x")
        assert any("drain a node — not here" in toast for toast in console.toasts())
        assert console.control_client.commands == []


@pytest.mark.parametrize(
    ("key", "commands", "closes"),
    [("d", [], True), ("escape", [], False), ("s", [("cancel", {})], False), ("k", [("kill", {})], False)],
)
async def test_the_owner_is_asked_how_to_quit(tmp_path, key, commands, closes):
    async with open_console(tmp_path, owner=True) as console:
        await console.press("q")
        assert "Quit the console" in console.screen()
        await console.press(key)
        await console.until(lambda: console.control_client.commands == commands and console.app.is_running != closes)
        if commands:
            state, code = {"s": ("CANCELLED", 143), "k": ("KILLED", 137)}[key]
            ended = run(state=state, exit_code=code, reason="cancelled by command")
            console.source.current = snapshot(run=ended)
            console.source.supervisor = None
            await console.until(lambda: not console.app.is_running)
            assert console.app.return_code == code


async def test_an_attached_console_detaches_without_asking(tmp_path):
    async with open_console(tmp_path) as console:
        await console.press("ctrl+c")
        await console.until(lambda: not console.app.is_running)
        assert console.app.return_code == 0


async def test_text_typed_in_the_prompt_is_not_a_key(tmp_path):
    async with open_console(tmp_path, owner=True) as console:
        await console.press("slash")
        await console.type("qXc")
        assert console.app.prompt.value == "qXc"
        await console.press("escape")
        assert console.control_client.commands == []
        assert "NODE" in console.screen()


async def test_escape_closes_the_prompt_and_keeps_the_filter(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.press("slash")
        await console.type("state:ready")
        await console.press("enter", "slash", "escape")
        assert not console.app.prompt.display
        assert "Jobs /state:ready" in console.screen()


async def test_clicks_select_tabs_and_rows(tmp_path):
    async with open_console(tmp_path) as console:
        await console.pilot.click(offset=(22, 3))
        await console.until(lambda: "img." in console.screen())
        await console.pilot.click(offset=(5, 6))
        await console.settle()
        assert console.app.navigation.views["hosts"].table.row.key == "shop.example:443"
        await console.pilot.click(offset=(5, 6), times=2)
        await console.until(lambda: "shop.example:443" in console.text()[3])


def test_a_damaged_state_file_is_ignored(tmp_path):
    path = tmp_path / "console.json"
    for damaged in ('["screen"]', '{"screens": 3}', '{"theme": "loud", "screens": {"/data": "none"}}'):
        path.write_text(damaged)
        config = load(tmp_path, data=Path("/data"), state_path=path)
        assert config == Config(tmp_path, state_path=path, data_dir="/data")
    assert KEYS_BY_ID["cancel"].keys == "c"


@pytest.mark.extended
async def test_the_letter_after_a_sort_is_no_command_on_any_screen(tmp_path):
    """`s a` acknowledged all alarms where nothing can be sorted; `s p` paused the run."""
    async with open_console(tmp_path, size=(160, 48)) as console:
        for screen in "12345689":
            await console.press(screen if screen != "9" else "2")
            if screen == "9":
                await console.press("enter")  # a job
            for pane in range(4):
                for letter in "ap":
                    await console.press("s", letter)
                assert console.control_client.commands == [], (screen, pane)
                assert len(console.app.alarm_book.open) == 3, (screen, pane)
                await console.press("tab")
        await console.press("2", "s")
        assert "jobs keep the order in which they were found" in console.text()[-1]
        await console.press("1")
        assert "Jobs" in console.text()[3].split()[-1]
        await console.press("1")
        assert "NODE" in console.screen()


async def test_an_empty_table_keeps_the_letter_of_a_sort(tmp_path):
    source = FakeSource()
    source.jobs_ = []
    async with open_console(tmp_path, source=source, screen="failed") as console:
        await console.press("s")
        assert "no rows to sort" in console.text()[-1]
        await console.press("p")
        assert console.control_client.commands == []
        await console.press("p")
        await console.until(lambda: console.control_client.commands == [("pause", {})])


async def test_text_typed_where_nothing_is_asked_for_is_no_command(tmp_path):
    """`/shop` on the plots sorted, paused the run, and opened a browser."""
    async with open_console(tmp_path) as console:
        for screen, key, says in (
            ("7", "slash", "this view has no filter"), ("7", "ampersand", "on screen 6"), ("1", "E", "on screen 2"),
            ("4", "E", "on screen 2"), ("2", "d", "on screen 3"), ("6", "C", "on screen 3"),
        ):  # fmt: skip
            await console.press(screen, key)
            await console.until(lambda: says in console.text()[-1])  # noqa: B023
            await console.type("cpx a2")
            assert says in console.text()[-1]
            await console.press("enter")
            await console.until(lambda: not console.app.prompt.display)
        assert console.control_client.commands == []
        assert len(console.app.alarm_book.open) == 3
    async with open_console(tmp_path, read_only=True, screen="hosts") as console:
        await console.press("d")
        await console.type("25")
        assert "read-only" in console.text()[-1]
        assert "ROBOTS" in console.screen()


async def test_a_dialog_keeps_the_keys_that_it_does_not_know(tmp_path):
    async with open_console(tmp_path, owner=True) as console:
        for opens in ("q", "c", "X", "question_mark", "vertical_line", "colon"):
            await console.press(opens)
            await console.press("a", "p", "2", "u")
            await console.press("escape")
            await console.until(lambda: len(console.app.screen_stack) == 1)
            assert "NODE" in console.screen(), opens
        assert console.control_client.commands == []
        assert len(console.app.alarm_book.open) == 3
