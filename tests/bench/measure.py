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
from typing import Literal, Protocol

import psutil

from tests.bench.report import machine, put, table

EVERY = 0.05
_UNSETTLED = 10
"""Looks at a new process that may still show the command line of the one it was forked from."""
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


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


class _Processes(Protocol):
    """All processes of a command: where their CPU is counted, and which live."""

    kind: Literal["control group", "processes"]

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command, started inside."""

    def alive(self, root: int) -> list[int]:
        """Process numbers."""

    def cpu(self) -> float | None:
        """Seconds so far; None: not known here."""

    def close(self) -> None:
        """Take it away."""


class _Group:
    """A control group, version 1 (`cpuacct`) or 2."""

    kind: Literal["control group", "processes"] = "control group"

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def make(cls) -> "_Group | None":
        """A new group below our own; None where that may not be done."""
        for parent in _own_groups():
            path = parent / f"bench-{os.getpid()}-{time.monotonic_ns()}"
            try:
                path.mkdir()
            except OSError:
                continue
            group = cls(path)
            if group.cpu() is not None and os.access(path / "cgroup.procs", os.W_OK):
                return group
            group.close()
        return None

    def enter(self, command: Sequence[str]) -> list[str]:
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._path / "cgroup.procs"), *command]

    def alive(self, root: int) -> list[int]:
        try:
            return [int(line) for line in (self._path / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    def cpu(self) -> float | None:
        try:
            if (self._path / "cpuacct.usage").exists():
                return int((self._path / "cpuacct.usage").read_text()) / 1e9
            told = dict(line.split() for line in (self._path / "cpu.stat").read_text().splitlines())
            return int(told["usage_usec"]) / 1e6
        except (OSError, KeyError, ValueError):
            return None

    def close(self) -> None:
        for _ in range(40):
            try:
                self._path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(EVERY)


class _Tree:
    """The children of the command's process, and theirs; found by looking."""

    kind: Literal["control group", "processes"] = "processes"

    def __init__(self) -> None:
        self._met: dict[int, psutil.Process] = {}

    def enter(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def alive(self, root: int) -> list[int]:
        try:
            top = psutil.Process(root)
            self._met.update({p.pid: p for p in [top, *top.children(recursive=True)]})
        except _GONE:
            pass
        # One whose parent died is nobody's child any more, but still ours.
        return [pid for pid, process in self._met.items() if process.is_running()]

    def cpu(self) -> float | None:
        return None

    def close(self) -> None:
        self._met.clear()


def _own_groups() -> list[Path]:
    """Folders of the groups this process is in, that count CPU."""
    try:
        mine = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except (OSError, ValueError):
        return []
    found = []
    for _, folder, kind, options, *_ in mounts:
        names = next((n for n in mine if "cpuacct" in n.split(",")), None) if kind == "cgroup" else ""
        if names is None or kind not in ("cgroup", "cgroup2") or (kind == "cgroup" and "cpuacct" not in options):
            continue
        own = mine.get(names, "/").lstrip("/")
        # In a container the path may be the host's, and mean nothing here.
        found += [Path(folder, own), Path(folder)] if own else [Path(folder)]
    return [path for path in found if path.is_dir()]


class _Watch(threading.Thread):
    """Looks at the processes while they run."""

    def __init__(self, processes: _Processes, root: int) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._root = root
        self._ended = threading.Event()
        self._known: dict[int, psutil.Process] = {}
        self._looks: dict[int, int] = {}
        self._labels: dict[int, str] = {}
        self._resident: dict[int, int] = {}
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
            except _GONE:
                continue
            self.cpu[pid] = times.user + times.system
            self._resident[pid] = max(resident, self._resident.get(pid, 0))
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
            part.largest = max(part.largest, self._resident[pid])
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
    processes: _Processes = _Group.make() or _Tree()
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
        ["process", "number", "CPU s", "largest MB"],
        [[name, part.processes, part.cpu, part.largest / 1e6] for name, part in done.parts.items()],
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
