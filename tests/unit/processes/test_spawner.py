"""The processes of a supervisor: forks of a template that are its own children, or interpreters of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawl_engine.errors import CrawlError
from crawl_engine.processes import heartbeat
from crawl_engine.processes import launcher as launcher_module
from crawl_engine.processes import spawner as spawner_module
from crawl_engine.processes.child import Child
from crawl_engine.processes.heartbeat import CRASH_LIMIT
from crawl_engine.processes.spawner import Spawner
from tests.templates import children_of

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
KIND = """
import os, signal, sys, time
from crawl_engine.processes.launcher import Launcher, SupervisorSocket, TemplateLink
from crawl_engine.processes.orders import ProcessKind
import socket

class Forked:
    is_own = False
    pid = None

def main(start):
    link = TemplateLink(socket.socket(fileno=start.files["template"]))
    print(start.arguments["text"], os.getpid(), os.getsid(0) == os.getpid(), *sorted(start.files), flush=True)
    if start.arguments.get("forks"):
        clients = []
        def fork(*_):
            clients.append(Launcher(link))
            clients[-1].start(Forked, ProcessKind("kind:sleep", "test", True), {}, {})
        signal.signal(signal.SIGUSR1, fork)
    SupervisorSocket(start.files["lifeline"], link).wait_for_end()
    return 7

def sleep(start):
    time.sleep(600)
"""


@pytest.fixture(params=["forked", "plain"])
def spawner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Spawner]:
    if request.param == "plain":  # a system that refuses prctl
        monkeypatch.setattr(spawner_module, "become_subreaper", lambda: False)
    elif sys.platform != "linux":
        pytest.skip("needs prctl")
    (tmp_path / "kind.py").write_text(KIND)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(launcher_module, "_END_SECONDS", 5.0)
    spawner = Spawner(tmp_path / "data", ["kind"])
    yield spawner
    for child in list(spawner._children):
        child.kill()
    spawner.close()


def until(spawner: Spawner, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        spawner.check()
        time.sleep(0.01)


def spawn(spawner: Spawner, folder: Path, text: str = "hello", *, forks: bool = False) -> tuple[Child, Path]:
    log = folder / "logs" / f"{text}.log"
    child = spawner.spawn("kind:main", "test", {"text": text, "forks": forks}, log=log)
    until(spawner, lambda: child.pid is not None and log.read_text().endswith("\n"))
    return child, log


def test_a_process_is_a_child_of_the_supervisor_with_its_own_session(spawner: Spawner, tmp_path: Path) -> None:
    child, log = spawn(spawner, tmp_path)
    assert child.pid is not None
    assert log.read_text() == f"hello {child.pid} True lifeline output template\n"
    assert child.pid in children_of(os.getpid())
    if spawner.adopts:
        assert str(tmp_path / "data") in Path(f"/proc/{child.pid}/cmdline").read_text()
    child.close()
    until(spawner, lambda: child.poll() is not None)
    assert child.poll() == 7


def test_signals_reach_the_group_of_a_process(spawner: Spawner, tmp_path: Path) -> None:
    child, _ = spawn(spawner, tmp_path)
    child.signal(signal.SIGTERM)
    until(spawner, lambda: child.poll() is not None)
    assert child.poll() == -signal.SIGTERM


def test_a_process_that_is_killed_before_it_has_started_ends(spawner: Spawner, tmp_path: Path) -> None:
    child = spawner.spawn("kind:main", "test", {"text": "early"}, log=tmp_path / "logs" / "early.log")
    assert child.kill() == -signal.SIGKILL
    until(spawner, lambda: child.poll() == -signal.SIGKILL)


@linux
def test_a_template_that_died_is_followed_by_another_which_its_processes_use(spawner: Spawner, tmp_path: Path) -> None:
    child, _ = spawn(spawner, tmp_path, forks=True)
    lost = spawner._template.pid
    assert lost is not None
    os.kill(lost, signal.SIGKILL)
    until(spawner, lambda: spawner._template.pid not in (None, lost))
    assert child.poll() is None
    assert child.pid is not None
    time.sleep(0.3)  # the process has been told of the new one
    os.kill(child.pid, signal.SIGUSR1)
    template = spawner._template.pid
    assert template is not None
    until(spawner, lambda: children_of(template))
    [forked] = children_of(template)
    assert os.getsid(forked) == forked
    child.kill()
    until(spawner, lambda: not children_of(template))
    other, _ = spawn(spawner, tmp_path, "other")
    assert other.poll() is None


def lose_template(spawner: Spawner, number: signal.Signals) -> None:
    """Send a signal to the template; returns when another follows."""
    lost = spawner._template.pid
    assert lost is not None
    os.kill(lost, number)
    until(spawner, lambda: spawner._template.pid not in (None, lost) and spawner._launcher.heard)


def test_deaths_of_a_template_that_lived_long_enough_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "HEALTHY_SECONDS", 0.3)
    monkeypatch.setattr(spawner_module, "_PING_SECONDS", 0.05)
    spawner = Spawner(tmp_path, [])
    spawner.start_template()
    for _ in range(CRASH_LIMIT + 1):
        time.sleep(0.3)
        lose_template(spawner, signal.SIGKILL)
    assert spawner.failure is None
    monkeypatch.setattr(heartbeat, "HEALTHY_SECONDS", 60.0)
    for _ in range(CRASH_LIMIT - 2):
        lose_template(spawner, signal.SIGKILL)
    assert spawner.failure is None
    assert spawner._template.pid is not None
    os.kill(spawner._template.pid, signal.SIGKILL)
    until(spawner, lambda: spawner.failure)
    spawner.close()


def test_a_template_that_hangs_is_replaced_and_starts_what_waits(
    spawner: Spawner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawner_module, "_SILENT_SECONDS", 0.5)
    child, _ = spawn(spawner, tmp_path)
    until(spawner, lambda: spawner._launcher.heard)
    spawner._heartbeat.timeout = 0.5
    lose_template(spawner, signal.SIGSTOP)
    assert child.poll() is None
    other, _ = spawn(spawner, tmp_path, "other")
    assert other.poll() is None


def test_a_spawner_that_was_stopped_does_not_blame_the_template(spawner: Spawner, tmp_path: Path) -> None:
    """Silence counts only while the observer ran: both may have been frozen."""
    spawn(spawner, tmp_path)
    template = spawner._template.pid
    spawner._heartbeat.observed_at = time.monotonic() - 600
    spawner.check()
    assert spawner._template.pid == template
    until(spawner, lambda: spawner._heartbeat.missed == 0)
    assert spawner._template.is_running


def test_a_template_that_never_starts_a_process_fails_in_the_end(tmp_path: Path) -> None:
    spawner = Spawner(tmp_path, ["engine.nowhere"])
    if not spawner.adopts:
        pytest.skip("needs prctl")
    spawner.start_template()
    until(spawner, lambda: spawner.failure)
    assert spawner._crashes == CRASH_LIMIT
    spawner.close()


def test_orders_that_a_template_could_not_serve_count_as_deaths(tmp_path: Path) -> None:
    spawner = Spawner(tmp_path, ["engine.nowhere"])
    if not spawner.adopts:
        pytest.skip("needs prctl")
    child = spawner.spawn("engine.nowhere:main", "test", {}, log=tmp_path / "logs" / "n1.log")
    until(spawner, lambda: child.poll() is not None)
    assert child.poll() == -signal.SIGKILL
    spawner.close()


def test_what_cannot_be_started_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    with pytest.raises(CrawlError, match="cannot start the template: No such file"):
        Spawner(tmp_path, []).start_template()


ORPHAN = """
import os, pathlib, time

def main(start):
    if not os.fork():
        if not os.fork():
            pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
            time.sleep(0.2)
        os._exit(0)
    time.sleep(600)
"""
REAPER = """
import pathlib, sys, time
from crawl_engine.processes.spawner import Spawner

folder = pathlib.Path(sys.argv[1])
spawner = Spawner(folder / "data", [])
child = spawner.spawn("orphan:main", "test", {}, log=folder / "logs" / "o.log")
deadline = time.monotonic() + 20
written = folder / "pid"
while not (written.exists() and written.read_text()) and time.monotonic() < deadline:
    time.sleep(0.01)
orphan = written.read_text()
while pathlib.Path(f"/proc/{orphan}").exists() and time.monotonic() < deadline:
    spawner.check()
    time.sleep(0.01)
print(pathlib.Path(f"/proc/{orphan}").exists(), child.poll())
child.kill()
spawner.close()
"""


@linux
def test_orphans_of_its_processes_are_reaped(tmp_path: Path) -> None:
    (tmp_path / "orphan.py").write_text(ORPHAN)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", REAPER, str(tmp_path)], cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "False None\n", done.stderr


def test_a_process_that_starts_as_the_spawner_closes_gets_the_signals_sent_before(
    spawner: Spawner, tmp_path: Path
) -> None:
    child = spawner.spawn("kind:main", "test", {"text": "late"}, log=tmp_path / "logs" / "late.log")
    child.signal(signal.SIGKILL)
    spawner.close()
    deadline = time.monotonic() + 5
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.poll() == -signal.SIGKILL
    assert child.pid is not None
