"""A template alone: its orders, its clients, their ends, and its own."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.processes import launcher as launcher_module
from engine.processes.launcher import ForkedProcess, Launcher, OwnTemplate, TemplateLost
from engine.processes.orders import Ended, Started
from engine.processes.program import Program, read_failure
from tests.templates import children_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
KIND = """
import os, signal, time

def answer(start):
    os.write(start.files["pipe"], f"{start.arguments['text']} {os.getsid(0) == os.getpid()}".encode())
    return 7

def sleep(start):
    time.sleep(600)

def stubborn(start):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(600)
    os.write(start.files["pipe"], b"ready")
    time.sleep(600)
"""


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnTemplate]:
    (tmp_path / "kind.py").write_text(KIND)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = OwnTemplate(["kind"])
    yield own
    own.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def reports(launcher: Launcher, count: int) -> list[Started | Ended]:
    heard: list[Started | Ended] = []
    until(lambda: heard.extend(launcher.receive()) or len(heard) >= count)
    return heard


def start(launcher: Launcher, function: str, *, leads_session: bool = False, text: str = "") -> tuple[int, bytes]:
    """Start a function of the module `kind`; returns its number and what it wrote."""
    read, write = os.pipe()
    number = launcher.start(f"kind:{function}", "test", {"text": text}, {"pipe": write}, leads_session=leads_session)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return number, pipe.read(100) if function == "answer" else os.read(read, 100)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def members(session: int) -> list[int]:
    """The live processes of a session."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.getsid(pid) == session and is_alive(pid):
                found.append(pid)
        except ProcessLookupError:
            pass
    return found


def test_an_order_is_a_process_with_arguments_and_files(template: OwnTemplate) -> None:
    with closing(template.connect()) as launcher:
        number, written = start(launcher, "answer", text="hello", leads_session=True)
        assert written == b"hello True"
        started, ended = reports(launcher, 2)
        assert isinstance(started, Started)
        assert isinstance(ended, Ended)
        assert (started.number, ended.number, ended.cause) == (number, number, "exit 7")
        assert ended.memory > 1_000_000


def test_a_function_that_is_not_there_ends_its_process_alone(template: OwnTemplate) -> None:
    with closing(template.connect()) as launcher:
        launcher.start("kind:nothing", "test", {}, {})
        ended = reports(launcher, 2)[1]
        assert isinstance(ended, Ended)
        assert ended.cause == "exit 1"
        assert start(launcher, "answer", text="on")[1] == b"on False"


def test_a_killed_process_takes_its_session_along_although_it_ignores_sigterm(template: OwnTemplate) -> None:
    with closing(template.connect()) as launcher:
        number, _ = start(launcher, "stubborn", leads_session=True)
        [started] = reports(launcher, 1)
        assert isinstance(started, Started)
        until(lambda: len(members(started.pid)) == 2)
        os.kill(started.pid, signal.SIGTERM)
        launcher.kill(number)
        [ended] = reports(launcher, 1)
        assert isinstance(ended, Ended)
        assert ended.cause == "signal 9"
        until(lambda: not members(started.pid))


def test_processes_end_with_the_client_that_ordered_them(template: OwnTemplate) -> None:
    with closing(template.connect()) as kept, closing(template.connect()) as gone:
        pids = []
        for launcher in (kept, gone):
            start(launcher, "stubborn", leads_session=True)
            [started] = reports(launcher, 1)
            assert isinstance(started, Started)
            pids.append(started.pid)
        gone.close()
        until(lambda: not members(pids[1]))
        assert len(members(pids[0])) == 2


@pytest.mark.parametrize("seed", range(10))
def test_a_template_that_is_killed_leaves_no_process_and_is_followed(template: OwnTemplate, seed: int) -> None:
    rng, launcher = random.Random(seed), template.connect()
    pid = template.pid
    assert pid is not None
    for _ in range(rng.randrange(6)):
        launcher.start("kind:stubborn", "test", {}, {"pipe": 2}, leads_session=rng.random() < 0.5)
    time.sleep(rng.uniform(0, 0.2))
    heirs = children_of(pid)
    os.kill(pid, signal.SIGKILL)
    with closing(launcher), pytest.raises(TemplateLost):
        until(lambda: launcher.receive() and False)
    until(lambda: not any(map(is_alive, heirs)))
    for heir in heirs:
        for left in members(heir):  # only its client knows its session
            os.kill(left, signal.SIGKILL)
    with closing(template.connect()) as launcher:
        assert start(launcher, "answer", text="on")[1] == b"on False"
    assert template.pid != pid


def test_a_forked_process_takes_its_session_along_when_its_template_dies(template: OwnTemplate) -> None:
    read, write = os.pipe()
    process = ForkedProcess(template, "kind:stubborn", "test", {}, {"pipe": write})
    assert os.read(read, 100) == b"ready"
    assert process.wait(0.01) is None
    [pid] = children_of(template.pid or 0)
    assert len(members(pid)) == 2
    os.kill(template.pid or 0, signal.SIGKILL)
    ended = process.wait(20)
    assert ended is not None
    assert ended.cause == "signal 9"
    until(lambda: not members(pid))
    process.close()
    os.close(read)
    os.close(write)


def run(template: OwnTemplate, *command: str, text: bytes = b"") -> tuple[str, bytes, str]:
    """How a program ended, its output, and why it could not be run."""
    with closing(Program(template, command, "test")) as program:
        program.stdin.write(text)
        program.stdin.close()
        output = program.stdout.read()
        ended = program.wait(20)
        assert ended is not None
        return ended.cause, output, read_failure(program.connection)


def test_a_program_gets_its_input_and_ends_by_itself(template: OwnTemplate) -> None:
    assert run(template, "sh", "-c", "cat; exit 3", text=b"hello") == ("exit 3", b"hello", "")
    assert run(template, "cat", "/dev/stdin", text=b"hello") == ("exit 0", b"hello", "")


def test_a_program_has_default_signals_and_no_other_file(template: OwnTemplate) -> None:
    other, another = socket.socketpair()
    with other, another:
        _, status, _ = run(template, "cat", "/proc/self/status")
        _, files, _ = run(template, "ls", "/proc/self/fd")
    fields = dict(line.split(":\t") for line in status.decode().splitlines())
    assert [int(fields[name], 16) & 0x7FFF_FFFF for name in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]
    assert files.split() == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/no/such", "No such file or directory"),
        ("/", "Permission denied"),
        ("a\0b", "execv: embedded null character in path"),
    ],
)
def test_a_program_that_cannot_be_run_says_why(template: OwnTemplate, command: str, reason: str) -> None:
    assert run(template, command) == ("exit 127", b"", f"cannot run {command}: {reason}")


def test_a_program_that_ignores_sigterm_ends_with_its_client(template: OwnTemplate) -> None:
    program = Program(template, ["sh", "-c", "trap '' TERM; sleep 600 & echo $$; wait"], "test")
    pid = int(program.stdout.readline())
    assert len(members(pid)) == 2
    os.killpg(pid, signal.SIGTERM)
    assert program.wait(0.1) is None
    program.close()
    until(lambda: not members(pid))


FORKING = """
import json, os, sys
from contextlib import closing, suppress
from pathlib import Path
from engine.processes.launcher import OwnTemplate
from engine.processes.program import Program
from engine.runtime.process_identity import data_dir_of

own = OwnTemplate(["kind"], Path(sys.argv[1]))
held = os.open(__import__("kind").__file__, os.O_RDONLY)
own.fork()
with closing(Program(own, ["env", "-0"], "test")) as program:
    environment = dict(line.split("=", 1) for line in program.stdout.read().decode().split("\\0")[:-1])
    program.wait()
files = []
for path in Path(f"/proc/{own.pid}/fd").iterdir():
    with suppress(FileNotFoundError):  # closed meanwhile
        files.append(os.readlink(path))
line = Path(f"/proc/{own.pid}/cmdline").read_bytes().rstrip(b"\\0").decode()
print(json.dumps([environment == dict(os.environ), files, line, data_dir_of(own.pid), os.getsid(own.pid) == own.pid]))
own.close()
"""


def test_a_fork_keeps_no_file_and_no_argument_of_its_parent(tmp_path: Path, template: OwnTemplate) -> None:
    data = str(tmp_path / "a b")
    done = subprocess.run(
        [sys.executable, "-c", FORKING, data, "secret"], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[3], stdin=subprocess.DEVNULL,
    )  # fmt: skip
    environment_is_kept, files, line, data_dir, leads_session = json.loads(done.stdout)
    assert environment_is_kept
    assert [file for file in files if not file.startswith(("socket:", "pipe:")) and file != os.devnull] == []
    assert line == f"crawl-console template --data {data}"
    assert (data_dir, leads_session) == (data, True)


def test_a_client_of_a_template_that_is_ending_gets_another(
    template: OwnTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher_module, "_END_SECONDS", 0.1)
    template.share().close()
    pid = template.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    template._control.shutdown(socket.SHUT_RDWR)  # as the kernel closes the files before the process has ended
    with closing(template.connect()) as launcher:
        assert start(launcher, "answer", text="on")[1] == b"on False"
    assert template.pid != pid


def test_a_signal_right_after_the_start_of_an_own_process_is_not_lost(template: OwnTemplate) -> None:
    with closing(template.connect()) as launcher:
        for _ in range(20):
            launcher.start("kind:sleep", "test", {}, {}, own=True)
        pids: list[int] = []
        while len(pids) < 20:
            for report in launcher.receive():
                assert isinstance(report, Started)
                os.kill(report.pid, signal.SIGTERM)
                pids.append(report.pid)
        until(lambda: not any(map(is_alive, pids)))
