"""The command of `on_end`: what it is told, when it runs, and that it can do the run no harm."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli.on_end import run_on_end

from .house import House, until
from .library import Library
from .site import Site
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(90)


def on_end(*command: str) -> tuple[str, str]:
    return "--set", f"on_end={json.dumps(command)}"


def test_it_is_told_the_summary_and_finds_the_data_dir_free(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    look = f"{sys.executable} -m console status --json --data {house.data} > looked.json"
    done = house.crawl(*on_end("sh", "-c", f"cat > told.json; {look}; echo said; echo cried >&2"))
    assert json.loads((house.folder / "told.json").read_text()) == done.summary
    looked = json.loads((house.folder / "looked.json").read_text())
    assert (looked["state"], looked["supervisor"]) == ("DONE", None)
    log = (house.data / "logs" / "on_end.log").read_text()
    assert "said\ncried\n" in log
    assert "on_end" not in done.err


def test_its_failure_is_told_and_changes_nothing(house: House, site: Site) -> None:
    house.write(Library(site, shelves=1).defs())
    done = house.crawl(*on_end("sh", "-c", "exit 3"))
    assert done.summary["state"] == "DONE"
    assert "on_end: sh -c 'exit 3': exit code 3" in done.err
    done = house.crawl(*on_end("/no/such/program"))
    assert "No such file" in done.err


def test_it_is_told_of_a_cancel_and_not_of_a_kill(house: House, site: Site) -> None:
    house.write(Library(site, shelves=40, delay=0.1).defs())
    running = house.start(*on_end("sh", "-c", "cat > told.json"))
    assert until(lambda: site.paths)
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    told = json.loads((house.folder / "told.json").read_text())
    assert (told["state"], told["exit_code"]) == ("CANCELLED", 130)
    (house.folder / "told.json").unlink()
    running = house.start(*on_end("sh", "-c", "cat > told.json"))
    assert until(lambda: len(house.children("node")) == house.nodes)
    assert house.order("kill").code == 0
    assert running.wait().code == 137
    assert not (house.folder / "told.json").exists()


def test_one_that_never_ends_is_ended_with_all_it_started(tmp_path: Path) -> None:
    watch, pid = Stopwatch(), tmp_path / "pid"
    command = ["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"]
    problem = run_on_end(command, "{}", tmp_path, interrupted=bool, seconds=0.5)
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
    problem = run_on_end(["sleep", "60"], "{}", tmp_path, interrupted=lambda: True)
    assert problem is not None
    assert "interrupted by a signal" in problem


def test_what_cannot_be_a_command_is_refused(house: House, site: Site) -> None:
    for wrong in ("notify", "[]", '[""]', "[1]", '{"a": 1}'):
        done = house.run("run", "--no-ui", "--set", f"on_end={wrong}")
        assert done.code == 2, wrong
        assert "a list of strings" in done.err
