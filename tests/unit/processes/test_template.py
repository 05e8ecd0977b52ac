"""A template alone: its orders, its clients, their ends, and its own."""

import asyncio
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

from crawl_engine.processes import launcher as launcher_module
from crawl_engine.processes.launcher import Launcher, OwnTemplate
from crawl_engine.processes.orders import Ended, ProcessKind
from crawl_engine.processes.program import Program
from crawl_engine.processes.worker import LaunchedProcess
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


class Noted:
    """What a launcher tells of a process."""

    def __init__(self, *, is_own: bool = False) -> None:
        self.is_own = is_own
        self.pid: int | None = None
        self.ended: Ended | None = None
        self.number = 0

    def on_started(self, pid: int) -> None:
        self.pid = pid

    def on_ended(self, ended: Ended) -> None:
        self.ended = ended


def hear(launcher: Launcher, condition: Callable[[], object]) -> None:
    until(lambda: launcher.hear() and condition())


def start(launcher: Launcher, function: str, *, leads_session: bool = False, text: str = "") -> tuple[Noted, bytes]:
    """Start a function of the module `kind`; returns its process and what it wrote."""
    read, write = os.pipe()
    process, kind = Noted(), ProcessKind(f"kind:{function}", "test", leads_session)
    process.number = launcher.start(process, kind, {"text": text}, {"pipe": write})
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return process, pipe.read(100) if function == "answer" else os.read(read, 100)


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
    with closing(Launcher(template)) as launcher:
        process, written = start(launcher, "answer", text="hello", leads_session=True)
        assert written == b"hello True"
        hear(launcher, lambda: process.ended)
        assert process.pid
        assert process.ended is not None
        assert process.ended.cause == "exit 7"
        assert process.ended.memory > 1_000_000


def test_a_function_that_is_not_there_ends_its_process_alone(template: OwnTemplate) -> None:
    with closing(Launcher(template)) as launcher:
        process = Noted()
        launcher.start(process, ProcessKind("kind:nothing", "test"), {}, {})
        hear(launcher, lambda: process.ended)
        assert process.ended is not None
        assert process.ended.cause == "exit 1"
        assert start(launcher, "answer", text="on")[1] == b"on False"


def test_a_killed_process_takes_its_session_along_although_it_ignores_sigterm(template: OwnTemplate) -> None:
    with closing(Launcher(template)) as launcher:
        process, _ = start(launcher, "stubborn", leads_session=True)
        hear(launcher, lambda: process.pid)
        pid = process.pid or 0
        until(lambda: len(members(pid)) == 2)
        os.kill(pid, signal.SIGTERM)
        launcher.kill(process.number)
        hear(launcher, lambda: process.ended)
        assert process.ended is not None
        assert process.ended.cause == "signal 9"
        until(lambda: not members(pid))


def test_processes_end_with_the_client_that_ordered_them(template: OwnTemplate) -> None:
    with closing(Launcher(template)) as kept, closing(Launcher(template)) as gone:
        pids = []
        for launcher in (kept, gone):
            process, _ = start(launcher, "stubborn", leads_session=True)
            hear(launcher, lambda process=process: process.pid)
            pids.append(process.pid or 0)
        gone.close()
        until(lambda: not members(pids[1]))
        assert len(members(pids[0])) == 2


@pytest.mark.parametrize("seed", range(10))
def test_a_template_that_is_killed_leaves_no_process_and_is_followed(template: OwnTemplate, seed: int) -> None:
    rng, launcher = random.Random(seed), Launcher(template)
    launcher.connect()
    pid = template.pid
    assert pid is not None
    started = [Noted() for _ in range(rng.randrange(6))]
    for process in started:
        kind = ProcessKind("kind:stubborn", "test", leads_session=rng.random() < 0.5)
        launcher.start(process, kind, {}, {"pipe": 2})
    time.sleep(rng.uniform(0, 0.2))
    heirs = children_of(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not launcher.hear())
    assert launcher.losses == 1
    assert all(process.ended for process in started)
    until(lambda: not any(map(is_alive, heirs)))
    for heir in heirs:
        for left in members(heir):  # only its client knows its session
            os.kill(left, signal.SIGKILL)
    with closing(launcher):
        assert start(launcher, "answer", text="on")[1] == b"on False"
    assert template.pid != pid


async def test_a_process_takes_its_session_along_when_its_template_dies(template: OwnTemplate) -> None:
    read, write = os.pipe()
    with closing(Launcher(template)) as launcher:
        process = LaunchedProcess(
            launcher, ProcessKind("kind:stubborn", "test", leads_session=True), {}, {"pipe": write}
        )
        assert await asyncio.to_thread(os.read, read, 100) == b"ready"
        assert await process.wait(0.01) is None
        [pid] = children_of(template.pid or 0)
        assert len(members(pid)) == 2
        os.kill(template.pid or 0, signal.SIGKILL)
        ended = await process.wait(20)
        assert ended is not None
        assert ended.cause == "signal 9"
        until(lambda: not members(pid))
        process.close()
    os.close(read)
    os.close(write)


async def run(template: OwnTemplate, *command: str, text: bytes = b"") -> tuple[str, bytes, str]:
    """How a program ended, its output, and why it could not be run."""
    with closing(Launcher(template)) as launcher, closing(Program(launcher, command, "test")) as program:
        await program.write(text)
        program.close_input()
        output = b""
        while chunk := await program.read():
            output += chunk
        ended = await program.wait(20)
        assert ended is not None
        return ended.cause, output, program.failure


async def test_a_program_gets_its_input_and_ends_by_itself(template: OwnTemplate) -> None:
    assert await run(template, "sh", "-c", "cat; exit 3", text=b"hello") == ("exit 3", b"hello", "")
    assert await run(template, "cat", "/dev/stdin", text=b"hello") == ("exit 0", b"hello", "")


async def test_a_program_has_default_signals_and_no_other_file(template: OwnTemplate) -> None:
    other, another = socket.socketpair()
    with other, another:
        _, status, _ = await run(template, "cat", "/proc/self/status")
        _, files, _ = await run(template, "ls", "/proc/self/fd")
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
async def test_a_program_that_cannot_be_run_says_why(template: OwnTemplate, command: str, reason: str) -> None:
    assert await run(template, command) == ("exit 127", b"", f"cannot run {command}: {reason}")


async def test_a_program_that_ignores_sigterm_ends_with_its_client(template: OwnTemplate) -> None:
    with closing(Launcher(template)) as launcher:
        program = Program(launcher, ["sh", "-c", "trap '' TERM; sleep 600 & echo $$; wait"], "test")
        pid = int(await program.read())
        assert len(members(pid)) == 2
        os.killpg(pid, signal.SIGTERM)
        assert await program.wait(0.1) is None
        await program.end()
        program.close()
        until(lambda: not members(pid))


FORKING = """
import asyncio, json, os, sys
from contextlib import closing, suppress
from pathlib import Path
from crawl_engine.processes.launcher import Launcher, OwnTemplate
from crawl_engine.processes.program import Program
from crawl_engine.runtime.process_identity import data_dir_of

own = OwnTemplate(["kind"], Path(sys.argv[1]))
held = os.open(__import__("kind").__file__, os.O_RDONLY)
own.fork()
async def read():
    with closing(Launcher(own)) as launcher, closing(Program(launcher, ["env", "-0"], "test")) as program:
        output = b""
        while chunk := await program.read():
            output += chunk
        await program.wait()
        return output

environment = dict(line.split("=", 1) for line in asyncio.run(read()).decode().split("\\0")[:-1])
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
    with closing(Launcher(template)) as launcher:
        assert start(launcher, "answer", text="on")[1] == b"on False"
    assert template.pid != pid


def test_a_signal_right_after_the_start_of_an_own_process_is_not_lost(template: OwnTemplate) -> None:
    with closing(Launcher(template)) as launcher:
        processes = [Noted(is_own=True) for _ in range(20)]
        for process in processes:
            launcher.start(process, ProcessKind("kind:sleep", "test"), {}, {})
        signalled: set[int] = set()
        while len(signalled) < 20:
            assert launcher.hear()
            for pid in {process.pid for process in processes if process.pid} - signalled:
                os.kill(pid, signal.SIGTERM)
                signalled.add(pid)
        until(lambda: not any(map(is_alive, signalled)))
