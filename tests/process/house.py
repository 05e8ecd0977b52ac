"""A user's folder with defs and a data dir, and the program as a user runs it: real processes, each bounded in time."""

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .stopwatch import Stopwatch

CRAWL = [sys.executable, "-m", "console"]
LAUNCH = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Gives a command its terminal, by a Python of its own: what a process with threads forks must not run on in Python."""
PATIENCE = 45.0


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON object that stands last on stdout."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def jobs(self) -> dict[str, int]:
        return {name: count for name, count in self.summary["jobs"].items() if count}


class Running:
    """A command under way; its output lies in files, so that nothing blocks on a full pipe."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        number: int,
        stdin: bytes | None = None,
        explain: Callable[[], str] = str,
        tracer: Sequence[str] = (),
    ) -> None:
        """`explain` says how things stand when the command does not end; `tracer` goes in front of the command."""
        self._explain = explain
        self._out, self._err = folder / f"out{number}", folder / f"err{number}"
        self._begun = time.monotonic()
        # the modules are compiled once, not at each start of each process
        unwanted = ("CRAWL_", "PYTHONDONTWRITEBYTECODE")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*tracer, *CRAWL, *arguments],
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        if self.process.stdin is not None:
            self.process.stdin.write(stdin or b"")
            self.process.stdin.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def over(self) -> bool:
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

    def wait(self, seconds: float = PATIENCE) -> Done:
        """Its end; a command that takes longer is killed, and the test fails."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            how = self._explain()
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"not over after {seconds:g} s\n{self.err[-3000:]}\n{how}") from None
        out = self._out.read_text("utf-8", "replace")
        return Done(code, out, self.err, time.monotonic() - self._begun)


class House:
    """One data dir with its defs. Commands run in its folder, so no crawl.toml of a stranger counts."""

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
        """Begin a headless run."""
        where = ["--defs", str(self.defs), "--data", str(data or self.data), "--nodes", str(nodes or self.nodes)]
        return self.command("run", "--no-ui", "--json", *where, *arguments, stdin=stdin, tracer=tracer)

    def crawl(
        self, *arguments: str, code: int = 0, nodes: int | None = None, seconds: float = PATIENCE, **more: Any
    ) -> Done:
        """A whole headless run. Whatever its end, no process stays and nothing of the program failed."""
        done = self.start(*arguments, nodes=nodes, **more).wait(seconds)
        assert done.code == code, (
            f"exit {done.code}, not {code}\n{done.out[-1500:]}\n{done.err[-3000:]}\n{self.logs()[-3000:]}"
        )
        self.assert_clean(done)
        return done

    def run(self, *arguments: str, seconds: float = 20.0) -> Done:
        """A command to its end."""
        return self.command(*arguments).wait(seconds)

    def order(self, *arguments: str, seconds: float = 20.0) -> Done:
        """A command on this data dir."""
        return self.run(*arguments, "--data", str(self.data), seconds=seconds)

    def command(self, *arguments: str, stdin: bytes | None = None, tracer: Sequence[str] = ()) -> Running:
        running = Running(list(arguments), self.folder, len(self._commands), stdin, self.standing, tracer)
        self._commands.append(running)
        return running

    def status(self) -> dict[str, Any]:
        done = self.order("status", "--json")
        assert done.code == 0, done.err
        return done.summary

    def alive(self) -> dict[int, str]:
        """Living processes of this data dir, by pid: their command lines."""
        return {
            pid: line
            for pid, line in _processes().items()
            if str(self.folder) in line and ("engine." in line or "console" in line)
        }

    def children(self, kind: str) -> list[int]:
        """Pids of living `node`s, or of the `append`er."""
        return sorted(pid for pid, line in self.alive().items() if f"engine.{kind}" in line)

    def end_all(self) -> None:
        """Kill what a failed test left."""
        for running in self._commands:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_nobody_left(self, seconds: float = 10.0) -> None:
        if self.alive():
            watch = Stopwatch()
            assert until(lambda: not self.alive()), f"still alive: {self.alive()}"
            assert watch.seconds() < seconds

    def assert_clean(self, done: Done | None = None) -> None:
        """No process, no traceback, no damage, no job in anybody's hands."""
        self.assert_nobody_left(2.0)
        assert "Traceback" not in self.logs(), self.logs()[-4000:]
        assert done is None or "Traceback" not in done.err, done.err
        if (self.data / "crawl.db").exists():
            self.assert_sound()
            assert self.query("SELECT count(*) FROM jobs WHERE state = 'TAKEN'") == [(0,)]

    def assert_sound(self) -> None:
        for name in ("crawl.db", "pages.db"):
            assert self.query("PRAGMA integrity_check", name) == [("ok",)]

    def logs(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace") for path in sorted(self.data.glob("logs/*")))

    def standing(self) -> str:
        """How the run stands, for a failure's message."""
        if not (self.data / "crawl.db").exists():
            return "no crawl.db"
        told = [
            self._told(f"SELECT {what}")
            for what in (
                "id, state, stage, paused, active_sequences, seeded_version FROM runs",
                "id, grp, kind, rung_at, ready, delayed, taken, done FROM sequences",
                "key, delay, next_at, backoff_until, robots FROM hosts",
                "id, state, url, target, not_before, node, reason FROM jobs WHERE state NOT IN ('DONE', 'SKIPPED')",
                "number, epoch, state, role, heart, pid, in_flight, reason FROM nodes",
                "at, source, text FROM events ORDER BY id DESC LIMIT 20",
            )
        ]
        now = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
        alive = [f"{pid} {line}" for pid, line in self.alive().items()]
        return "\n".join([f"now {now}", *told, *alive, self.logs()[-3000:]])

    def _told(self, sql: str) -> str:
        try:
            return str(self.query(sql))
        except sqlite3.Error as error:
            return str(error)

    def query(self, sql: str, name: str = "crawl.db") -> list[tuple[Any, ...]]:
        """Ask a database of the data dir, at most 20 s long: a damaged one may lead in circles."""
        deadline = time.monotonic() + 20
        with contextlib.closing(sqlite3.connect(f"{(self.data / name).as_uri()}?mode=ro", uri=True, timeout=20)) as db:
            db.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            return db.execute(sql).fetchall()

    def job(self, url: str) -> dict[str, Any]:
        """State, reason and attempts of the job on a URL."""
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

    def counted(self, *data_defs: str) -> Counter[tuple[str, ...]]:
        return Counter((name, *row.values()) for name in data_defs for row in self.rows(name))


def read_csv(path: Path) -> list[dict[str, str]]:
    raw = path.read_bytes()
    assert raw.endswith(b"\r\n"), f"torn: {raw[-80:]!r}"
    header, *found = csv.reader(raw.decode("utf-8").splitlines(keepends=True), strict=True)
    assert all(len(row) == len(header) for row in found)
    return [dict(zip(header, row, strict=True)) for row in found]


def until(condition: Callable[[], object], seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def _processes() -> dict[int, str]:
    """All living processes of the machine; what others were started with need not be text."""
    if not Path("/proc/self/cmdline").exists():
        told = subprocess.run(["ps", "-axo", "pid=,stat=,command="], capture_output=True, check=True).stdout
        lines = (line.split(None, 2) for line in os.fsdecode(told).splitlines())
        return {int(line[0]): line[2] for line in lines if len(line) == 3 and "Z" not in line[1]}
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # an unreaped process has an empty command line
                found[int(folder.name)] = os.fsdecode((folder / "cmdline").read_bytes().replace(b"\0", b" "))
    return found
