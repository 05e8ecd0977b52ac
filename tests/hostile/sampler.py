"""Samples the memory of a run's nodes and of their extraction processes from /proc, or by `ps`."""

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    resident: int
    """Bytes."""
    cpu: float
    """Seconds of processor time."""
    name: str


class MemorySampler(threading.Thread):
    """The largest resident size of one node, and of one process below a node."""

    def __init__(self, supervisor: int) -> None:
        super().__init__(daemon=True, name="sampler")
        self._supervisor = supervisor
        self._ended = threading.Event()
        self.node_peak = 0
        self.node_last = 0
        """Resident size of the larger node in the last sample that had one."""
        self.extraction_peak = 0
        self.extraction_cpu = 0.0
        """Most processor time of one extraction process."""

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample(list_processes())

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _sample(self, processes: dict[int, Process]) -> None:
        nodes = {p.pid for p in processes.values() if p.parent == self._supervisor and p.name == "node"}
        self.node_last = max((processes[pid].resident for pid in nodes), default=self.node_last)
        for process in processes.values():
            if process.pid in nodes:
                self.node_peak = max(self.node_peak, process.resident)
            elif process.name == "extraction" and self._is_below(process, {self._supervisor}, processes):
                self.extraction_peak = max(self.extraction_peak, process.resident)
                self.extraction_cpu = max(self.extraction_cpu, process.cpu)

    def _is_below(self, process: Process, ancestors: set[int], processes: dict[int, Process]) -> bool:
        for _ in range(4):
            if process.parent in ancestors:
                return True
            above = processes.get(process.parent)
            if above is None:
                return False
            process = above
        return False


def list_processes() -> dict[int, Process]:
    """All live processes of the machine by pid."""
    if not Path("/proc/self/stat").exists():
        output = subprocess.run(
            ["ps", "-axo", "pid=,ppid=,rss=,time=,comm="], capture_output=True, check=True, text=True
        )
        rows = (line.split(None, 4) for line in output.stdout.splitlines())
        return {
            int(r[0]): Process(int(r[0]), int(r[1]), int(r[2]) * 1024, _seconds(r[3]), r[4])
            for r in rows
            if len(r) == 5
        }
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            name = (folder / "comm").read_text("utf-8", "replace").strip()
        except OSError:
            continue
        pid = int(folder.name)
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found[pid] = Process(pid, int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), cpu, name)
    return found


def _seconds(text: str) -> float:
    """The seconds of `[[dd-]hh:]mm:ss.ss`."""
    days, _, time = text.rpartition("-")
    seconds = 0.0
    for part in time.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + float(days or 0) * 86_400
