"""The key `y` while saved defs wait to be published."""

import pytest

from crawl_console.tui.state.live_preview import SavedPreview
from crawl_engine.model.run import Alarm
from tests.console.builders import snapshot
from tests.console.fakes import FakeSource, open_console

SAVED = {"hash": "abc", "text": "book: 1 field changed", "at": 1_700_000_000.0}


async def test_y_publishes_saved_defs_after_asking(tmp_path):
    source = FakeSource()
    waiting = Alarm("defs-saved", "defs saved, not published: book: 1 field changed")
    source.current = snapshot(defs_saved=SAVED, nodes=[], alarms=[waiting])
    async with open_console(tmp_path, source=source) as console:
        assert "defs saved, not published (y publishes, 5 shows)" in console.screen()
        await console.press("y")
        assert "Publish the saved defs" in console.screen()
        await console.press("n")
        assert console.control_client.commands == []
        await console.press("2", "y", "y")
        await console.until(lambda: console.control_client.commands == [("reload", {"saved": "abc"})])


async def test_y_on_the_defs_screen_publishes_what_it_shows(tmp_path):
    source = FakeSource()
    source.current = snapshot(defs_saved=SAVED)
    async with open_console(tmp_path, source=source) as console:
        await console.press("5")
        view = console.app.navigation.views["defs"]
        await console.until(lambda: view._saved_preview is not None)
        view._saved_preview = SavedPreview("other", [("a plan of other files", "text")])
        await console.press("y")
        assert "Publish the saved defs" in console.screen(), "what is shown is not what waits"
        await console.press("n")
        view._saved_preview = SavedPreview("abc", [("book: +1 ~0 −0", "text")])
        await console.settle()
        assert "book: +1" in console.screen()
        await console.press("y")
        await console.until(lambda: console.control_client.commands == [("reload", {"saved": "abc"})])


@pytest.mark.parametrize("read_only", [False, True])
async def test_y_copies_where_no_defs_wait_or_the_console_only_reads(tmp_path, read_only):
    source = FakeSource()
    source.current = snapshot(defs_saved=SAVED if read_only else None)
    async with open_console(tmp_path, source=source, read_only=read_only) as console:
        await console.press("y")
        assert console.control_client.commands == []
        assert "Publish" not in console.screen()
        assert any("copied" in toast for toast in console.toasts())
