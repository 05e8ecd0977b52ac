"""The start of processes: early nodes, which wait for their assignment, and those that are started when needed."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.processes import spawner as spawner_module
from engine.processes.spawner import Spawner

WRITER = """
import sys
print(*sys.argv[1:], sys.stdin.readline().strip(), sys.stdin.readline().strip(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def spawner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spawner]:
    (tmp_path / "writer.py").write_text(WRITER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(spawner_module, "NODE", "writer")
    monkeypatch.setattr(spawner_module, "usable_cpus", lambda: 4)
    spawner = Spawner(tmp_path / "data")
    yield spawner
    spawner.close()


def spawn(spawner: Spawner, folder: Path, module: str = "writer") -> subprocess.Popen[bytes]:
    return spawner.spawn(module, ["--epoch", "7"], settings="{}", log=folder / "logs" / "n1.log")


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)


def early_pids(spawner: Spawner) -> list[int]:
    return [process.pid for process in spawner._early_nodes]


def test_a_process_reads_its_assignment_and_settings(spawner: Spawner, tmp_path: Path) -> None:
    process = spawn(spawner, tmp_path)
    log = tmp_path / "logs" / "n1.log"
    deadline = time.monotonic() + 10
    while not log.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    end(process)
    assert log.read_text() == f'--data {tmp_path}/data ["--epoch", "7", "--log", "{log}"] {{}}\n'


def test_early_nodes_are_taken_first(spawner: Spawner, tmp_path: Path) -> None:
    spawner.start_early_nodes(2)
    early = early_pids(spawner)
    processes = [spawn(spawner, tmp_path) for _ in range(3)]
    assert [process.pid for process in processes[:2]] == early
    assert processes[2].pid not in early
    assert os.getpgid(processes[0].pid) == os.getsid(processes[0].pid) == processes[0].pid
    for process in processes:
        end(process)


def test_an_early_node_is_no_appender(spawner: Spawner, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(WRITER)
    spawner.start_early_nodes(1)
    process = spawn(spawner, tmp_path, "other")
    assert process.pid not in early_pids(spawner)
    end(process)


def test_one_processor_is_left_to_the_supervisor(spawner: Spawner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawner_module, "usable_cpus", lambda: 2)
    spawner.start_early_nodes(3)
    assert len(early_pids(spawner)) == 1
    spawner.close()
    monkeypatch.setattr(spawner_module, "usable_cpus", lambda: 1)
    spawner.start_early_nodes(3)
    assert early_pids(spawner) == []


def test_an_early_node_that_died_is_replaced(spawner: Spawner, tmp_path: Path) -> None:
    spawner.start_early_nodes(1)
    [died] = early_pids(spawner)
    os.kill(died, signal.SIGKILL)
    os.waitid(os.P_PID, died, os.WEXITED | os.WNOWAIT)
    process = spawn(spawner, tmp_path)
    assert process.pid != died
    assert process.poll() is None
    end(process)


def test_early_nodes_that_are_not_needed_end_at_once(spawner: Spawner) -> None:
    spawner.start_early_nodes(2)
    early = early_pids(spawner)
    began = time.monotonic()
    spawner.close()
    assert time.monotonic() - began < 1
    for pid in early:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    spawner.close()


def test_an_early_start_that_fails_is_no_failure(spawner: Spawner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawner_module.sys, "executable", "/does/not/exist")
    spawner.start_early_nodes(1)
    assert early_pids(spawner) == []


def test_a_child_that_dies_before_its_first_line_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start does not fail; the monitor sees the death."""
    popen = spawner_module.subprocess.Popen

    def start_and_kill(*args: object, **kwargs: object) -> object:
        process = popen(*args, **kwargs)  # type: ignore[call-overload]
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(spawner_module.subprocess, "Popen", start_and_kill)
    process = Spawner(tmp_path).spawn("engine.node", [], settings="{}" * 100_000, log=tmp_path / "logs" / "n1.log")
    assert process.poll() == -signal.SIGKILL
