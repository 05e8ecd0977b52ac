"""The `on_start` command: its input, when it runs, and that its failure ends the start."""

import json
import signal
from pathlib import Path

import pytest

from crawl_engine.processes.user_command import UserCommand
from tests.sample import sampled

from .helper_tables import is_alive
from .library import Library
from .project import Project, until
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def setting(name: str, *command: str) -> tuple[str, str]:
    return "--set", f"{name}={json.dumps(command)}"


def test_it_gets_the_summary_before_helpers_and_nodes_start(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    (project.folder / "crawl.toml").write_text(
        '[helpers.late]\nrun = ["sh", "-c", "test -s begun; echo $?; sleep 60"]\n'
    )
    command = setting("on_start", "sh", "-c", "cat > summary.json; sleep 0.3; echo hello; ls data > begun")
    done = project.crawl(*command)
    summary = json.loads((project.folder / "summary.json").read_text())
    assert summary.keys() == done.summary.keys()
    assert (summary["run"], summary["exit_code"], summary["nodes"]) == (done.summary["run"], None, [])
    assert "hello\n" in (project.data / "logs" / "on_start.log").read_text()
    assert "\n0\n" in (project.data / "logs" / "helper-late.log").read_text()


@pytest.mark.parametrize("command", [("sh", "-c", "exit 3"), ("/no/such/program",)])
def test_its_failure_ends_the_start_and_the_run_is_resumable(
    project: Project, site: Site, command: tuple[str, ...]
) -> None:
    library = Library(site, shelves=1)
    project.write(library.defs())
    on_end = setting("on_end", "sh", "-c", "cat > end.json")
    done = project.crawl(*setting("on_start", *command), *on_end, code=3)
    assert f"on_start: {command[0]}" in done.err
    assert ("exit code 3" if command[0] == "sh" else "No such file or directory") in done.err
    assert "logs/on_start.log" in done.err
    assert (done.summary["state"], done.summary["nodes"]) == ("FAILED", [])
    assert site.paths == []
    assert json.loads((project.folder / "end.json").read_text()) == done.summary
    again = project.crawl(*setting("on_start", "true"))
    assert again.summary["run"] == done.summary["run"]
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.parametrize(("stop", "code"), sampled([(signal.SIGINT, 130), ("kill", 137)], 0))
def test_a_stop_kills_it_with_its_children(project: Project, site: Site, stop: signal.Signals | str, code: int) -> None:
    project.write(Library(site, shelves=1).defs())
    running = project.start(*setting("on_start", "sh", "-c", "sleep 60 & echo $! > pid; wait"))
    pid = project.folder / "pid"
    assert until(lambda: pid.exists() and pid.read_text().strip(), 40)
    watch = Stopwatch()
    if isinstance(stop, str):
        assert project.run_with_data(stop).code == 0
    else:
        running.send(stop)
    assert running.wait().code == code
    assert watch.seconds() < 6
    assert until(lambda: not is_alive(int(pid.read_text()))), "a zombie waits for the first process of its machine"
    assert site.paths == []


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    command = UserCommand("on_start", ["sleep", "60"], "{}", tmp_path, seconds=0.3)
    assert until(command.has_ended, 5.0)
    assert command.failure is not None
    assert "sleep 60: killed after 0.3 s" in command.failure


def test_an_invalid_command_is_refused(project: Project) -> None:
    for value in ("notify", "[]", '[""]'):
        done = project.run_command("run", "--no-ui", "--set", f"on_start={value}")
        assert done.code == 2, value
        assert "a list of strings" in done.err
