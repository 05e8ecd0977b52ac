"""What the console shows when something fails."""

import pytest
from msgspec.structs import replace

from crawl_console.cli.main import main
from crawl_console.terminal import ascii_only, unsupported_reason
from crawl_console.tui.themes import AsciiFilter
from crawl_engine.model.run import Alarm
from tests.console.builders import run, snapshot
from tests.console.fakes import open_console
from tests.console.pictures import drawn_strips


async def test_a_failed_poll_is_reported_and_polling_continues(tmp_path):
    async with open_console(tmp_path) as console:
        console.source.error = "crawl.db: database is locked"
        await console.until(lambda: "stale" in console.text()[0])
        await console.until(lambda: "database is locked" in console.screen())
        assert "n1" in console.screen(), "the last figures stay"
        console.source.error = None
        await console.until(lambda: "stale" not in console.text()[0])


async def test_an_ended_run_with_ready_jobs_is_not_reported_as_a_crash(tmp_path):
    async with open_console(tmp_path) as console:
        current = console.source.current
        console.source.current = replace(current, run=replace(current.run, stage="SHUTDOWN_COMPLETE"))
        console.source.supervisor = None
        await console.until(lambda: "RESUMABLE" in console.text()[0])
        assert "jobs are READY again: `crawl-console run`" in console.screen()
        assert "supervisor is gone" not in console.screen()


async def test_a_dead_supervisor_is_reported_with_a_remedy(tmp_path):
    async with open_console(tmp_path) as console:
        console.source.supervisor = None
        await console.until(lambda: "SUPERVISOR LOST" in console.text()[0])
        assert "`crawl-console run`" in console.screen()
        console.source.current = snapshot(run=run(paused="operator"))
        await console.until(lambda: "SUPERVISOR LOST 00:12:34  ‖ paused  run" in console.text()[0])
        await console.press("c")
        assert console.control_client.commands == []
        assert any("no supervisor" in toast for toast in console.toasts())


async def test_a_full_disk_is_an_alarm(tmp_path):
    async with open_console(tmp_path) as console:
        console.source.current = snapshot(
            run=run(paused="disk"), alarms=[Alarm("disk-low", "disk nearly full: 10 MB free", "bad")]
        )
        await console.until(lambda: "disk nearly full" in console.screen())
        assert "PAUSED 00:12:34  ‖ the disk is nearly full" in console.text()[0]


async def test_without_utf8_every_cell_is_ascii(tmp_path):
    async with open_console(tmp_path, ascii_only=True, size=(160, 48)) as console:
        for key in "1234567":
            await console.press(key)
            strips = drawn_strips(console.app)
            drawn = [segment for strip in strips for segment in strip]
            filtered = AsciiFilter().apply(drawn, console.app.screen.styles.background)
            assert all(segment.text.isascii() for segment in filtered)
            assert sum(s.cell_length for s in filtered) == sum(s.cell_length for s in drawn)
        assert any(isinstance(f, AsciiFilter) for f in console.app.get_line_filters())


async def test_without_utf8_keys_have_ascii_labels(tmp_path):
    async with open_console(tmp_path, ascii_only=True, size=(160, 48)) as console:
        assert "enter jobs" in console.text()[-1]
        await console.press("question_mark")
        await console.until(lambda: "esc closes" in console.screen())
        for label in ("enter  open", "S-tab  previous pane", "    j  next row", "    k  previous row", "    /  filter"):
            assert label in console.screen()


async def test_no_color_is_respected(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_console(tmp_path) as console:
        assert console.app.no_color
        assert "▶ ready" in console.screen()
        failure = console.app.theme_styles.style("", "bad")
        assert failure.bold, "marked without colour"
        assert failure.reverse, "and not dimmed"


async def test_an_error_in_a_callback_of_a_worker_thread_ends_the_console(tmp_path):
    """Also a RuntimeError, which Textual itself raises for an app that has closed."""

    def fail():
        raise RuntimeError("broken callback")

    with pytest.raises(RuntimeError, match="broken callback"):
        async with open_console(tmp_path) as console:
            console.app.run_in_thread(lambda: console.app.call_in_app(fail))
            await console.until(lambda: not console.app.is_running)
    assert str(console.app.unhandled_error) == "broken callback"


async def test_a_callback_after_the_console_closed_does_nothing(tmp_path):
    called = []
    async with open_console(tmp_path) as console:
        pass
    console.app.call_in_app(called.append, 1)
    assert called == []


class Tty:
    def __init__(self, tty=True, encoding="utf-8"):
        self.tty, self.encoding, self.written = tty, encoding, ""

    def isatty(self):
        return self.tty

    def write(self, text):
        self.written += text


@pytest.mark.parametrize(("stream", "term", "expected"), [
    ("stdin", "xterm", "stdin is not a terminal"), ("stdout", "xterm", "stdout is not a terminal"),
    ("stderr", "xterm", "stderr is not a terminal"), (None, "dumb", "TERM=dumb"), (None, "xterm", None),
])  # fmt: skip
def test_the_console_needs_a_terminal_on_all_streams(monkeypatch, stream, term, expected):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"crawl_console.terminal.sys.{name}", Tty(name != stream))
    monkeypatch.setenv("TERM", term)
    reason = unsupported_reason()
    assert (reason is None) if expected is None else (expected in reason)


@pytest.mark.parametrize(("encoding", "lang", "plain"), [
    ("utf-8", "en_US.UTF-8", False), ("utf-8", "C.utf8", False), ("utf-8", "", False), ("utf-8", "C", True),
    ("ascii", "en_US.UTF-8", True), ("iso-8859-1", "de_DE.ISO-8859-1", True), ("utf-8", "de_DE.ISO-8859-1", True),
])  # fmt: skip
def test_terminals_without_utf8_are_detected(monkeypatch, encoding, lang, plain):
    monkeypatch.setattr("crawl_console.terminal.sys.stdout", Tty(encoding=encoding))
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.setenv("LANG", lang)
    assert ascii_only() == plain


def test_a_rate_of_updates_without_a_console_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--no-ui", "--refresh", "2", "--data", str(tmp_path / "data")])
    assert ended.value.code == 2
    assert "--refresh needs the console" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_terminal_without_the_console_shows_the_status_of_a_run_that_is_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("crawl_console.client.lock_holder_pid", lambda data: 77)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    for arguments in ([], ["--read-only"]):
        with pytest.raises(SystemExit) as ended:
            main(["run", *arguments, "--data", str(tmp_path / "data"), "--defs", str(tmp_path)])
        assert ended.value.code == 0
        shown = capsys.readouterr()
        assert "no console here (TERM=dumb cannot position text); supervisor 77 works on a run" in shown.err
        assert "no run yet" in shown.out


def test_read_only_without_a_terminal_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--read-only", "--data", str(tmp_path / "data")])
    assert ended.value.code == 2
    assert "crawl-console status" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
