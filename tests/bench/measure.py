"""Runs a command and measures it from outside: wall time, CPU and memory of all its processes. Knows no crawler.

CPU is that of a control group of its own where one may be made: exact, grandchildren that nobody reaped included.
Elsewhere every process is looked at each 50 ms and its last value kept, so that up to 50 ms of each are missing.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from tests.bench.processes import GONE, Group, Processes, Tree
from tests.bench.report import machine, put, table

EVERY = 0.05
_UNSETTLED = 10
"""Looks at a new process that may still show the command line of the one it was forked from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a command took. Seconds and bytes."""

    exit_code: int
    wall: float
    cpu: float
    cpu_by: Literal["control group", "processes"]
    peak: int
    """The largest sum of the resident sizes of all processes at one moment; shared pages count in each."""
    largest: int
    """The largest resident size of one process."""
    parts: dict[str, "Part"]
    """What processes of one kind took, by the module or program they run; the last 50 ms of each are missing."""
    others: float
    """Seconds of CPU that everything else on the machine took meanwhile, a virtual machine's host included."""
    began: float
    """`time.monotonic()` when it was started."""
    stdout: str
    stderr: str


@dataclass(slots=True)
class Part:
    """Processes that run the same program."""

    processes: int = 0
    cpu: float = 0.0
    largest: int = 0
    steady: int = 0
    """The median of what one process had at each look, of the one that had most."""


class _Watch(threading.Thread):
    """Looks at the processes while they run."""

    def __init__(self, processes: Processes, root: int) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._root = root
        self._ended = threading.Event()
        self._known: dict[int, psutil.Process] = {}
        self._looks: dict[int, int] = {}
        self._labels: dict[int, str] = {}
        self._resident: dict[int, list[int]] = {}
        self.cpu: dict[int, float] = {}
        self.peak = 0
        self.largest = 0

    def run(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(EVERY)

    def look(self) -> None:
        total = 0
        for pid in self._processes.alive(self._root):
            try:
                process = self._known.get(pid) or self._known.setdefault(pid, psutil.Process(pid))
                looks = self._looks[pid] = self._looks.get(pid, 0) + 1
                if looks <= _UNSETTLED:
                    self._labels[pid] = _label(process.cmdline())
                resident, times = process.memory_info().rss, process.cpu_times()
            except GONE:
                continue
            self.cpu[pid] = times.user + times.system
            self._resident.setdefault(pid, []).append(resident)
            total += resident
            self.largest = max(self.largest, resident)
        self.peak = max(self.peak, total)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def kill(self) -> None:
        """End what we started."""
        for pid in self._processes.alive(self._root):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def parts(self) -> dict[str, Part]:
        """By kind, the most CPU first."""
        found: dict[str, Part] = {}
        for pid in sorted(self.cpu, key=lambda pid: -self.cpu[pid]):
            part = found.setdefault(self._labels[pid], Part())
            part.processes += 1
            part.cpu += self.cpu[pid]
            seen = sorted(self._resident[pid])
            part.largest = max(part.largest, seen[-1])
            part.steady = max(part.steady, seen[len(seen) // 2])
        return found


def _label(words: Sequence[str]) -> str:
    """What a command line runs: the module after `-m`, else the script, else the program."""
    if "-m" in words[1:-1]:
        return words[words.index("-m") + 1]
    names = [Path(word).name for word in words[:2]]
    return names[1] if len(names) > 1 and names[0].startswith("python") else (names or ["?"])[0]


def _busy() -> float:
    """Seconds of CPU the whole machine has worked, or was kept from working."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times.values()) - sum(times.get(name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice")))


def measure(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 600.0,
) -> Measured:
    """Run a command to its end; one that takes longer than `timeout` seconds is killed, and so is what it started."""
    processes: Processes = Group.make() or Tree()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        busy, began = _busy(), time.monotonic()
        process = subprocess.Popen(
            processes.enter(command), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        watch = _Watch(processes, process.pid)
        watch.start()
        alarm = threading.Timer(timeout, watch.kill)
        alarm.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - began
        except BaseException:
            watch.kill()
            raise
        finally:
            alarm.cancel()
            watch.end()
        process.returncode = os.waitstatus_to_exitcode(status)
        everything = _busy() - busy
        looked = max(sum(watch.cpu.values()), usage.ru_utime + usage.ru_stime)
        counted = processes.cpu()
        processes.close()
        out.seek(0)
        errors.seek(0)
        cpu = looked if counted is None else counted
        return Measured(
            exit_code=process.returncode,
            wall=wall,
            cpu=cpu,
            cpu_by=processes.kind,
            peak=watch.peak,
            largest=watch.largest,
            parts=watch.parts(),
            others=max(0.0, everything - cpu),
            began=began,
            stdout=out.read().decode(errors="replace"),
            stderr=errors.read().decode(errors="replace"),
        )


def parts_table(done: Measured) -> str:
    """What each kind of process took."""
    return table(
        ["process", "number", "CPU s", "steady MB", "largest MB"],
        [[name, part.processes, part.cpu, part.steady / 1e6, part.largest / 1e6] for name, part in done.parts.items()],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure a command: wall time, CPU and memory of all its processes.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the result as a JSON line")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not command:
        parser.error("name the command to run")
    done = measure(command, timeout=asked.timeout)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    told = {name: value for name, value in asdict(done).items() if name not in ("stdout", "stderr", "began")}
    print(
        table(
            ["exit", "wall s", "CPU s", "counted by", "peak MB", "largest MB"],
            [[done.exit_code, done.wall, done.cpu, done.cpu_by, done.peak / 1e6, done.largest / 1e6]],
        )
    )
    print(parts_table(done))
    put(asked.json, {"bench": "measure", "command": command, **told, **machine()})
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
