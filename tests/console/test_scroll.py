"""Scroll bars and the mouse: wheel, dragging, clicks, and a screen that is redrawn only where it changed."""

import asyncio

from textual.events import MouseDown, MouseMove, MouseScrollDown, MouseScrollUp, MouseUp

from crawl_console.tui.widgets.scroll_pane import thumb_range
from crawl_engine.store.tables.run.events import Event
from tests.console.builders import AT, host, line, snapshot
from tests.console.fakes import FakeSource, open_console
from tests.console.pictures import drawn_strips

BAR = 79
"""The column of the scroll bar on a screen of 80 columns."""


def many_jobs(count=300):
    source = FakeSource()
    source.jobs_ = [line(number) for number in range(1, count + 1)]
    source.current = snapshot(jobs={**dict.fromkeys(source.current.jobs, 0), "done": count}, delayed=0)
    return source


def many_hosts(count=60, **changed):
    source = FakeSource()
    source.current = snapshot(hosts=[host(f"h{number:03}.x:80", **changed) for number in range(count)])
    return source


def long_log(count=200, length=20):
    source = FakeSource()
    text = "x" * length
    source.lines = [(n, Event(AT, "INFO", "super", "command", f"event {n} {text}", 1)) for n in range(1, count + 1)]
    return source


async def mouse(console, kind, x, y, times=1):
    for _ in range(times):
        await console.pilot._post_mouse_events([kind], offset=(x, y), button=1)


async def drag(console, x, start, end):
    await mouse(console, MouseDown, x, start)
    step = 1 if end > start else -1
    for y in range(start + step, end + step, step):
        await mouse(console, MouseMove, x, y)
    await mouse(console, MouseUp, x, end)


def thumb(console, x=BAR):
    """The rows of the screen on which the scroll bar's thumb is drawn."""
    return [y for y, text in enumerate(console.text()) if len(text) > x and text[x] == "█"]


async def jobs_read(console, count=30):
    await console.until(lambda: len(console.app.navigation.view_stack[-1].table.rows) >= count)
    return console.app.navigation.view_stack[-1].table


async def test_the_wheel_scrolls_and_the_cursor_stays_visible(tmp_path):
    async with open_console(tmp_path, source=many_jobs(), screen="jobs") as console:
        table = await jobs_read(console)
        await mouse(console, MouseScrollDown, 30, 10, times=3)
        step = int(console.app.scroll_sensitivity_y)
        assert table.first_visible == 3 * step
        assert table.row.key == 3 * step + 1
        assert "item/7 " in console.text()[6] + " "
        await mouse(console, MouseScrollUp, 30, 10, times=9)
        assert table.first_visible == 0
        assert table.row.key == 3 * step + 1, "the cursor was still visible, and stays"
        await console.press("j")
        assert table.row.key == 3 * step + 2


async def test_a_short_table_has_no_scroll_bar(tmp_path):
    async with open_console(tmp_path, screen="jobs") as console:
        await console.until(lambda: "item/3" in console.screen())
        assert thumb(console) == []
        await mouse(console, MouseScrollDown, 30, 10)
        assert console.app.navigation.views["jobs"].table.row.key == 1


async def test_the_scroll_bar_shows_the_place_in_the_whole_list(tmp_path):
    async with open_console(tmp_path, source=many_jobs(3000), screen="jobs") as console:
        table = await jobs_read(console)
        top = thumb(console)
        assert len(top) == 1, "the list is much longer than the part that was read"
        assert top[0] == table.region.y
        await console.press("G")
        await console.until(lambda: table.row is not None and table.row.key == 3000)
        assert thumb(console) == [table.region.bottom - 1]
        await console.press("g")
        await console.until(lambda: table.row is not None and table.row.key == 1)
        assert thumb(console) == top


async def test_the_thumb_is_dragged(tmp_path):
    async with open_console(tmp_path, source=many_hosts(), screen="hosts") as console:
        table = console.app.navigation.views["hosts"].table
        grip = thumb(console)[0]
        await mouse(console, MouseDown, BAR, grip)
        await mouse(console, MouseMove, BAR - 2, grip)
        await mouse(console, MouseUp, BAR, grip)
        assert table.first_visible == 0, "the mouse stayed on its line"
        await drag(console, BAR, grip, grip + 5)
        assert thumb(console)[0] == grip + 5
        assert f"h{table.first_visible:03}" in console.text()[table.region.y + 1]
        assert 0 < table.first_visible < 60 - table.page_lines
        await drag(console, BAR, grip + 5, 22)
        assert table.first_visible == 60 - table.page_lines
        await drag(console, BAR, thumb(console)[0], 3)
        assert table.first_visible == 0


async def test_a_thumb_dragged_to_an_end_reads_that_end(tmp_path):
    async with open_console(tmp_path, source=many_jobs(3000), screen="jobs") as console:
        table = await jobs_read(console)
        await drag(console, BAR, thumb(console)[0], table.region.bottom - 1)
        await console.until(lambda: "item/3000" in console.screen())
        await drag(console, BAR, thumb(console)[0], table.region.y)
        await console.until(lambda: "item/1 " in console.text()[6] + " " and table.first_visible == 0)


async def test_a_click_beside_the_thumb_turns_a_page(tmp_path):
    async with open_console(tmp_path, source=many_hosts(), screen="hosts") as console:
        table = console.app.navigation.views["hosts"].table
        await console.pilot.click(offset=(BAR, table.region.bottom - 1))
        await console.settle()
        assert table.first_visible == table.size.height
        await console.pilot.click(offset=(BAR, 5))
        await console.settle()
        assert table.first_visible == 0


async def test_a_click_finds_its_row_in_a_scrolled_table(tmp_path):
    async with open_console(tmp_path, source=many_hosts(), screen="hosts") as console:
        table = console.app.navigation.views["hosts"].table
        await mouse(console, MouseScrollDown, 30, 10, times=5)
        await console.pilot.click(offset=(10, table.region.y + 4))
        assert table.row.key == f"h{table.first_visible + 3:03}.x:80"


async def test_other_rows_keep_the_scroll_position(tmp_path):
    async with open_console(tmp_path, source=many_hosts(), screen="hosts") as console:
        table = console.app.navigation.views["hosts"].table
        await mouse(console, MouseScrollDown, 30, 10, times=5)
        first, bar, key = table.first_visible, thumb(console), table.row.key
        console.source.current = snapshot(hosts=[host(f"h{n:03}.x:80", running=3, pages=555) for n in range(60)])
        await console.until(lambda: "    555 " in console.screen())
        assert (table.first_visible, thumb(console), table.row.key) == (first, bar, key)
        line_of_cursor = next(y for y, text in enumerate(console.text()) if text.startswith(">"))
        new = [host(f"a{n:03}.x:80") for n in range(7)]
        console.source.current = snapshot(hosts=[*new, *console.source.current.hosts])
        await console.until(lambda: len(table.rows) == 67)
        assert table.first_visible == first + 7, "the rows before it moved it, not the rows in sight"
        assert key in console.text()[line_of_cursor]


async def test_the_log_is_scrolled_back_and_follows_again_at_its_end(tmp_path):
    async with open_console(tmp_path, source=long_log(), screen="log") as console:
        pane = console.app.navigation.views["log"].log_pane
        await console.until(lambda: "event 200" in console.screen() and thumb(console))
        assert thumb(console)[-1] == pane.region.bottom - 1
        await mouse(console, MouseScrollUp, 30, 10, times=4)
        assert not pane.following
        assert "event 200" not in console.screen()
        shown = console.text()[5]
        console.source.lines = [*console.source.lines, (201, Event(AT, "INFO", "super", "command", "event 201", 1))]
        await console.until(lambda: "▼ 1 new" in console.screen())
        assert console.text()[5] == shown, "new lines do not move the lines that are read"
        await mouse(console, MouseScrollDown, 30, 10, times=6)
        await console.until(lambda: "follow" in console.text()[4] and "event 201" in console.screen())


async def test_a_click_chooses_a_line_of_the_log(tmp_path):
    async with open_console(tmp_path, source=long_log(), screen="log") as console:
        pane = console.app.navigation.views["log"].log_pane
        await console.until(lambda: "event 200" in console.screen())
        event = next(number for number in range(180, 201) if f"event {number} " in console.text()[9])
        await console.pilot.click(offset=(40, 9))
        assert pane.event.text.startswith(f"event {event} ")
        assert console.text()[9].startswith(">")


async def test_a_wrapped_log_reaches_both_ends(tmp_path):
    async with open_console(tmp_path, source=long_log(60, 150), screen="log") as console:
        pane = console.app.navigation.views["log"].log_pane
        await console.until(lambda: "event 60" in console.screen())
        await console.press("w")
        assert thumb(console)[-1] == pane.region.bottom - 1
        await mouse(console, MouseScrollUp, 30, 10, times=1)
        assert not pane.following
        await drag(console, BAR, thumb(console)[0], pane.region.y)
        assert "event 1 " in console.text()[5]
        await mouse(console, MouseScrollDown, 30, 10, times=2)
        assert "event 5 " in console.text()[5], "two notches of two lines"
        await drag(console, BAR, thumb(console)[0], pane.region.bottom - 1)
        await console.until(lambda: pane.following and "event 60" in console.screen())


async def test_the_page_of_a_job_is_scrolled(tmp_path):
    source = FakeSource()
    source.page_text = "\n".join(f"line {n} of the page" for n in range(1, 201)).encode()
    async with open_console(tmp_path, source=source, screen="jobs") as console:
        await console.until(lambda: "item/1" in console.screen())
        await console.press("enter", "tab")
        await console.until(lambda: "line 1 of the page" in console.screen())
        pane = console.app.navigation.view_stack[-1].pane
        await mouse(console, MouseScrollDown, 30, 10, times=5)
        assert pane.first_line == 5 * int(console.app.scroll_sensitivity_y)
        await console.settle()
        assert pane.first_line == 5 * int(console.app.scroll_sensitivity_y), "a poll keeps the position"
        await drag(console, BAR, thumb(console)[0], pane.region.bottom - 1)
        assert "line 200 of the page" in console.screen()
        await console.press("g")
        assert pane.first_line == 0
        assert thumb(console)[0] == pane.region.y


async def test_an_unchanged_poll_draws_nothing(tmp_path, monkeypatch):
    """Scrolled panes with scroll bars on the screen, poll after poll."""
    for screen, source in (("jobs", many_jobs()), ("hosts", many_hosts()), ("log", long_log())):
        async with open_console(tmp_path, source=source, screen=screen) as console:
            await console.until(lambda: thumb(console))
            await mouse(console, MouseScrollUp, 30, 10, times=2)
            await mouse(console, MouseScrollDown, 30, 10)
            await console.settle()
            drawn = []
            update = console.app.screen._compositor.render_update
            monkeypatch.setattr(
                console.app.screen._compositor,
                "render_update",
                lambda *a, update=update, drawn=drawn, **kw: drawn.append(a) or update(*a, **kw),
            )
            for _ in range(4):
                await console.settle()
            assert drawn == [], screen


async def test_a_line_more_of_the_log_leaves_the_scroll_bar_alone(tmp_path, monkeypatch):
    async with open_console(tmp_path, source=long_log(3000), screen="log") as console:
        pane = console.app.navigation.views["log"].log_pane
        await console.until(lambda: thumb(console))
        refreshed = []
        monkeypatch.setattr(pane.vertical_scrollbar, "refresh", lambda *a, **kw: refreshed.append(a))
        await asyncio.sleep(0.5)  # what opening the screen left to draw
        refreshed.clear()
        last = console.source.lines[-1][0]
        console.source.lines = [*console.source.lines, (last + 1, Event(AT, "INFO", "super", "command", "one more", 1))]
        await console.until(lambda: "one more" in console.screen())
        assert refreshed == []


async def test_without_utf8_the_scroll_bar_is_ascii(tmp_path):
    async with open_console(tmp_path, source=many_hosts(), screen="hosts", ascii_only=True) as console:
        table = console.app.navigation.views["hosts"].table
        bar = [text[BAR:] for text in console.text()[table.region.y : table.region.bottom]]
        assert "".join(bar).strip("#") == ""
        assert 0 < bar.count("#") < table.size.height


async def test_themes_change_the_scroll_bar(tmp_path):
    async with open_console(tmp_path, source=many_hosts(), screen="hosts") as console:

        def style():
            strip = drawn_strips(console.app)[thumb(console)[0]]
            return next(iter(strip.crop(BAR, BAR + 1))).style

        before = style()
        await console.press("T")
        await console.until(lambda: style().color != before.color)


def test_the_thumb_touches_an_end_only_at_the_end():
    assert thumb_range(20, 10, 20, 0) == (0, 0), "everything is visible"
    assert thumb_range(20, 1_000_000, 20, 0) == (0, 1)
    assert thumb_range(20, 1_000_000, 20, 1) == (1, 2)
    assert thumb_range(20, 1_000_000, 20, 999_979) == (18, 19)
    assert thumb_range(20, 1_000_000, 20, 999_980) == (19, 20)
    assert thumb_range(20, 21, 20, 0) == (0, 19)
    assert thumb_range(20, 21, 20, 1) == (1, 20)
    for position in range(81):
        first, last = thumb_range(20, 100, 20, position)
        assert last - first == 4
        assert 0 <= first <= 16
