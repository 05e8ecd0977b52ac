"""Runs a command and measures it from outside: wall time, CPU and memory of all its processes.

CPU is exact where a control group can be created: it includes grandchildren that were not reaped. Elsewhere every
process is sampled each 50 ms and its last value kept, so that up to 50 ms of each are missing.
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

SAMPLE_SECONDS = 0.05
_LABEL_SAMPLES = 10
"""Samples of a new process in which it may still have the command line of its parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Resources used by a command, in seconds and bytes."""

    exit_code: int
    wall: float
    cpu: float
    cpu_by: Literal["control group", "processes"]
    peak: int
    """The largest sum of the resident sizes of all processes; shared pages count in each."""
    largest: int
    """The largest resident size of one process."""
    parts: dict[str, "Part"]
    """Resources by the module or program that processes run; the last 50 ms of each are missing."""
    others: float
    """CPU seconds of everything else on the machine meanwhile, including steal time."""
    started: float
    """`time.monotonic()` at the start."""
    stdout: str
    stderr: str


@dataclass(slots=True)
class Part:
    """Processes that run the same program."""

    processes: int = 0
    cpu: float = 0.0
    largest: int = 0
    steady: int = 0
    """The largest median resident size of one process."""


class _Sampler(threading.Thread):
    """Samples the processes while they run."""

    def __init__(self, processes: Processes, root: int) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._root = root
        self._ended = threading.Event()
        self._handles: dict[int, psutil.Process] = {}
        self._samples: dict[int, int] = {}
        self._labels: dict[int, str] = {}
        self._resident: dict[int, list[int]] = {}
        self.cpu: dict[int, float] = {}
        self.peak = 0
        self.largest = 0

    def run(self) -> None:
        while not self._ended.is_set():
            self.sample()
            self._ended.wait(SAMPLE_SECONDS)

    def sample(self) -> None:
        total = 0
        for pid in self._processes.alive(self._root):
            try:
                process = self._handles.get(pid) or self._handles.setdefault(pid, psutil.Process(pid))
                samples = self._samples[pid] = self._samples.get(pid, 0) + 1
                if samples <= _LABEL_SAMPLES:
                    self._labels[pid] = _label(process.cmdline(), process.name())
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
        """Kill the processes."""
        for pid in self._processes.alive(self._root):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def parts(self) -> dict[str, Part]:
        """Resources by label, the most CPU first."""
        parts: dict[str, Part] = {}
        for pid in sorted(self.cpu, key=lambda pid: -self.cpu[pid]):
            part = parts.setdefault(self._labels[pid], Part())
            part.processes += 1
            part.cpu += self.cpu[pid]
            sizes = sorted(self._resident[pid])
            part.largest = max(part.largest, sizes[-1])
            part.steady = max(part.steady, sizes[len(sizes) // 2])
        return parts


def _label(words: Sequence[str], name: str) -> str:
    """The name of a process of ours, the module after `-m` in a command line, else the script, else the program."""
    if any(word.startswith("engine.processes.") for word in words):
        return name
    if "-m" in words[1:-1]:
        return words[words.index("-m") + 1]
    names = [Path(word).name for word in words[:2]]
    return names[1] if len(names) > 1 and names[0].startswith("python") else (names or ["?"])[0]


def _busy() -> float:
    """CPU seconds of the whole machine, including steal time."""
    times = psutil.cpu_times()._asdict()
    return float(sum(times.values()) - sum(times.get(name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice")))


def measure(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 600.0,
) -> Measured:
    """Run a command to its end; after `timeout` seconds it is killed with its children.

    Python keeps the bytecode of what it imports, as that of installed packages is kept, whatever the environment says.
    """
    environment = {name: value for name, value in (env or os.environ).items() if name != "PYTHONDONTWRITEBYTECODE"}
    processes: Processes = Group.make() or Tree()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        busy, started = _busy(), time.monotonic()
        process = subprocess.Popen(
            processes.enter(command), cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        sampler = _Sampler(processes, process.pid)
        sampler.start()
        alarm = threading.Timer(timeout, sampler.kill)
        alarm.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - started
        except BaseException:
            sampler.kill()
            raise
        finally:
            alarm.cancel()
            sampler.end()
        process.returncode = os.waitstatus_to_exitcode(status)
        everything = _busy() - busy
        sampled = max(sum(sampler.cpu.values()), usage.ru_utime + usage.ru_stime)
        group_cpu = processes.cpu()
        processes.close()
        out.seek(0)
        errors.seek(0)
        cpu = sampled if group_cpu is None else group_cpu
        return Measured(
            exit_code=process.returncode,
            wall=wall,
            cpu=cpu,
            cpu_by=processes.kind,
            peak=sampler.peak,
            largest=sampler.largest,
            parts=sampler.parts(),
            others=max(0.0, everything - cpu),
            started=started,
            stdout=out.read().decode(errors="replace"),
            stderr=errors.read().decode(errors="replace"),
        )


def parts_table(done: Measured) -> str:
    """Resources of each kind of process."""
    return table(
        ["process", "number", "CPU s", "steady MB", "largest MB"],
        [[name, part.processes, part.cpu, part.steady / 1e6, part.largest / 1e6] for name, part in done.parts.items()],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure a command: wall time, CPU and memory of all its processes.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the result as a JSON line")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command given")
    done = measure(command, timeout=options.timeout)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    result = {name: value for name, value in asdict(done).items() if name not in ("stdout", "stderr", "started")}
    print(
        table(
            ["exit", "wall s", "CPU s", "counted by", "peak MB", "largest MB"],
            [[done.exit_code, done.wall, done.cpu, done.cpu_by, done.peak / 1e6, done.largest / 1e6]],
        )
    )
    print(parts_table(done))
    put(options.json, {"bench": "measure", "command": command, **result, **machine()})
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
