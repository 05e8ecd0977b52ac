"""A headless crawl in a terminal: a closed terminal does not end it, Ctrl+C cancels it."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from .library import Library
from .project import CRAWL, LAUNCH, Project, until
from .site import Site, html

pytestmark = pytest.mark.timeout(60)


def start_in_terminal(project: Project, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start the program as session leader of a new terminal; return the process and our end of the terminal."""
    terminal, program_end = pty.openpty()

    where = ["--defs", str(project.defs), "--data", str(project.data), "--nodes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *CRAWL, "run", "--no-ui", *where, *arguments],
        stdin=program_end, stdout=program_end, stderr=program_end, cwd=project.folder, start_new_session=True,
    )  # fmt: skip
    os.close(program_end)
    return process, terminal


def test_rows_do_not_control_a_terminal(project: Project, site: Site) -> None:
    site["/"] = html("<h1>\x1b[31mred\x07</h1><p>\u009b31m \u202etxet</p><p>line\u2028two</p>")
    project.write(
        f"locatorGroups: {{a: {{locators: [{{url: '{site.url('/')}'}}]}}}}\ntaskGroups: {{a: {{t: {{dataDef: d}}}}}}\n"
        "dataDefs: {d: {fields: {h: {selector: h1}, p: {selector: p, all: true, join: '/'}}}}\n"
    )
    project.crawl()
    commands = [["export", "d"], ["export", "d", "--format", "jsonl"]]
    commands += [["query", f"--{form}", "SELECT data FROM rows"] for form in ("csv", "json", "table")]
    for words in commands:
        plain = project.run_with_data(*words).out
        terminal, program_end = pty.openpty()
        command = [sys.executable, "-c", LAUNCH, *CRAWL, *words, "--data", str(project.data)]
        done = subprocess.run(
            command, stdin=program_end, stdout=program_end, stderr=program_end, timeout=20, start_new_session=True
        )  # fmt: skip
        os.close(program_end)
        shown = os.read(terminal, 65536).decode()
        os.close(terminal)
        assert done.returncode == 0
        assert "txet" in shown
        assert not set("\x1b\x07\x9b\u202e\u2028") & set(shown), words
        assert words[0] == "query" or "\u202e" in plain, "what is redirected stays as it is"


@pytest.mark.quick
def test_a_closed_terminal_does_not_end_the_crawl(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=6, delay=0.1)
    project.write(library.defs(concurrency=4))
    process, terminal = start_in_terminal(project)
    assert until(lambda: len(site.paths) > 5), "it did not start"
    os.close(terminal)  # the kernel sends SIGHUP, and writing to the terminal fails with EIO from now on
    assert process.wait(30) == 0
    project.assert_clean()
    assert project.count_rows("entry", "book") == library.rows()
    assert project.query("SELECT count(*) FROM nodes WHERE state <> 'TERMINATED'") == [(0,)]


def test_an_interrupt_typed_at_the_terminal_cancels_gracefully(project: Project, site: Site) -> None:
    """The terminal signals the foreground group; the nodes are not in it and finish their jobs."""
    library = Library(site, shelves=6, books=6, delay=0.1)
    project.write(library.defs(concurrency=4))
    process, terminal = start_in_terminal(project)
    assert until(lambda: len(site.paths) > 5), "it did not start"
    os.write(terminal, b"\x03")
    output = b""
    deadline = time.monotonic() + 15
    while process.poll() is None and time.monotonic() < deadline:
        try:
            output += os.read(terminal, 65536)
        except OSError:
            break
    assert process.wait(30) == 130, output
    assert b"\r\x1b[Kstopping: running jobs may finish" in output, "it replaces the progress line"
    os.close(terminal)
    project.assert_clean()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    assert len(site.paths) == len(set(site.paths))


@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_node_that_starts_ignores_signals_of_the_terminal(
    project: Project, site: Site, number: signal.Signals
) -> None:
    """It cannot ignore them before its first line runs: they must not end it before."""
    library = Library(site, shelves=2, books=2)
    project.write(library.defs())
    running = project.start()
    assert until(lambda: len(project.children("node")) == 2 or running.exited), running.err
    for pid in project.children("node"):
        os.kill(pid, number)
    done = running.wait()
    assert done.code == 0, done.err
    assert project.query("SELECT count(*) FROM nodes") == [(2,)]
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_nodes_and_appender_ignore_sighup(project: Project, site: Site) -> None:
    """Huey would restart itself on SIGHUP; our processes ignore it."""
    library = Library(site, shelves=5, books=5, delay=0.1)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: len(site.paths) > 5 or running.exited), running.err
    children = project.children("node") + project.children("appender")
    for pid in [*children, running.pid]:
        os.kill(pid, signal.SIGHUP)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.query("SELECT count(*) FROM nodes") == [(2,)]
    assert project.count_rows("entry", "book") == library.rows()
