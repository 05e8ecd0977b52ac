"""Runs a command and measures it from outside: wall time, CPU and memory of all its processes.

CPU is that of a control group (version 2) where one can be created. Elsewhere it is that of all reaped processes, and
of others what they had used at the last sample. Memory is the sum of the proportional sizes (PSS) of all processes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from tests.bench.report import machine, machine_line, put, table

SAMPLES_PER_S = 4
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


@dataclass(slots=True)
class Part:
    """Processes that run the same program."""

    pids: set[int] = field(default_factory=set)
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Of the largest of them, in bytes, with the time of each sample."""

    @property
    def largest(self) -> int:
        return max(size for _, size in self.memory)

    @property
    def steady(self) -> float:
        """The median over time."""
        return median(size for _, size in self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Resources used by a command, in seconds and bytes."""

    exit_code: int
    wall: float
    cpu: float
    cpu_by: str
    peak: int
    """The largest sum of the proportional sizes of all processes."""
    parts: dict[str, Part]
    """Memory by the module or program that processes run."""
    others: float
    """CPU seconds of everything else on the machine meanwhile, including steal time."""
    started: float
    """`time.monotonic()` at the start."""
    stdout: str
    stderr: str


class _Group:
    """A control group of a command; without one, the descendants found by polling."""

    def __init__(self) -> None:
        self._path = _make_group()
        self._known: dict[int, psutil.Process] = {}
        self._cpu: dict[int, float] = {}
        self.cpu_by = "processes, sampled" if self._path is None else "control group"

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command line that starts the command in this group."""
        if self._path is None:
            return list(command)
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._path / "cgroup.procs"), *command]

    def processes(self, root: int) -> list[psutil.Process]:
        """Those alive."""
        if self._path is not None:
            pids = [int(line) for line in (self._path / "cgroup.procs").read_text().split()]
        else:
            pids = [root]
            with suppress(*_GONE):
                pids += [child.pid for child in psutil.Process(root).children(recursive=True)]
            pids += self._known  # a process whose parent died is no longer a descendant, but still counts
        for pid in pids:
            if pid not in self._known:
                with suppress(*_GONE):
                    self._known[pid] = psutil.Process(pid)
        return [process for pid, process in self._known.items() if pid in pids and process.is_running()]

    def count(self, process: psutil.Process) -> None:
        """Remember the CPU of a process, where no group counts it."""
        if self._path is None:
            times = process.cpu_times()
            self._cpu[process.pid] = times.user + times.system

    def cpu(self, reaped: float) -> float:
        """Seconds so far. `reaped`: those of the command and of all descendants that their parents waited for."""
        if self._path is None:
            return max(reaped, sum(self._cpu.values()))
        stat = dict(line.split() for line in (self._path / "cpu.stat").read_text().splitlines())
        return int(stat["usage_usec"]) / 1e6

    def close(self) -> None:
        """Remove the group once its last process has ended."""
        for _ in range(40):
            with suppress(OSError):
                if self._path is not None:
                    self._path.rmdir()
                return
            time.sleep(0.05)


def _make_group() -> Path | None:
    """Create a control group below our own; None where that is not permitted."""
    with suppress(OSError, StopIteration):
        mounts = map(str.split, Path("/proc/mounts").read_text().splitlines())
        mount = next(point for _, point, kind, *_ in mounts if kind == "cgroup2")
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.removeprefix("0::") for line in groups if line.startswith("0::"))
        path = Path(mount + own, f"bench-{os.getpid()}-{time.monotonic_ns()}")
        path.mkdir()
        return path
    return None


class _Sampler(threading.Thread):
    """Samples the memory of the processes while they run."""

    def __init__(self, group: _Group, root: int) -> None:
        super().__init__(daemon=True)
        self._group = group
        self._root = root
        self._ended = threading.Event()
        self._labels: dict[int, str] = {}
        self._sizes: list[tuple[float, dict[int, int]]] = []
        """Of each process, with the time of the sample."""

    def run(self) -> None:
        while not self._ended.wait(1 / SAMPLES_PER_S):
            sizes = {}
            for process in self._group.processes(self._root):
                with suppress(*_GONE):
                    sizes[process.pid] = _proportional_size(process)
                    self._labels[process.pid] = _label(process)
                    self._group.count(process)
            self._sizes.append((time.monotonic(), sizes))

    @property
    def peak(self) -> int:
        """The largest sum."""
        return max((sum(sizes.values()) for _, sizes in self._sizes), default=0)

    def parts(self) -> dict[str, Part]:
        """By label: a process keeps the last one that it had."""
        parts: dict[str, Part] = {}
        for at, sizes in self._sizes:
            largest: dict[str, int] = {}
            for pid, size in sizes.items():
                label = self._labels.get(pid, "?")
                parts.setdefault(label, Part()).pids.add(pid)
                largest[label] = max(size, largest.get(label, 0))
            for label, size in largest.items():
                parts[label].memory.append((at, size))
        return parts

    def end(self) -> None:
        self._ended.set()
        self.join()

    def kill(self) -> None:
        """Kill the processes."""
        for process in self._group.processes(self._root):
            with suppress(*_GONE):
                process.kill()


def _proportional_size(process: psutil.Process) -> int:
    """Bytes; a page that n processes share counts 1/n in each. Where only sizes are known: the resident size."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return int(process.memory_info().rss)
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _label(process: psutil.Process) -> str:
    """The name that a process has given itself; of Python the module after `-m`, else the script."""
    name = process.name()
    if not name.startswith("python"):
        return name
    words = process.cmdline()
    if "-m" in words[1:-1]:
        return words[words.index("-m") + 1]
    return Path(words[1]).name if len(words) > 1 else name


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
    """Run a command to its end; after `timeout` seconds all its processes are killed.

    Python keeps the bytecode of what it imports, as that of installed packages is kept, whatever the environment says.
    """
    environment = {name: value for name, value in (env or os.environ).items() if name != "PYTHONDONTWRITEBYTECODE"}
    group = _Group()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        busy, started = _busy(), time.monotonic()
        process = subprocess.Popen(
            group.enter(command), cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
        )
        sampler = _Sampler(group, process.pid)
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
        cpu = group.cpu(usage.ru_utime + usage.ru_stime)
        everything = _busy() - busy
        group.close()
        out.seek(0)
        errors.seek(0)
        return Measured(
            exit_code=process.returncode,
            wall=wall,
            cpu=cpu,
            cpu_by=group.cpu_by,
            peak=sampler.peak,
            parts=sampler.parts(),
            others=max(0.0, everything - cpu),
            started=started,
            stdout=out.read().decode(errors="replace"),
            stderr=errors.read().decode(errors="replace"),
        )


def parts_table(done: Measured) -> str:
    """Memory of each kind of process."""
    return table(
        ["process", "number", "steady MB", "largest MB"],
        [[name, len(part.pids), part.steady / 1e6, part.largest / 1e6] for name, part in done.parts.items()],
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
    print(machine_line())
    heads = ["exit", "wall s", "CPU s", "counted by", "peak MB"]
    print(table(heads, [[done.exit_code, done.wall, done.cpu, done.cpu_by, done.peak / 1e6]]))
    print(parts_table(done))
    result = {"exit": done.exit_code, "seconds": done.wall, "cpu_seconds": done.cpu, "peak_bytes": done.peak}
    put(options.json, {"bench": "measure", "command": command, **result, **machine()})
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
