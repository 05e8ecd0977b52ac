"""Tracks all processes of a command: their CPU, and which of them are alive."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import psutil

GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)
_PAUSE = 0.05


class Processes(Protocol):
    """All processes of a command."""

    kind: Literal["control group", "processes"]

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command line that starts the command in this group."""

    def alive(self, root: int) -> list[int]:
        """Pids of live processes."""

    def cpu(self) -> float | None:
        """CPU seconds so far; None when unknown."""

    def close(self) -> None:
        """Remove the group."""


class Group:
    """A control group, version 1 (`cpuacct`) or 2."""

    kind: Literal["control group", "processes"] = "control group"

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def make(cls) -> "Group | None":
        """Create a group below our own; None when that is not permitted."""
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
            stat = dict(line.split() for line in (self._path / "cpu.stat").read_text().splitlines())
            return int(stat["usage_usec"]) / 1e6
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
    """The command's process and its descendants, found by polling."""

    kind: Literal["control group", "processes"] = "processes"

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def enter(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def alive(self, root: int) -> list[int]:
        try:
            top = psutil.Process(root)
            self._known.update({p.pid: p for p in [top, *top.children(recursive=True)]})
        except GONE:
            pass
        # A process whose parent died is no longer a descendant, but still counts.
        return [pid for pid, process in self._known.items() if process.is_running()]

    def cpu(self) -> float | None:
        return None

    def close(self) -> None:
        self._known.clear()


def _own_groups() -> list[Path]:
    """Folders of the control groups of this process that count CPU."""
    try:
        mine = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except (OSError, ValueError):
        return []
    folders = []
    for _, folder, kind, options, *_ in mounts:
        names = next((n for n in mine if "cpuacct" in n.split(",")), None) if kind == "cgroup" else ""
        if names is None or kind not in ("cgroup", "cgroup2") or (kind == "cgroup" and "cpuacct" not in options):
            continue
        own = mine.get(names, "/").lstrip("/")
        # In a container the path may be that of the host and not exist here.
        folders += [Path(folder, own), Path(folder)] if own else [Path(folder)]
    return [path for path in folders if path.is_dir()]
