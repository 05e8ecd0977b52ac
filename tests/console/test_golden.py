"""Golden screens, as text and as SVG. `just snap` writes them again; review the diff."""

import contextlib
import os
import re
from pathlib import Path

import pytest

from tests.console.builders import AT, browsing, samples
from tests.console.fakes import FakeSource, open_console

GOLDEN = Path(__file__).with_name("golden")
SIZES = ((80, 24), (120, 40), (160, 48))
SCREENS = ("nodes", "jobs", "hosts", "failed", "defs", "log", "plots", "runs")


def picture(console):
    """The screen as SVG, without the parts that change with every export."""
    svg = console.app.export_screenshot(title="crawl-console")
    svg = re.sub(r"terminal-\d+", "terminal-0", svg)
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


async def compare(console, name):
    """The screen comes to look like the golden one; on a busy machine some moments after its data are there."""
    text = GOLDEN / f"{name}.txt"
    if os.environ.get("SNAP"):
        GOLDEN.mkdir(exist_ok=True)
        text.write_text(drawn(console), "utf-8")
        text.with_suffix(".svg").write_text(picture(console), "utf-8")
    expected = text.read_text("utf-8")
    with contextlib.suppress(AssertionError):
        await console.until(lambda: drawn(console) == expected)
    assert drawn(console) == expected, f"{name} looks different; if it should: just snap"


def drawn(console):
    return "\n".join(console.text()) + "\n"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screens_match_the_golden_files(tmp_path, monkeypatch, size):
    monkeypatch.setattr("time.time", lambda: AT + 300)
    (tmp_path / "defs").mkdir()
    for name in ("shop.yaml", "hosts.yaml"):
        (tmp_path / "defs" / name).write_text("hosts: {}\n")
        os.utime(tmp_path / "defs" / name, (AT, AT))
    source = FakeSource()
    source.samples_ = samples()
    async with open_console(tmp_path, size=size, source=source) as console:
        await console.until(lambda: "shop.example last 2 ok" in console.screen())
        for number, name in enumerate(SCREENS, 1):
            await console.press(str(number))
            await console.settle()
            await compare(console, f"{name}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["80x24", "160x48"])
async def test_browsers_below_their_nodes_match_the_golden_files(tmp_path, size):
    source = FakeSource()
    source.current = browsing()
    async with open_console(tmp_path, size=size, source=source) as console:
        await console.until(lambda: "shop.example last 2 ok" in console.screen())
        await compare(console, f"browsers-{size[0]}x{size[1]}")


@pytest.mark.parametrize(
    ("name", "keys"),
    [("keys", "?"), ("leave", "q"), ("cancel", "c"), ("kill", "X"), ("palette", ":"), ("job", "2\r")],
)
async def test_dialogs_match_the_golden_files(tmp_path, name, keys):
    async with open_console(tmp_path, owner=True) as console:
        for key in keys:
            await console.press({"\r": "enter", "?": "question_mark", ":": "colon"}.get(key, key))
            await console.settle()
        await compare(console, f"{name}-80x24")
