"""All processes of one command: where their CPU is counted, and which of them live. Starts none itself."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import psutil

GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)
_PAUSE = 0.05


class Processes(Protocol):
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


class Group:
    """A control group, version 1 (`cpuacct`) or 2."""

    kind: Literal["control group", "processes"] = "control group"

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def make(cls) -> "Group | None":
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
                time.sleep(_PAUSE)


class Tree:
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
        except GONE:
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
