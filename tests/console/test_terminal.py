"""The whole of it in a real pty: a supervisor apart, keys that act on real nodes, and a terminal left as it was."""

import os
import re
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from engine.runtime.process_identity import identity_of
from engine.supervise.lock import read_holder
from tests.console.terminals import Terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pty")
PROJECT = Path(__file__).resolve().parents[2]
BUSY = ("--latency", "80", "--pages", "6000", "--set", "nodes=2", "--set", "backups=1")


@pytest.fixture
def place(tmp_path):
    """A folder; whatever supervisor was begun in it is dead in the end."""
    yield tmp_path
    told = read_holder(tmp_path / "data")
    if told is not None and identity_of(told.pid) == told.identity:
        os.killpg(told.pid, signal.SIGKILL)
        time.sleep(0.2)


def console(place, *arguments, **options):
    environ = {"XDG_CONFIG_HOME": str(place / "config"), "PYTHONPATH": str(PROJECT), **options.pop("environ", {})}
    command = [*arguments, "--data", str(place / "data")]
    return Terminal(command, environ=environ, cwd=place, **options)


def pages_done(text):
    found = re.search(r" n1 .* [\d.]+ +(\d+) +\d+ ", text)
    return int(found[1]) if found else 0


def test_a_crawl_is_watched_steered_left_and_cancelled(place):
    first = console(place, "demo", *BUSY)
    try:
        first.until(lambda text: pages_done(text) > 5)
        seen = pages_done(first.text())
        first.until(lambda text: pages_done(text) > seen)

        first.press("x")
        first.until("drains")
        first.until(lambda text: not re.search(r"n1 +runner", text))  # it is gone
        first.press("j")
        first.until(lambda text: re.search(r"> +n3 ", text))
        first.press("g X")
        first.until("n2 stops immediately")
        first.press("y")
        first.until("✗ dead")
        first.until(lambda text: re.search(r"replaced by|n3 +runner", text))

        first.press("q")
        first.until("Leave the console")
        first.press("d")
        assert first.wait() == 0
        first.until("Detached;")
        assert first.restored() == []
    finally:
        first.end()
    supervisor = read_holder(place / "data")
    assert supervisor is not None and identity_of(supervisor.pid) == supervisor.identity, "it lives on"

    again = console(place, "run")
    try:
        again.until("RUNNING")
        again.until(f"owner {supervisor.pid}")
        again.press("c")
        again.until("Cancel the run")
        again.press("y")
        again.until("CANCELLED")
        again.until("goes on where it stopped")
        again.press("q")
        assert again.wait() == 143
        assert again.restored() == []
    finally:
        again.end()
    assert identity_of(supervisor.pid) is None
    log = (place / "data" / "logs" / "supervisor.log").read_text()
    assert "Traceback" not in log, log


def test_signals_restore_the_terminal_and_stop_no_crawl(place):
    shown = console(place, "demo", *BUSY)
    try:
        shown.until("RUNNING")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait() == 143
        assert shown.restored() == []
        told = read_holder(place / "data")
        assert identity_of(told.pid) == told.identity
    finally:
        shown.end()
    shown = console(place, "run")
    try:
        shown.until("RUNNING")
        os.kill(told.pid, signal.SIGKILL)
        shown.until("OWNER GONE")
        shown.until("`crawl-console run` goes on")
        os.kill(shown.pid, signal.SIGHUP)
        assert shown.wait() == 129
        assert shown.restored() == []
    finally:
        shown.end()
    with sqlite3.connect(place / "data" / "crawl.db") as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_defs_that_cannot_be_used_end_it_before_any_screen(place):
    (place / "defs").mkdir()
    (place / "defs" / "a.yml").write_text("nonsense: {}\n")
    shown = console(place, "run")
    try:
        assert shown.wait() == 2
        assert "a.yml:1:1: unknown-key" in shown.raw.decode("utf-8", "replace")
        assert b"?1049h" not in shown.raw
    finally:
        shown.end()


def test_a_suspended_console_comes_back_whole(place):
    shown = console(place, "run", "--read-only")
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


def test_the_editor_gets_the_terminal_and_gives_it_back(place):
    (place / "defs").mkdir()
    (place / "defs" / "a.yml").write_text("hosts: {}\n")
    (place / "editor.py").write_text("import sys\nopen('told', 'w').write(' '.join(sys.argv[1:]))\nprint('I EDIT')\n")
    environ = {"EDITOR": f"{sys.executable} {place / 'editor.py'}", "VISUAL": ""}
    shown = console(place, "run", "--read-only", environ=environ)
    try:
        shown.until("no run yet")
        shown.press("5")
        shown.until("a.yml")
        shown.press("e")
        shown.until("a.yml: edited")
        assert b"I EDIT" in shown.raw
        assert (place / "told").read_text().endswith("a.yml")
        shown.until("[5 Defs]")
        shown.press("q")
        assert shown.wait() == 0
        assert shown.restored() == []
    finally:
        shown.end()


def test_a_dumb_terminal_runs_headless_and_says_so(place):
    environ = {"TERM": "dumb", "PYTHONPATH": str(PROJECT)}
    shown = Terminal(["demo", "--pages", "3", "--data", str(place / "data")], environ=environ, cwd=place)
    try:
        assert shown.wait(20) == 0
        assert "no console here (TERM=dumb" in shown.raw.decode("utf-8", "replace")
        assert b"?1049h" not in shown.raw
    finally:
        shown.end()
