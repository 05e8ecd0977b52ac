"""The pictures of the docs: they belong to the screens as they are, and fit any monospace font."""

import re
from xml.etree import ElementTree

import pytest

from tests.console.fakes import open_console
from tests.console.pictures import CELL_WIDTH, draw_screen, drawn_strips
from tests.console.shots import FOLDER, SHOTS, describe

SVG = "{http://www.w3.org/2000/svg}"


def lines_of(picture):
    """The text of a picture, by the place of each character."""
    lines = {}
    for text in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        starts = text.get("x").split()
        assert len(starts) == len(text.text), "each character has its own place"
        for start, character in zip(starts, text.text, strict=True):
            lines.setdefault(int(text.get("y")), {})[int(start) // CELL_WIDTH] = character
    return ["".join(line.get(cell, " ") for cell in range(max(line) + 1)) for _, line in sorted(lines.items())]


async def test_a_picture_has_each_character_in_its_cell(tmp_path):
    async with open_console(tmp_path) as console:
        picture = draw_screen(drawn_strips(console.app), "a < b")
        assert lines_of(picture) == [line for line in console.text() if line]
        assert ElementTree.fromstring(picture).find(f"{SVG}desc").text == "a < b"


@pytest.mark.parametrize("name", SHOTS)
def test_a_picture_was_drawn_since_its_screen_changed(name):
    picture = (FOLDER / f"{name}.svg").read_text("utf-8")
    note = re.search(r"<desc>(.*?)</desc>", picture)
    assert note is not None and note[1] == describe(name), "the screen has changed: just shots"


def test_every_picture_is_drawn_and_shown():
    drawn = {path.stem for path in FOLDER.glob("*.svg")}
    pages = [FOLDER.parents[1] / "README.md", FOLDER.parent / "console.md"]
    shown = {name for page in pages for name in re.findall(r"screens/(\w+)\.svg", page.read_text("utf-8"))}
    assert drawn == set(SHOTS) == shown
