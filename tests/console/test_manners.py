"""What the console says when things go wrong."""

from dataclasses import replace

import pytest

from console.cli.main import main
from console.terminal import ascii_only, unsupported_reason
from console.tui.ascii_filter import AsciiFilter
from tests.console.fakes import held, look, run


async def test_a_failed_poll_is_told_and_ends_nothing(tmp_path):
    async with held(tmp_path) as console:
        console.source.error = "crawl.db: database is locked"
        await console.until(lambda: "stale" in console.text()[0])
        await console.until(lambda: "database is locked" in console.whole())
        assert "n1" in console.whole(), "the last figures stay"
        console.source.error = None
        await console.until(lambda: "stale" not in console.text()[0])


async def test_a_run_that_ended_and_has_jobs_again_is_no_accident(tmp_path):
    async with held(tmp_path) as console:
        told = console.source.look
        console.source.look = replace(told, run=replace(told.run, stage="SHUTDOWN_COMPLETE"))
        console.source.alive = None
        await console.until(lambda: "TO GO ON" in console.text()[0])
        assert "jobs are READY again: `crawl-console run`" in console.whole()
        assert "supervisor is gone" not in console.whole()


async def test_a_supervisor_that_dies_is_told_with_what_to_do(tmp_path):
    async with held(tmp_path) as console:
        console.source.alive = None
        await console.until(lambda: "OWNER GONE" in console.text()[0])
        assert "`crawl-console run`" in console.whole()
        await console.press("x")
        assert console.control_client.given == []
        assert any("no supervisor" in told for told in console.toasts())


async def test_a_full_disk_is_an_alarm(tmp_path):
    async with held(tmp_path) as console:
        console.source.look = look(run=run(paused="disk"))
        await console.until(lambda: "disk nearly full" in console.whole())
        assert "PAUSED disk" in console.text()[0]


async def test_many_hosts_that_back_off_are_one_alarm(tmp_path):
    from tests.console.fakes import host

    async with held(tmp_path, size=(160, 48)) as console:
        console.source.look = look(hosts=[host(f"h{n}", backoff=5.0 + n) for n in range(40)], nodes=[])
        await console.until(lambda: "40 hosts answer 429 or 503" in console.whole())


async def test_without_utf8_every_cell_is_ascii(tmp_path):
    async with held(tmp_path, ascii_only=True, size=(160, 48)) as console:
        for key in "1234567":
            await console.press(key)
            strips = console.app.screen._compositor.render_strips()
            drawn = [segment for strip in strips for segment in strip]
            told = AsciiFilter().apply(drawn, console.app.screen.styles.background)
            assert all(segment.text.isascii() for segment in told)
            assert sum(s.cell_length for s in told) == sum(s.cell_length for s in drawn)
        assert any(isinstance(f, AsciiFilter) for f in console.app.get_line_filters())


async def test_without_utf8_keys_are_named_by_letters(tmp_path):
    async with held(tmp_path, ascii_only=True, size=(160, 48)) as console:
        assert "enter jobs" in console.text()[-1]
        await console.press("question_mark")
        await console.until(lambda: "esc closes" in console.whole())
        for told in ("enter  open", "S-tab  previous pane", "    j  next row", "    k  previous row", "    /  filter"):
            assert told in console.whole()


async def test_no_color_is_obeyed(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with held(tmp_path) as console:
        assert console.app.no_color
        assert "▶ ready" in console.whole()


class Tty:
    def __init__(self, tty=True, encoding="utf-8"):
        self.tty, self.encoding, self.said = tty, encoding, ""

    def isatty(self):
        return self.tty

    def write(self, text):
        self.said += text


@pytest.mark.parametrize(("stream", "term", "told"), [
    ("stdin", "xterm", "stdin is no terminal"), ("stdout", "xterm", "stdout is no terminal"),
    ("stderr", "xterm", "stderr is no terminal"), (None, "dumb", "TERM=dumb"), (None, "xterm", None),
])  # fmt: skip
def test_the_console_needs_a_whole_terminal(monkeypatch, stream, term, told):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"console.terminal.sys.{name}", Tty(name != stream))
    monkeypatch.setenv("TERM", term)
    why = unsupported_reason()
    assert (why is None) if told is None else (told in why)


@pytest.mark.parametrize(("encoding", "lang", "plain"), [
    ("utf-8", "en_US.UTF-8", False), ("utf-8", "C.utf8", False), ("utf-8", "", False), ("utf-8", "C", True),
    ("ascii", "en_US.UTF-8", True), ("iso-8859-1", "de_DE.ISO-8859-1", True), ("utf-8", "de_DE.ISO-8859-1", True),
])  # fmt: skip
def test_terminals_without_utf8_are_known(monkeypatch, encoding, lang, plain):
    monkeypatch.setattr("console.terminal.sys.stdout", Tty(encoding=encoding))
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.setenv("LANG", lang)
    assert ascii_only() == plain


def test_read_only_without_a_terminal_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--read-only", "--data", str(tmp_path / "data")])
    assert ended.value.code == 2
    assert "crawl-console status" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
