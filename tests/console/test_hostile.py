"""Hostile text from pages: no crash, no action, no control byte sent to the terminal."""

import random
import re

import pytest

from crawl_console.sanitize import clean
from crawl_console.tui.quit import QuitFlow
from crawl_engine.store.tables.run.events import Event
from tests.console.builders import AT, host, line, node, output, run, sequence, snapshot
from tests.console.fakes import FakeSource, open_console
from tests.console.pictures import drawn_strips

PIECES = (
    "\x1b[2J", "\x1b]52;c;cHduZWQ=\x07", "\x1b]0;owned\x07", "\x1bP+q544e\x1b\\", "\x9b31m", "\x90",
    "\x07", "\x08", "\x7f", "[/b]", "[bold]", "[@click=app.kill]x[/]", "[link=https://evil]", "[/",
    "[[", "]]", "\\[", "[red]", "[@click='app.exit']", "\u202e", "\u2066", "\u200b", "\u200d",
    "\ufeff", "\ufe0f", "\u2028", "\u0301" * 9, "漢字", "👩‍👩‍👧", "ｆｕｌｌ", "\U000e0041", "\n", "\r", "\t",
    "\0", "%s", "{x}", "$(id)", "é", "\ud800", "ﷺ", "\u3164", "a" * 300, "🇩🇪", "\x1b[?1049l", "\x1bc",
)  # fmt: skip
RAW = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufe0f]")
SCREENS = ("nodes", "jobs", "hosts", "failed", "defs", "log", "plots", "runs")


def hostile(seed, count):
    rng = random.Random(seed)
    return ["".join(rng.choices(PIECES, k=rng.randint(1, 6))) for _ in range(count)]


def poisoned(texts):
    """A source in which every text is hostile."""
    text = iter(texts * 3)
    source = FakeSource()
    source.current = snapshot(
        run=run(reason=next(text), paused="operator"),
        nodes=[node(n, now=next(text)) for n in range(1, 5)] + [node(5, "DEAD", pid=None, reason=next(text))],
        sequences=[sequence(n, next(text), next(text)) for n in range(1, 4)],
        sequence_count=3,
        hosts=[host(f"{next(text)}{n}", backoff=3.0) for n in range(4)],
        appenders=[output(next(text), path=next(text))],
        rows={next(text): 3},
        rejected={next(text): 1},
    )
    levels = ("INFO", "WARNING", "ERROR")
    source.lines = [
        (n, Event(AT, levels[n % 3], next(text)[:9], "page", next(text), 2)) for n in range(1, 20)
    ]  # fmt: skip
    source.jobs_ = [
        line(n, "FAILED", url=f"https://x/{next(text)}", reason=next(text), group=next(text), host=next(text))
        for n in range(1, 12)
    ]  # fmt: skip
    source.page_text = next(text).encode("utf-8", "surrogatepass") + b"\x1b]52;c;eA==\x07\xff\xfe"
    return source


def raw_in(console):
    return [s.text for strip in drawn_strips(console.app) for s in strip if s.control or RAW.search(s.text)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.sweep) for n in range(1, 4))])
async def test_hostile_text_is_shown_as_text_only(tmp_path, monkeypatch, seed):
    """4 × 250 strings, each in several places and on every screen."""
    actions = []
    monkeypatch.setattr(QuitFlow, "close_console", lambda self: actions.append("close"))
    source = poisoned(hostile(seed, 250))
    size = ((80, 24), (160, 48), (50, 12))[seed % 3]
    async with open_console(tmp_path, source=source, size=size) as console:
        for number, name in enumerate(SCREENS, 1):
            await console.press(str(number))
            assert raw_in(console) == [], name
            if size != (50, 12):
                await console.pilot.click(offset=(30, 6))
                await console.pilot.click(offset=(30, size[1] // 2))
            while len(console.app.screen_stack) > 1:
                await console.press("escape")
        await console.press("4", "enter")
        for _ in range(6):
            await console.press("tab")
            assert raw_in(console) == []
        for text in hostile(seed + 100, 5):
            console.app.show_toast(text)
            console.app.actions.confirm_then(text, [text, text], text, lambda: actions.append("yes"))
            await console.pilot.pause()
            assert raw_in(console) == []
            await console.press("escape")
        await console.press("colon")
        assert raw_in(console) == []
        await console.press("escape")
        assert actions == []
        assert console.control_client.commands == []


def test_clean_removes_control_characters_and_keeps_text():
    for text in hostile(7, 1000):
        assert not RAW.search(clean(text))
        clean(text).encode()
    assert clean("Žlutý čaj 漢字 – 5 €") == "Žlutý čaj 漢字 – 5 €"
