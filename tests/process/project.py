"""A project folder with defs and a data dir; runs the program in it as real processes."""

import contextlib
import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from crawl_console.cli.commands.look.status import status
from crawl_console.cli.main import main

from .stopwatch import Stopwatch

CRAWL = [sys.executable, "-m", "crawl_console"]
LAUNCH = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Makes stdin the controlling terminal, then executes the command; `preexec_fn` is unsafe in a process with threads."""
TIMEOUT = 45.0
IN_PROCESS = {
    "cancel", "check", "drain", "events", "exclude", "export", "files", "host", "jobs", "kill", "logs", "pages",
    "pause", "plan", "query", "reload", "restart", "results", "resume", "retry", "runs", "scale", "seed", "state",
    "status", "steps", "stop", "vacuum",
}  # fmt: skip
"""Commands that start no process: the tests call them in theirs. `test_commands` compares both ways."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON object on the last line of stdout."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def jobs(self) -> dict[str, int]:
        return {name: count for name, count in self.summary["jobs"].items() if count}


class Running:
    """A running command. Its output goes to files, so that no full pipe blocks it."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        number: int,
        stdin: bytes | None = None,
        explain: Callable[[], str] = str,
        tracer: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`explain` describes the run when the command does not end in time; `tracer` is put before the command.

        `variables` of the environment are added to those of the tests.
        """
        self._explain = explain
        self._out, self._err = folder / f"out{number}", folder / f"err{number}"
        self._started_at = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*tracer, *CRAWL, *arguments],
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment_of(folder, variables),
                start_new_session=True,
            )
        if self.process.stdin is not None:
            self.process.stdin.write(stdin or b"")
            self.process.stdin.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exited(self) -> bool:
        return self.process.poll() is not None

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8", "replace")

    @property
    def err(self) -> str:
        return self._err.read_text("utf-8", "replace")

    def send(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float = TIMEOUT) -> Completed:
        """Wait for the end. A command that takes longer is killed, and the test fails."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            state = self._explain()
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {seconds:g} s\n{self.err[-3000:]}\n{state}") from None
        out = self._out.read_text("utf-8", "replace")
        return Completed(code, out, self.err, time.monotonic() - self._started_at)


def environment_of(folder: Path, variables: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of the commands in a folder: without settings, and with hosts that no other test shares."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CRAWL_")}
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), **(variables or {})}


class Project:
    """One data dir with its defs. Commands run in its folder, so that no other crawl.toml is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.defs, self.data = folder / "defs", folder / "data"
        self.nodes = 2
        self.defs.mkdir(exist_ok=True)
        self._commands: list[Running] = []
        self._seen: dict[int, str] = {}

    def write(self, text: str, name: str = "crawl.yml") -> None:
        (self.defs / name).write_text(text, "utf-8")

    def start(
        self,
        *arguments: str,
        nodes: int | None = None,
        stdin: bytes | None = None,
        data: Path | None = None,
        tracer: Sequence[str] = (),
    ) -> Running:
        """Start a headless run."""
        where = ["--defs", str(self.defs), "--data", str(data or self.data), "--nodes", str(nodes or self.nodes)]
        return self.start_command("run", "--no-ui", "--json", *where, *arguments, stdin=stdin, tracer=tracer)

    def crawl(
        self, *arguments: str, code: int = 0, nodes: int | None = None, seconds: float = TIMEOUT, **more: Any
    ) -> Completed:
        """Run headless to the end; check the exit code, and that no process, traceback or damage is left."""
        done = self.start(*arguments, nodes=nodes, **more).wait(seconds)
        assert done.code == code, (
            f"exit {done.code}, not {code}\n{done.out[-1500:]}\n{done.err[-3000:]}\n{self.logs()[-3000:]}"
        )
        self.assert_clean(done)
        return done

    def run_command(
        self, *arguments: str, seconds: float = 20.0, variables: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a command to its end; one of `IN_PROCESS` runs in the process of the tests."""
        if not arguments or arguments[0] not in IN_PROCESS:
            return self.start_command(*arguments, variables=variables).wait(seconds)
        streams = out, err = [self.folder / f"stream{number}" for number in range(2)]
        started_at = time.monotonic()
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, environment_of(self.folder, variables), clear=True),
            Path(os.devnull).open() as stdin,
            out.open("w", encoding="utf-8") as stdout,
            err.open("w", encoding="utf-8") as stderr,
            patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
            pytest.raises(SystemExit) as ended,
        ):
            main(arguments)
        texts = [path.read_text("utf-8", "replace") for path in streams]
        for path in streams:
            path.unlink()
        return Completed(int(ended.value.code or 0), *texts, time.monotonic() - started_at)

    def run_with_data(self, *arguments: str, seconds: float = 20.0) -> Completed:
        """Run a command with this data dir to its end."""
        return self.run_command(*arguments, "--data", str(self.data), seconds=seconds)

    def start_command(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        tracer: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Running:
        number = len(self._commands)
        running = Running(list(arguments), self.folder, number, stdin, self.describe_state, tracer, variables)
        self._commands.append(running)
        return running

    def status(self) -> dict[str, Any]:
        """The object of `status --json`, from this process: a process for each look takes CPU from the crawl."""
        done = CliRunner().invoke(status, ["--json", "--data", str(self.data)], standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        shown: dict[str, Any] = json.loads(done.stdout)
        return shown

    def live_processes(self) -> dict[int, str]:
        """Live processes of this project: their command lines by pid."""
        return {
            pid: line
            for pid, line in _processes().items()
            if str(self.folder) in line and ("crawl_engine." in line or "console" in line)
        }

    def children(self, kind: str) -> list[int]:
        """Pids of live processes of a kind."""
        assert kind in ("node", "appender", "extraction", "loader", "output", "helper", "template"), kind
        return sorted(pid for pid in self.live_processes() if process_name(pid) == kind)

    def extraction_processes(self) -> list[int]:
        """Pids of the live extraction processes of all nodes."""
        return self.children("extraction")

    def kill_all(self) -> None:
        """Kill the processes that a failed test left."""
        for running in self._commands:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
        for pid in self.live_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_no_process_left(self, seconds: float = 10.0) -> None:
        if self.live_processes():
            watch = Stopwatch()
            assert until(lambda: not self.live_processes()), f"still alive: {self.live_processes()}"
            assert watch.seconds() < seconds

    def assert_clean(self, done: Completed | None = None) -> None:
        """No process, no traceback, no damage, no TAKEN job."""
        self.assert_no_process_left(2.0)
        assert "Traceback" not in self.logs(), self.logs()[-4000:]
        assert done is None or "Traceback" not in done.err, done.err
        if (self.data / "crawl.db").exists():
            self.assert_integrity()
            assert self.query("SELECT count(*) FROM jobs WHERE state = 'TAKEN'") == [(0,)]

    def assert_integrity(self) -> None:
        for name in ("crawl.db", "pages.db"):
            assert self.query("PRAGMA integrity_check", name) == [("ok",)]

    def logs(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace") for path in sorted(self.data.glob("logs/*")))

    def describe_state(self) -> str:
        """The state of the run, for the message of a failed test."""
        if not (self.data / "crawl.db").exists():
            return "no crawl.db"
        tables = [
            self._query_text(f"SELECT {query}")
            for query in (
                "id, state, stage, paused, active_sequences, seeded_version FROM runs",
                "id, grp, kind, rung_at, ready, delayed, taken, done FROM sequences",
                "key, delay, next_at, backoff_until, robots FROM hosts",
                "id, state, url, target, not_before, node, reason FROM jobs WHERE state NOT IN ('DONE', 'SKIPPED')",
                "number, epoch, state, role, heart, pid, in_flight, reason FROM nodes",
                "at, source, text FROM events ORDER BY id DESC LIMIT 20",
            )
        ]
        now = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        alive = [f"{pid} {line}" for pid, line in self.live_processes().items()]
        return "\n".join([f"now {now}", *tables, *alive, self.logs()[-3000:]])

    def _query_text(self, sql: str) -> str:
        try:
            return str(self.query(sql))
        except sqlite3.Error as error:
            return str(error)

    def query(self, sql: str, name: str = "crawl.db") -> list[tuple[Any, ...]]:
        """Query a database of the data dir for at most 20 s: a damaged file can loop."""
        deadline = time.monotonic() + 20
        with contextlib.closing(sqlite3.connect(f"{(self.data / name).as_uri()}?mode=ro", uri=True, timeout=20)) as db:
            db.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            return db.execute(sql).fetchall()

    def job(self, url: str) -> dict[str, Any]:
        """State, reason and attempts of the job for a URL."""
        [(state, reason, attempts)] = self.query(
            f"SELECT state, reason, attempts FROM jobs WHERE url = '{url}' AND origin IN ('link', 'locator')"
            " ORDER BY id DESC LIMIT 1"
        )
        return {"state": state, "reason": reason, "attempts": attempts}

    def output(self, name: str) -> Path:
        return self.data / "output" / "latest" / name

    def rows(self, data_def: str) -> list[dict[str, str]]:
        """Rows of a CSV output, read strictly."""
        return read_csv(self.output(f"{data_def}.csv"))

    def count_rows(self, *data_defs: str) -> Counter[tuple[str, ...]]:
        return Counter((name, *row.values()) for name in data_defs for row in self.rows(name))


def read_csv(path: Path) -> list[dict[str, str]]:
    raw = path.read_bytes()
    assert raw.endswith(b"\r\n"), f"torn: {raw[-80:]!r}"
    header, *rows = csv.reader(raw.decode("utf-8").splitlines(keepends=True), strict=True)
    assert all(len(row) == len(header) for row in rows)
    return [dict(zip(header, row, strict=True)) for row in rows]


def until(condition: Callable[[], object], seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def parent_of(pid: int) -> int:
    """The pid of a process's parent; 0: the process is gone."""
    if Path("/proc/self/stat").exists():
        with contextlib.suppress(OSError):
            return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        return 0
    output = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=False).stdout
    return int(output or 0)


def process_name(pid: int) -> str:
    """What `top` shows; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _processes() -> dict[int, str]:
    """All live processes of the machine; command lines need not be UTF-8."""
    if not Path("/proc/self/cmdline").exists():
        output = subprocess.run(["ps", "-axo", "pid=,stat=,command="], capture_output=True, check=True).stdout
        lines = (line.split(None, 2) for line in os.fsdecode(output).splitlines())
        return {int(line[0]): line[2] for line in lines if len(line) == 3 and "Z" not in line[1]}
    commands = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # an unreaped process has an empty command line
                commands[int(folder.name)] = os.fsdecode((folder / "cmdline").read_bytes().replace(b"\0", b" "))
    return commands
