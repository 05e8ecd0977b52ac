"""The `on_end` command: its input, when it runs, and that it cannot harm the run."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_console.cli.user_commands import run_user_command

from .library import Library
from .project import Project, until
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def on_end(*command: str) -> tuple[str, str]:
    return "--set", f"on_end={json.dumps(command)}"


def failed_commands(project: Project) -> list[str]:
    return [one["text"] for one in project.status()["warnings"] if one["code"] == "failed-command"]


def test_it_gets_the_summary_and_the_data_dir_is_unlocked(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    status_command = f"{sys.executable} -m crawl_console status --json --data {project.data} > status.json"
    done = project.crawl(*on_end("sh", "-c", f"cat > summary.json; {status_command}; echo output; echo error >&2"))
    assert json.loads((project.folder / "summary.json").read_text()) == done.summary
    status = json.loads((project.folder / "status.json").read_text())
    assert (status["state"], status["supervisor"]) == ("DONE", None)
    log = (project.data / "logs" / "on_end.log").read_text()
    assert "output\nerror\n" in log
    assert "on_end" not in done.err


def test_its_failure_is_reported_and_changes_nothing(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    done = project.crawl(*on_end("sh", "-c", "exit 3"))
    assert done.summary["state"] == "DONE"
    assert "on_end: sh -c 'exit 3': exit code 3" in done.err
    assert ["exit code 3" in text for text in failed_commands(project)] == [True]
    done = project.crawl(*on_end("/no/such/program"))
    assert "No such file" in done.err
    project.crawl(*on_end("true"))
    assert failed_commands(project) == []


def test_commands_find_the_program_on_the_path_of_cron(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    project.write(Library(site, shelves=1).defs())
    done = project.crawl(*on_end("sh", "-c", "crawl-console --version > version"))
    assert "on_end" not in done.err
    assert (project.folder / "version").read_text().startswith("crawl-console")


@pytest.mark.sweep
def test_it_runs_after_a_cancel_and_not_after_a_kill(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=40, delay=0.1).defs())
    running = project.start(*on_end("sh", "-c", "cat > summary.json"))
    assert until(lambda: site.paths)
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    summary = json.loads((project.folder / "summary.json").read_text())
    assert (summary["state"], summary["exit_code"]) == ("CANCELLED", 130)
    (project.folder / "summary.json").unlink()
    running = project.start(*on_end("sh", "-c", "cat > summary.json"))
    assert until(lambda: len(project.children("node")) == project.nodes)
    assert project.run_with_data("kill").code == 0
    assert running.wait().code == 137
    assert not (project.folder / "summary.json").exists()


def test_a_command_that_never_ends_is_killed_with_its_children(tmp_path: Path) -> None:
    watch, pid = Stopwatch(), tmp_path / "pid"
    command = ["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"]
    problem = run_user_command("on_end", command, "{}", tmp_path, interrupted=bool, seconds=0.5)
    assert problem is not None
    assert "killed after 0.5 s" in problem
    assert watch.seconds() < 5
    assert until(lambda: not alive(int(pid.read_text())))


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return Path("/proc/self").exists() is False and subprocess.run(["kill", "-0", str(pid)]).returncode == 0


def test_a_signal_ends_it(tmp_path: Path) -> None:
    problem = run_user_command("on_end", ["sleep", "60"], "{}", tmp_path, interrupted=lambda: True)
    assert problem is not None
    assert "interrupted by a signal" in problem


def test_an_invalid_command_is_refused(project: Project, site: Site) -> None:
    for value in ("notify", "[]", '[""]', "[1]", '{"a": 1}'):
        done = project.run_command("run", "--no-ui", "--set", f"on_end={value}")
        assert done.code == 2, value
        assert "a list of strings" in done.err
