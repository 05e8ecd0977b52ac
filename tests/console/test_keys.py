"""What keys order, what dialogs ask, and that keys, panel and document agree."""

import re
from pathlib import Path

import pytest

from console.tui.bindings import KEYS, KEYS_BY_ID
from console.tui.config import Config, load
from tests.console.fakes import FakeOrders, FakeSource, held, look, node, run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "console.md"


def test_every_key_is_documented_and_none_besides():
    rows = re.findall(r"^\| `([^`]+)` \| `([a-z_]+)` \| (.+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    assert {(shown, id_): does for shown, id_, does in rows} == {(k.label, k.id): k.description for k in KEYS}


def test_no_key_has_two_meanings():
    told = [key for k in KEYS for key in k.keys.split(",")]
    assert len(told) == len(set(told))
    assert len({k.id for k in KEYS}) == len(KEYS)


async def test_the_panel_shows_every_key(tmp_path):
    async with held(tmp_path, size=(160, 60)) as console:
        await console.press("question_mark")
        text = console.whole()
        for key in KEYS:
            assert f"{key.label}  {key.description[:28]}" in text
        await console.press("escape")
        assert "NODE" in console.whole()


@pytest.mark.parametrize(
    ("keys", "given"),
    [
        (("x",), ("drain", {"node": "n1"})),
        (("down", "down", "R"), ("restart", {"node": "n3"})),
        (("p",), ("pause", {})),
        (("plus",), ("scale", {"count": 5})),
        (("minus",), ("scale", {"count": 3})),
        (("ctrl+r",), ("reload", {})),
        (("c", "y"), ("cancel", {})),
        (("X", "y"), ("kill", {})),
        (("space", "X", "y"), ("kill", {"node": "n1"})),
        (("tab", "tab", "p"), ("pause", {"sequence": 1})),
        (("tab", "tab", "down", "p"), ("resume", {"sequence": 2})),
    ],
)
async def test_keys_give_orders(tmp_path, keys, given):
    async with held(tmp_path) as console:
        await console.press(*keys)
        await console.until(lambda: console.control_client.given == [given])
        await console.until(lambda: any("done" in told for told in console.toasts()))


async def test_several_marked_nodes_are_drained_at_once(tmp_path):
    async with held(tmp_path) as console:
        await console.press("space", "space", "x")
        await console.until(lambda: len(console.control_client.given) == 2)
        assert {told["node"] for _, told in console.control_client.given} == {"n1", "n2"}


@pytest.mark.parametrize("keys", [("c", "n"), ("c", "escape"), ("c", "enter"), ("X", "enter"), ("X", "n")])
async def test_whoever_hesitates_changes_nothing(tmp_path, keys):
    async with held(tmp_path) as console:
        await console.press(*keys)
        assert console.control_client.given == []
        assert "NODE" in console.whole()


async def test_a_kill_names_what_is_lost(tmp_path):
    async with held(tmp_path) as console:
        await console.press("space", "X")
        assert "n1 stops immediately" in console.whole()
        assert "8 jobs in flight are lost" in console.whole()


async def test_a_refused_order_is_told(tmp_path):
    source = FakeSource()
    orders = FakeOrders(source)
    orders.refuse = "the supervisor is busy"
    async with held(tmp_path, source=source, orders=orders) as console:
        await console.press("x")
        await console.until(lambda: any("the supervisor is busy" in told for told in console.toasts()))


async def test_retry_asks_with_the_count_and_is_done_by_the_store(tmp_path):
    async with held(tmp_path, screen="failed") as console:
        await console.until(lambda: "HTTP 500" in console.whole())
        await console.press("r")
        await console.until(lambda: "Retry 1 job" in console.whole())
        await console.press("y")
        await console.until(lambda: console.control_client.retried == [("state:failed", [])])
        await console.until(lambda: any("1 job READY again" in told for told in console.toasts()))


async def test_marked_jobs_alone_are_retried(tmp_path):
    async with held(tmp_path, screen="jobs") as console:
        await console.until(lambda: "item/3" in console.whole())
        await console.press("down", "space", "r", "y")
        await console.until(lambda: [ids for _, ids in console.control_client.retried] == [[2]])


async def test_where_all_are_marked_all_that_ended_are_retried(tmp_path):
    async with held(tmp_path, screen="jobs") as console:
        await console.until(lambda: "item/3" in console.whole())
        await console.press("asterisk", "r")
        ended = sum(job.state in ("DONE", "FAILED", "SKIPPED", "INCOMPLETE") for job in console.source.jobs_)
        assert 0 < ended < len(console.source.jobs_)
        await console.until(lambda: f"Retry {ended} jobs" in console.whole())
        assert "state:failed state:skipped state:done" in console.whole()
        await console.press("y")
        await console.until(lambda: console.control_client.retried == [("", [])])


async def test_read_only_orders_nothing(tmp_path):
    async with held(tmp_path, read_only=True) as console:
        assert "read-only" in console.whole()
        for key in ("c", "X", "x", "plus", "minus", "R", "p", "r", "ctrl+r"):
            await console.press(key)
        assert console.control_client.given == []
        assert len(console.app.screen_stack) == 1


async def test_freeze_holds_the_display_alone(tmp_path):
    async with held(tmp_path) as console:
        await console.press("F")
        console.source.look = look(nodes=[node(99)])
        await console.still()
        assert "FROZEN" in console.whole()
        assert "n99" not in console.whole()
        await console.press("F")
        await console.until(lambda: "n99" in console.whole())


async def test_marks_and_filters_leave_by_escape(tmp_path):
    async with held(tmp_path) as console:
        await console.press("asterisk")
        assert console.whole().count("●") >= 7
        await console.press("escape")
        assert not console.app.navigation.views["nodes"].nodes.marks
        await console.press("slash")
        await console.type("drain")
        await console.press("enter")
        await console.until(lambda: "SIGKILL" not in console.whole().split("log")[0])
        await console.press("escape")
        await console.until(lambda: "SIGKILL" in console.whole())


async def test_the_log_is_searched_filtered_and_followed(tmp_path):
    async with held(tmp_path, screen="log") as console:
        await console.press("slash")
        await console.type("price")
        await console.press("enter")
        assert not console.app.navigation.views["log"].log_pane.following
        await console.press("f", "L", "L")
        await console.until(lambda: "item/88121" not in console.whole() and "no match" in console.whole())
        await console.press("L", "ampersand")
        await console.type("!88122")
        await console.press("enter")
        await console.until(lambda: "88122" not in "\n".join(console.text()[4:]) and "88121" in console.whole())


async def test_a_log_that_stands_still_counts_what_is_new(tmp_path):
    from engine.store.tables.events import Event

    async with held(tmp_path, screen="log") as console:
        await console.press("k")
        console.source.lines = console.source.lines + [
            (5 + n, Event(1.7e9, "INFO", "n1", "page", f"more {n}")) for n in range(120)
        ]
        await console.until(lambda: "▼ 120 new" in console.whole())
        assert "more 7" not in console.whole()
        await console.press("G")
        await console.until(lambda: "more 119" in console.whole() and "follow" in console.whole())


async def test_the_log_of_several_nodes(tmp_path):
    async with held(tmp_path) as console:
        await console.press("space", "down", "space", "l")
        await console.until(lambda: "log n1, n3" in console.whole())
        assert "88121" in console.whole()
        await console.press("l")
        await console.until(lambda: "log all" in console.whole())


async def test_the_palette_finds_commands_on_what_is_there(tmp_path):
    async with held(tmp_path) as console:
        await console.press("colon")
        await console.type("drain n2")
        await console.press("enter")
        await console.until(lambda: console.control_client.given == [("drain", {"node": "n2"})])
        await console.press("ctrl+p")
        await console.type("retry host img")
        await console.press("enter")
        await console.until(lambda: any("no failed job matches" in told for told in console.toasts()))
        await console.press("colon")
        await console.type("go hosts")
        await console.press("enter")
        await console.until(lambda: "ROBOTS" in console.whole())


async def test_rows_are_exported(tmp_path):
    async with held(tmp_path, screen="hosts") as console:
        await console.press("ctrl+s")
        [path] = (tmp_path / "shop" / "data" / "exports").iterdir()
        assert "slow.example:80" in path.read_text()
        await console.press("2")
        await console.until(lambda: "item/3" in console.whole())
        await console.press("ctrl+s")
        await console.until(lambda: len(list(path.parent.iterdir())) == 2)


async def test_themes_change_and_are_remembered(tmp_path):
    async with held(tmp_path) as console:
        await console.press("T", "3")
    again = load(tmp_path / "config")
    assert (again.theme, again.screen) == ("day", "hosts")


async def test_a_keymap_of_ones_own(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "console.toml").write_text('theme = "clear"\n[keys]\nhosts = "f3"\nnonsense = "x"\n')
    config = load(tmp_path / "config")
    assert config.problems
    async with held(tmp_path, config=config) as console:
        await console.press("3")
        assert "ROBOTS" not in console.whole()
        await console.press("f3")
        await console.until(lambda: "ROBOTS" in console.whole())
        assert console.app.theme == "clear"


@pytest.mark.parametrize(
    ("key", "given", "leaves"),
    [("d", [], True), ("escape", [], False), ("s", [("cancel", {})], False), ("k", [("kill", {})], False)],
)
async def test_the_owner_is_asked_how_to_leave(tmp_path, key, given, leaves):
    async with held(tmp_path, owner=True) as console:
        await console.press("q")
        assert "Leave the console" in console.whole()
        await console.press(key)
        await console.until(lambda: console.control_client.given == given and console.app.is_running != leaves)
        if given:
            console.source.look = look(
                run=run(state={"s": "CANCELLED", "k": "KILLED"}[key], reason="cancelled by command")
            )
            console.source.alive = None
            await console.until(lambda: not console.app.is_running)
            assert console.app.return_code == {"s": 143, "k": 137}[key]


async def test_who_is_only_attached_just_detaches(tmp_path):
    async with held(tmp_path) as console:
        await console.press("ctrl+c")
        await console.until(lambda: not console.app.is_running)
        assert console.app.return_code == 0


async def test_what_is_typed_is_no_key(tmp_path):
    async with held(tmp_path, owner=True) as console:
        await console.press("slash")
        await console.type("qXc")
        assert console.app.prompt.value == "qXc"
        await console.press("escape")
        assert console.control_client.given == []
        assert "NODE" in console.whole()


async def test_escape_leaves_the_prompt_and_keeps_the_filter(tmp_path):
    async with held(tmp_path, screen="jobs") as console:
        await console.press("slash")
        await console.type("state:ready")
        await console.press("enter", "slash", "escape")
        assert not console.app.prompt.display
        assert "Jobs /state:ready" in console.whole()


async def test_clicks_choose_tabs_and_rows(tmp_path):
    async with held(tmp_path) as console:
        await console.pilot.click(offset=(22, 2))
        await console.until(lambda: "img.example" in console.whole())
        await console.pilot.click(offset=(5, 5))
        await console.still()
        assert console.app.navigation.views["hosts"].table.row.key == "img.example:443"
        await console.pilot.click(offset=(5, 5), times=2)
        await console.until(lambda: "Jobs /host:img" in console.whole())


def test_a_damaged_memory_hinders_nothing(tmp_path):
    (tmp_path / "console-state.json").write_text('["screen"]')
    assert load(tmp_path) == Config(tmp_path)
    assert KEYS_BY_ID["cancel"].keys == "c"
