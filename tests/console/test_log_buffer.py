"""Warnings and errors have a buffer of their own: a flood of pages, a gap or a late attach loses none of them."""

from crawl_engine.store.tables.run.events import Event
from tests.console.builders import AT, snapshot
from tests.console.fakes import FakeSource, open_console

JOBS = snapshot().jobs


def page(number):
    return number, Event(AT, "INFO", "n1", "page", f"200   84 ms   12 kB  24 rows  https://a/{number}", number)


def failure(number):
    return number, Event(AT, "ERROR", "n1", "page", f"FAILED HTTP 500 (4 attempts)  https://a/{number}", number)


def busy(failures, pages):
    source = FakeSource()
    source.lines = [*map(failure, range(1, failures + 1)), *map(page, range(failures + 1, failures + pages + 1))]
    source.current = snapshot(alarms=[], jobs={**JOBS, "failed": failures})
    return source


async def test_a_console_that_attaches_late_shows_the_trouble_of_before(tmp_path):
    async with open_console(tmp_path, source=busy(76, 9_000)) as console:
        await console.until(lambda: "HTTP 500" in console.screen())
        assert "no trouble" not in console.screen()
        assert "×76" in console.screen()


async def test_trouble_is_shown_after_a_while_on_another_screen(tmp_path):
    source = busy(0, 20)
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: "✓ no trouble" in console.screen())
        await console.press("3")
        source.lines += [*map(failure, range(21, 97)), *map(page, range(97, 6_000))]
        source.current = snapshot(alarms=[], jobs={**JOBS, "failed": 76})
        await console.settle()
        await console.press("1")
        await console.until(lambda: "HTTP 500" in console.screen())
        assert "no trouble" not in console.screen()
        await console.press("tab", "equals_sign", "equals_sign")
        await console.until(lambda: "HTTP 500" in console.screen())


async def test_failed_pages_without_a_line_are_no_peace(tmp_path):
    source = busy(0, 20)
    source.current = snapshot(alarms=[], jobs={**JOBS, "failed": 76})
    async with open_console(tmp_path, source=source) as console:
        await console.until(lambda: "76 pages failed: 4 lists them" in console.screen())
        assert "no trouble" not in console.screen()
