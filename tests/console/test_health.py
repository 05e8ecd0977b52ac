"""The health line names what is wrong and is never dropped; a key goes to the cause."""

import re

import pytest
from msgspec.structs import replace

from crawl_console.format import format_time
from crawl_console.tui.config import Config
from crawl_console.tui.widgets.line_canvas import Line, _to_strip
from crawl_console.words.health_line import health_spans
from crawl_engine.model.host import HostState
from crawl_engine.model.run import Alarm, Judgement
from tests.console.builders import AT, group, host, node, run, snapshot
from tests.console.fakes import FakeSource, open_console
from tests.console.pictures import drawn_strips

REST = Alarm("host-resting", "img.example:443 rests 24 s after HTTP 429", host="img.example:443")
SILENT = Alarm("host-silent", "slow.example:80 is silent for 24 s", "bad", host="slow.example:80")
REFUSED = Alarm("host-refused", "img.example:443 refuses the crawler: HTTP 403", "bad", host="img.example:443")
EMPTY = Alarm("empty-field", "book.title is empty since page 101", data_def="book", field="title")
LOST = Alarm("node-lost", "n2 dead: signal 9; not replaced", "bad", subject="n2")
DISK = Alarm("disk-low", "the disk is nearly full", "bad")


def troubled(*alarms, groups=None, **changes):
    source = FakeSource()
    groups = (group("ok", 9),) if groups is None else groups
    source.current = snapshot(run=run(judgement=Judgement(hosts=groups)), alarms=list(alarms), **changes)
    return source


OK8, OK7, OK3 = (group("ok", count) for count in (8, 7, 3))
RESTS = group("resting", 1, "img.example:443")


@pytest.mark.parametrize(
    ("groups", "alarms", "expected"),
    [
        ((group("ok", 9),), (), "● 9 hosts ok"),
        ((OK8, RESTS), (REST,), "● 8 hosts ok  ◌ img.example:443 rests 24 s after HTTP 429"),
        (
            (OK7, group("resting", 2, "img.example:443", "b:80")), (REST, replace(REST, host="b:80")),
            "● 7 hosts ok  ◌ 2 rest: img.example:443, b:80",
        ),
        (
            (OK3, group("resting", 6, "a:80", "b:80", "c:80", "d:80", "e:80")),
            (replace(REST, host=None, count=6, text="6 hosts rest"),),
            "● 3 hosts ok  ◌ 6 rest: a:80, b:80, c:80, d:80, e:80, +1",
        ),
        (
            (group("refused", 3, "a:80", "b:80", "c:80"), group("ok", 2)),
            (replace(REFUSED, code="blocked", host="a:80"), replace(REFUSED, code="blocked", host="b:80")),
            "● 2 hosts ok  ⊘ 3 refused: a:80, b:80, c:80",
        ),
        (
            (OK7, group("silent", 1, "slow.example:80"), group("unasked", 1, "new.example:80")), (SILENT,),
            "● 7 hosts ok  ✗ slow.example:80 is silent for 24 s  · 1 not asked",
        ),
        ((group("ok", 9),), (EMPTY,), "● 9 hosts ok  ! book.title is empty since page 101"),
        ((OK8, RESTS), (LOST, REST), "✗ n2 dead: signal 9; not replaced ● 8 hosts ok  ◌ 1 rest"),
        ((group("ok", 9),), (LOST, EMPTY), "✗ n2 dead: signal 9; not replaced  (+1 more: A) ● 9 hosts ok"),
        ((OK8, RESTS), (replace(REST, acknowledged=True),), "● 8 hosts ok  ◌ 1 rest: img.example:443"),
        ((group("paused", 1, "a:80"),), (), "‖ 1 paused: a:80"),
    ],
)  # fmt: skip
async def test_the_health_line_says_how_the_hosts_are_and_the_worst_of_the_rest(tmp_path, groups, alarms, expected):
    acknowledged = frozenset(alarm.key for alarm in alarms if alarm.acknowledged)
    async with open_console(tmp_path, source=troubled(*alarms, groups=groups, acknowledged=acknowledged)) as console:
        line = re.sub(r"(?: · since \d\d:\d\d)?(?: · ! p pauses it)?", "", console.text()[2].strip())
        assert line.startswith(expected)
        assert line.endswith("! jump") == any(not alarm.acknowledged for alarm in alarms)
        quiet = sum(alarm.acknowledged for alarm in alarms)
        assert ("✓ 1" in console.text()[0]) == bool(quiet)


@pytest.mark.parametrize("size", [(160, 48), (80, 24), (40, 24), (80, 10), (20, 6)])
async def test_the_health_line_is_on_every_screen_of_any_size(tmp_path, size):
    rest = replace(REST, host=None, count=2, text="2 hosts rest; a:80 rests 3 s")
    source = troubled(DISK, rest, groups=(OK7, group("resting", 2, "a:80", "b:80")))
    async with open_console(tmp_path, size=size, source=source) as console:
        for key in "12345678":
            await console.press(key)
            line = console.text()[2 if size[1] >= 14 else 1]
            assert "✗ the disk" in line
            assert size[0] < 40 or "◌ 2 rest" in line
        assert len(console.text()) == size[1]
        assert all(len(line) <= size[0] for line in console.text())


async def test_a_key_goes_from_trouble_to_trouble(tmp_path):
    source = troubled(REFUSED, LOST, EMPTY, nodes=[node(1), node(2)], hosts=[host("a:80"), host("img.example:443")])
    async with open_console(tmp_path, source=source) as console:
        await console.press("exclamation_mark")
        await console.until(lambda: "ROBOTS" in console.screen())
        await console.until(lambda: console.app.navigation.top.table.row.key == "img.example:443")
        assert any("1 of 3: img.example:443 refuses" in toast for toast in console.toasts())
        await console.press("exclamation_mark")
        await console.until(lambda: "NODE" in console.screen())
        await console.until(lambda: console.app.navigation.top.nodes.row.key == "n2")
        await console.press("exclamation_mark")
        await console.until(lambda: "preview of book" in console.screen())
        await console.press("exclamation_mark")
        await console.until(lambda: "ROBOTS" in console.screen(), 8.0)
        source.current = snapshot(alarms=[])
        await console.settle()
        await console.press("exclamation_mark")
        await console.until(lambda: any("no trouble now" in toast for toast in console.toasts()))


async def test_enter_on_an_alarm_goes_to_its_cause(tmp_path):
    async with open_console(tmp_path, source=troubled(REST)) as console:
        await console.press("A")
        await console.until(lambda: "! now" in console.screen())
        await console.press("enter")
        await console.until(lambda: "ROBOTS" in console.screen())
        await console.until(lambda: console.app.navigation.top.table.row.key == "img.example:443")


async def test_trouble_stands_first_and_a_letter_sorts(tmp_path):
    hosts = [
        host("a:80", pages=5),
        host("b:80", pages=500, errors=400, state=HostState.FAILING),
        host("c:80", pages=50),
    ]
    async with open_console(tmp_path, source=troubled(hosts=hosts), screen="hosts") as console:

        def keys():
            return [row.key for row in console.app.navigation.top.table.rows]

        await console.until(lambda: keys() == ["b:80", "a:80", "c:80"])
        for pressed, expected in (
            (("s", "d"), ["b:80", "c:80", "a:80"]),
            (("s", "d"), ["a:80", "c:80", "b:80"]),
            (("s", "h"), ["a:80", "b:80", "c:80"]),
            (("s", "escape"), ["a:80", "b:80", "c:80"]),
            (("s", "D"), ["a:80", "b:80", "c:80"]),
        ):
            await console.press(*pressed)
            await console.until(lambda expected=expected: keys() == expected)
            assert console.control_client.commands == [], "a letter is no command"
            assert not console.app.navigation.top.table.awaits_key


async def test_the_keys_are_searched(tmp_path):
    async with open_console(tmp_path, size=(160, 60)) as console:
        await console.press("question_mark", "slash")
        await console.type("retry")
        await console.until(lambda: "next row" not in console.screen())
        assert "retry marked or matching" in console.screen()
        await console.press("escape")
        await console.until(lambda: "next row" in console.screen())
        await console.press("escape")
        await console.until(lambda: "NODE" in console.screen())


async def test_hints_are_those_of_the_keymap_and_of_read_only(tmp_path):
    config = Config(tmp_path / "config", keys={"kill": "f9", "drain": "K", "log_filter": "c"})
    async with open_console(tmp_path, config=config, size=(160, 24)) as console:
        hints = console.text()[-1]
        assert " f9 kill" in hints and " K drain" in hints
        assert "cancel" not in hints, "its key is another one's now"
    async with open_console(tmp_path, size=(160, 24), read_only=True) as console:
        hints = console.text()[-1]
        assert "kill" not in hints and "pause" not in hints
        assert "jobs" in hints and "mark" in hints


async def test_no_color_paints_no_ground(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_console(tmp_path, source=troubled(DISK)) as console:
        app = console.app
        for strip in drawn_strips(app):
            segments = list(strip)
            for line_filter in app.get_line_filters():
                segments = line_filter.apply(segments, app.screen.styles.background)
            for segment in segments:
                style = segment.style
                assert style is None or style.bgcolor is None or style.bgcolor.is_default
                assert style is None or style.color is None or style.color.is_default


@pytest.mark.parametrize(
    ("variables", "works", "words"),
    [
        ({"TMUX": "/tmp/tmux,1,0"}, True, "copied to tmux's buffer"),
        ({"TMUX": "/tmp/tmux,1,0"}, False, "not copied: tmux: no server"),
        ({"TERM": "linux"}, True, "not copied: this terminal has no clipboard"),
        ({"STY": "12.tty"}, True, "not copied: this terminal has no clipboard"),
        ({"TERM": "xterm"}, True, "copied"),
    ],
)
async def test_a_copy_says_where_it_went(tmp_path, monkeypatch, variables, works, words):
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tmux").write_text(
        f"#!/bin/sh\n{f'cat > {tmp_path}/copied' if works else 'echo no server >&2; exit 1'}\n"
    )
    (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    async with open_console(tmp_path, screen="jobs") as console:
        await console.until(lambda: "item/1" in console.screen())
        await console.press("y")
        await console.until(lambda: any(toast.startswith(words) for toast in console.toasts()))
        if works and "TMUX" in variables:
            assert (tmp_path / "copied").read_text() == "https://shop.example/item/1"


async def test_a_host_of_a_run_that_does_not_run_has_no_next_request(tmp_path):
    source = troubled(hosts=[host("a:80", next_in=0.4)])
    source.supervisor = None
    async with open_console(tmp_path, source=source, screen="hosts") as console:
        await console.until(lambda: " a:80 " in console.screen())
        [line] = [line for line in console.text() if " a:80 " in line and "ok 200" in line]
        assert " now " not in line and " 0.4s" not in line


def later_host(*alarms, **changes):
    """A run of more hosts than the screen reads; the alarm names one of those left out."""
    source = troubled(*alarms)
    source.current = replace(source.current, hosts=[host(f"h{number:04}.x:80") for number in range(1_000)])
    source.later_hosts = [host("img.example:443", running=3, waiting=4, **changes)]
    return source


async def test_the_host_of_an_alarm_is_shown_beyond_the_first_thousand(tmp_path):
    async with open_console(tmp_path, source=later_host(REST), size=(140, 40)) as console:
        await console.press("exclamation_mark")
        table = console.app.navigation.views["hosts"].table
        await console.until(lambda: table.row is not None and table.row.key == "img.example:443")
        assert "the first 1000 hosts and img.example:443" in console.screen()
        console.source.current = replace(console.source.current, bad_answers=1)
        await console.settle()
        assert table.row.key == "img.example:443"
        await console.press("p")
        await console.until(lambda: console.control_client.commands)
        assert console.control_client.commands[0][1] == {"host": "img.example:443", "paused": True}
        console.source.supervisor = None
        await console.until(lambda: table.row.subject.running == 0)
        assert table.row.subject.waiting == 7


async def test_no_key_acts_on_another_host_than_that_of_the_alarm(tmp_path):
    source = later_host(REST)
    source.later_hosts = []
    async with open_console(tmp_path, source=source, screen="hosts") as console:
        view = console.app.navigation.views["hosts"]
        await console.until(lambda: view.table.row is not None)
        await console.press("exclamation_mark")
        await console.until(lambda: view.wanted is None)
        assert any("img.example:443 is not among the rows shown" in text for text in console.toasts())
        await console.press("p")
        assert console.control_client.commands == []
        source.later_hosts = [host("img.example:443")]
        await console.settle()
        assert view.table.row is None, "the cursor moves no more by itself"
        await console.press("down", "p")
        await console.until(lambda: console.control_client.commands)


async def test_a_node_hidden_by_the_filter_is_not_gone_to_once_it_is_cleared(tmp_path):
    async with open_console(tmp_path, source=troubled(LOST, nodes=[node(1), node(2), node(3)])) as console:
        view = console.app.navigation.views["nodes"]
        view.nodes.set_filter("n3")
        await console.settle()
        await console.press("exclamation_mark")
        await console.until(lambda: view.wanted is None)
        view.nodes.set_filter("")
        await console.settle()
        await console.settle()
        assert view.nodes.row is None
        await console.press("x")
        assert console.control_client.commands == []


@pytest.mark.parametrize(
    "change",
    [
        lambda: [node(1), node(2, "TERMINATED", pid=None), node(3), node(4)],
        lambda: [node(1), node(2, "DEAD", pid=None), node(3), node(4, "DEAD", pid=None)],
        lambda: [node(1), node(3), node(4)],
    ],
    ids=["retired", "folded", "gone"],
)
@pytest.mark.parametrize("marked", [False, True])
async def test_no_key_acts_on_the_neighbour_of_a_node_that_is_gone(tmp_path, change, marked):
    async with open_console(tmp_path, source=troubled(nodes=[node(n) for n in (1, 2, 3, 4)])) as console:
        table = console.app.navigation.views["nodes"].nodes
        await console.press("down", *(["space"] if marked else []))
        assert {row.key for row in table.selected_rows()} == {"n2"}
        console.source.current = snapshot(nodes=change())
        await console.until(lambda: all(row.key != "n2" for row in table.rows))
        await console.press("x")
        assert console.control_client.commands == []
        await console.press("up", "x")
        await console.until(lambda: console.control_client.commands)


async def test_a_data_def_that_is_gone_is_not_gone_to_later(tmp_path):
    async with open_console(tmp_path, source=troubled(replace(EMPTY, data_def="old"))) as console:
        await console.press("exclamation_mark")
        view = console.app.navigation.views["defs"]
        await console.until(lambda: view.is_mounted and view.wanted is None)
        assert any("old is not among the dataDefs" in text for text in console.toasts())


async def test_no_line_is_cut_without_an_ellipsis(tmp_path):
    names = tuple(f"long-name-{number}.example:443" for number in range(5))
    source = troubled(replace(REFUSED, code="blocked"), groups=(group("ok", 2), group("refused", 5, *names)))
    for width, expected in (
        (60, "⊘ 5 refused"), (100, "long-name-0.example:443, long-name-1.example:443, +3"),
        (160, "long-name-4.example:443"),
    ):  # fmt: skip
        async with open_console(tmp_path, source=source, size=(width, 24)) as console:
            assert expected in console.text()[2]
            styles = console.app.theme_styles
            assert _to_strip(Line((("x" * width, ""), ("y", ""))), width, styles).text == "x" * (width - 1) + "…"
            assert _to_strip(Line((("x" * (width + 1), ""),)), width, styles).text == "x" * (width - 1) + "…"
            assert _to_strip(Line((("─" * 200, ""),)), width, styles).text == "─" * width


def test_a_host_in_trouble_says_since_when_and_what_to_press():
    fails = Alarm("failing-requests", "a:80 fails: 9 of the last 50 answers bad (HTTP 500)", host="a:80", since=AT)
    groups = (group("ok", 6), group("failing", 1, "a:80"))
    since = format_time(AT)[:5]
    text = "".join(part for part, _ in health_spans(groups, [fails], 120, remedy="! p pauses it"))
    assert f"✗ {fails.text} · since {since} · ! p pauses it" in text
    narrow = "".join(part for part, _ in health_spans(groups, [fails], 60, remedy="! p pauses it"))
    assert len(narrow) <= 60
    assert "a:80" in narrow
