"""The console in a real pty: a detached supervisor, keys that act on real nodes, and a restored terminal."""

import os
import re
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.supervise.lock import read_holder
from tests.console.terminals import Terminal
from tests.process.project import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pty")
PROJECT = Path(__file__).resolve().parents[2]
BUSY = ("--latency", "80", "--pages", "6000", "--set", "nodes=2", "--set", "backups=1")


@pytest.fixture
def folder(tmp_path):
    """A folder; a supervisor started in it is killed at the end."""
    yield tmp_path
    holder = read_holder(tmp_path / "data")
    if holder is not None and identity_of(holder.pid) == holder.identity:
        os.killpg(holder.pid, signal.SIGKILL)
        time.sleep(0.2)


def console(folder, *arguments, **options):
    environ = {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": str(PROJECT),
        **options.pop("environ", {}),
    }
    command = [*arguments, "--data", str(folder / "data")]
    return Terminal(command, environ=environ, cwd=folder, **options)


def editing(folder):
    """An environment whose editor writes its arguments to a file, and says that it ran."""
    (folder / "editor.py").write_text(
        "import sys\nopen('arguments', 'w').write(' '.join(sys.argv[1:]))\nprint('I EDIT')\n"
    )
    return {"EDITOR": f"{sys.executable} {folder / 'editor.py'}", "VISUAL": ""}


def write_defs(folder, data_defs):
    """Defs whose one page cannot be fetched, with the dataDefs in a file of their own."""
    (folder / "defs").mkdir()
    (folder / "defs" / "a.yml").write_text(
        "locatorGroups: {g: {locators: [{url: 'http://127.0.0.1:1/'}]}}\ntaskGroups: {g: {t: {dataDef: book}}}\n"
    )
    (folder / "defs" / "b.yml").write_text(data_defs)


def pages_done(text):
    match = re.search(r" n1 .* [\d.]+ +([\d,]+) +\d+ ", text)
    return int(match[1].replace(",", "")) if match else 0


def test_attach_drain_kill_detach_and_cancel(folder):
    first = console(folder, "demo", *BUSY)
    try:
        first.until(lambda text: pages_done(text) > 5)
        seen = pages_done(first.text())
        first.until(lambda text: pages_done(text) > seen)

        first.press("x")
        first.until("draining")
        first.until(lambda text: not re.search(r" n1 +[▶●◐■] ", text))  # n1 has ended
        first.press("j")
        first.until(lambda text: re.search(r"> +n3 ", text))
        first.press("g X")
        first.until("n2 stops immediately")
        first.press("y")
        first.until("✗ dead")
        first.until(lambda text: re.search(r"replaced by|n3 +[▶●] ", text))

        first.press("q")
        first.until("Quit the console")
        first.press("d")
        assert first.wait() == 0
        first.until("Detached;")
        assert first.restored() == []
    finally:
        first.end()
    supervisor = read_holder(folder / "data")
    assert supervisor is not None and identity_of(supervisor.pid) == supervisor.identity, "the supervisor still runs"

    again = console(folder, "run")
    try:
        again.until("RUNNING")
        again.until(f"pid {supervisor.pid}")
        again.press("c")
        again.until("Cancel the run")
        again.press("y")
        again.until("CANCELLED")
        again.until("resumes the run")
        again.press("q")
        assert again.wait() == 143
        assert again.restored() == []
    finally:
        again.end()
    assert until(lambda: identity_of(supervisor.pid) is None)
    log = (folder / "data" / "logs" / "supervisor.log").read_text()
    assert "Traceback" not in log, log


def test_signals_restore_the_terminal_and_do_not_stop_the_crawl(folder):
    shown = console(folder, "demo", *BUSY)
    try:
        shown.until("RUNNING")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait() == 143
        assert shown.restored() == []
        holder = read_holder(folder / "data")
        assert identity_of(holder.pid) == holder.identity
    finally:
        shown.end()
    shown = console(folder, "run")
    try:
        shown.until("RUNNING")
        os.kill(holder.pid, signal.SIGKILL)
        shown.until("SUPERVISOR LOST")
        shown.until("R resumes the run")
        os.kill(shown.pid, signal.SIGHUP)
        assert shown.wait() == 129
        assert shown.restored() == []
    finally:
        shown.end()
    with sqlite3.connect(folder / "data" / "crawl.db") as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_a_closed_terminal_ends_the_console(folder):
    """Several times: whether the console still writes after the terminal has closed is a race."""
    first = console(folder, "demo", *BUSY)
    others = []
    try:
        first.until("RUNNING")
        others = [console(folder, "run", "--read-only", size=(160, 48)) for _ in range(8)]
        for shown in others:
            shown.until("RUNNING")
        for shown in others:
            shown.read(0.5)
            os.close(shown.fd)
            try:
                assert shown.process.wait(15) == 129
            finally:
                shown.fd = os.open(os.devnull, os.O_RDONLY)
    finally:
        for shown in [first, *others]:
            shown.end()


def test_invalid_defs_end_the_console_before_any_screen(folder):
    (folder / "defs").mkdir()
    (folder / "defs" / "a.yml").write_text("nonsense: {}\n")
    shown = console(folder, "run")
    try:
        assert shown.wait() == 2
        assert "a.yml:1:1: unknown-key" in shown.raw.decode("utf-8", "replace")
        assert b"?1049h" not in shown.raw
    finally:
        shown.end()


def test_a_suspended_console_is_redrawn(folder):
    shown = console(folder, "run", "--read-only")
    try:
        shown.until("no run yet")
        shown.press("\x1a")
        os.waitpid(shown.pid, os.WUNTRACED)
        shown.read(0.5)
        assert shown.restored() == []
        os.kill(shown.pid, signal.SIGCONT)
        shown.until("crawl-console")
        shown.until("[1 Nodes]")
        shown.until("q quit")
        shown.press("q")
        assert shown.wait() == 0
    finally:
        shown.end()


def test_a_console_that_was_stopped_from_outside_is_redrawn_whole(folder):
    shown = console(folder, "run", "--read-only")
    try:
        shown.until("no run yet")
        threads = len(os.listdir(f"/proc/{shown.pid}/task")) if sys.platform == "linux" else 0
        os.kill(shown.pid, signal.SIGSTOP)
        os.waitpid(shown.pid, os.WUNTRACED)
        shown.read(0.2)
        shown.cells = [["~"] * width for width in [80] * 24]  # what a shell wrote over it
        os.kill(shown.pid, signal.SIGCONT)
        shown.until("crawl-console")
        shown.until("[1 Nodes]")
        shown.until("q quit")
        shown.until(lambda text: "~" not in text)
        if sys.platform == "linux":
            assert len(os.listdir(f"/proc/{shown.pid}/task")) <= threads, "no second one reads the keys"
        shown.press("q")
        assert shown.wait() == 0
    finally:
        shown.end()


def test_the_editor_gets_the_terminal_and_returns_it(folder):
    (folder / "defs").mkdir()
    (folder / "defs" / "a.yml").write_text("hosts: {}\n")
    shown = console(folder, "run", "--read-only", environ=editing(folder))
    try:
        shown.until("no run yet")
        shown.press("5")
        shown.until("a.yml")
        shown.press("e")
        shown.until("a.yml: edited")
        assert b"I EDIT" in shown.raw
        assert (folder / "arguments").read_text().endswith("a.yml")
        shown.until("[5 Defs]")
        shown.press("q")
        assert shown.wait() == 0
        assert shown.restored() == []
    finally:
        shown.end()


def test_a_dumb_terminal_runs_headless_and_says_so(folder):
    environ = {"TERM": "dumb", "PYTHONPATH": str(PROJECT)}
    shown = Terminal(["demo", "--pages", "3", "--data", str(folder / "data")], environ=environ, cwd=folder)
    try:
        assert shown.wait(20) == 0
        assert "no console here (TERM=dumb" in shown.raw.decode("utf-8", "replace")
        assert b"?1049h" not in shown.raw
    finally:
        shown.end()


def test_a_data_def_is_edited_where_it_is_defined(folder):
    write_defs(folder, "# books\n\ndataDefs:\n  book: {fields: {title: {selector: h1}}}\n")
    crawl = console(folder, "run", "--no-ui", "--set", "max_attempts=1")
    assert crawl.wait() == 1
    shown = console(folder, "run", "--read-only", environ=editing(folder))
    try:
        shown.press("5")
        shown.until(lambda text: re.search(r"DATADEF.*\n.*book", text))
        shown.press("\t")
        shown.press("e")
        shown.until("b.yml: edited")
        assert (folder / "arguments").read_text().endswith("b.yml")
        shown.press("q")
        assert shown.wait() == 0
    finally:
        shown.end()


def test_a_console_with_its_own_rate_starts_a_supervisor(folder):
    write_defs(folder, "dataDefs: {book: {fields: {title: {selector: h1}}}}\n")
    shown = console(folder, "run", "--refresh", "4", "--set", "max_attempts=1")
    try:
        shown.until("jobs      1 failed")
        shown.press("q")
        assert shown.wait() == 1
    finally:
        shown.end()
