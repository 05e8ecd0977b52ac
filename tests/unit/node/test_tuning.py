"""A node's threads are pinned to one CPU, and unpinned while that CPU is contended."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.node.tuning import CpuMeter, CpuPinner

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists() or len(os.sched_getaffinity(0)) < 2,
    reason="needs scheduler statistics and two CPUs",
)

BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while True: pass
"""
NODE = """
import os, sys, threading, time
from crawl_engine.node.tuning import CpuPinner

def work():
    while True: pass

worker = threading.Thread(target=work, daemon=True)
worker.start()
pinner = CpuPinner(worker)
for line in sys.stdin:
    pinner.adjust()
    print(*sorted({tuple(sorted(os.sched_getaffinity(int(t)))) for t in os.listdir("/proc/self/task")}), flush=True)
"""


@pytest.fixture
def node() -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    yield process
    process.kill()
    process.communicate()


def adjust(node: "subprocess.Popen[str]") -> list[tuple[int, ...]]:
    """The CPU sets of its threads, after one adjustment."""
    assert node.stdin
    assert node.stdout
    node.stdin.write("\n")
    node.stdin.flush()
    line = node.stdout.readline().strip()
    return [tuple(int(n) for n in part.strip("()").split(",") if n.strip()) for part in line.split(") (")]


def test_threads_are_pinned_until_the_cpu_is_contended(node: "subprocess.Popen[str]") -> None:
    [one] = adjust(node)
    assert len(one) == 1, "all its threads are on the CPU of the busy one"
    rivals = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(one[0])], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    try:
        for busy in rivals:
            assert busy.stdout
            busy.stdout.readline()
        adjust(node)
        deadline = time.monotonic() + 10
        while adjust(node) == [one]:
            assert time.monotonic() < deadline, "it stayed pinned"
            time.sleep(0.25)
    finally:
        for busy in rivals:
            busy.kill()
            busy.communicate()


class FakeTask:
    """The files of a thread in /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now, self.waited, self.cpu = 100.0, 0.0, 1

    def advance(self, pinner: CpuPinner, seconds: float, waited: float) -> None:
        self.now += seconds
        self.waited += waited
        (self.folder / "schedstat").write_text(f"1 {int(self.waited * 1e9)} 7\n")
        fields = ["S", *["0"] * 35, str(self.cpu), "0"]
        (self.folder / "stat").write_text(f"1 (odd) name) {' '.join(fields)}\n")
        pinner._adjust(self.folder, self.now)


class RecordingPinner(CpuPinner):
    """Records the CPU sets instead of applying them."""

    def __init__(self, busiest: threading.Thread | None = None) -> None:
        super().__init__(busiest or threading.current_thread())
        self.placed: list[set[int]] = []

    def _set_affinity(self, cpus: set[int]) -> None:
        self.placed.append(cpus)


class EndedThread(threading.Thread):
    """A thread whose id the system does not know."""

    @property
    def native_id(self) -> int:
        return 2**22 + 1


def test_repeated_contention_unpins_for_longer(tmp_path: Path) -> None:
    pinner, task = RecordingPinner(), FakeTask(tmp_path)
    everywhere = os.sched_getaffinity(0)
    for pause in (0.5, 1.0, 2.0):
        task.advance(pinner, 0.25, 0.0)
        assert pinner.placed[-1] == {1}
        task.advance(pinner, 1.0, 0.3)
        assert pinner.placed[-1] == {1}, "waiting a third of the time is no contention"
        task.advance(pinner, 1.0, 0.6)
        assert pinner.placed[-1] == everywhere
        task.advance(pinner, pause - 0.1, 0.0)
        assert pinner.placed[-1] == everywhere
    task.advance(pinner, 0.25, 0.0)
    task.advance(pinner, 10.0, 0.0)
    task.advance(pinner, 1.0, 0.9)
    task.advance(pinner, 0.3, 0.0)
    assert pinner.placed[-1] == {1}, "after a long stable time the pause is short again"


def test_a_kernel_without_scheduler_statistics_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("0 0 0\n")
    with pytest.raises(ValueError, match="nothing but zeros"):
        RecordingPinner()._adjust(tmp_path, 100.0)


def test_without_statistics_threads_are_unpinned() -> None:
    pinner = RecordingPinner(EndedThread())
    pinner.adjust()
    pinner.adjust()
    assert pinner.placed == [os.sched_getaffinity(0)], "unpinned once"


def test_a_process_is_bound_by_cpu_while_it_works_or_waits_for_a_cpu() -> None:
    meter = CpuMeter(threading.current_thread())
    assert not meter.is_bound(), "it was asked just now"
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    assert meter.is_bound()
    time.sleep(0.3)
    assert not meter.is_bound()
