"""A node's threads stay together on one processor while it has room for them, and leave one that is crowded."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.node.tuning import CpuPinner

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists() or len(os.sched_getaffinity(0)) < 2,
    reason="the system does not tell how long threads wait, or has one processor",
)

BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while True: pass
"""
NODE = """
import os, sys, threading, time
from engine.node.tuning import CpuPinner

def work():
    while True: pass

worker = threading.Thread(target=work, daemon=True)
worker.start()
processor = CpuPinner(lambda: worker.native_id)
for line in sys.stdin:
    processor.adjust()
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


def looked(node: "subprocess.Popen[str]") -> list[tuple[int, ...]]:
    """The processors its threads may use, after one look."""
    assert node.stdin
    assert node.stdout
    node.stdin.write("\n")
    node.stdin.flush()
    told = node.stdout.readline().strip()
    return [tuple(int(n) for n in part.strip("()").split(",") if n.strip()) for part in told.split(") (")]


def test_threads_are_kept_together_until_the_processor_is_crowded(node: "subprocess.Popen[str]") -> None:
    [one] = looked(node)
    assert len(one) == 1, "all its threads are on the processor of the busy one"
    crowd = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(one[0])], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    try:
        for busy in crowd:
            assert busy.stdout
            busy.stdout.readline()
        looked(node)
        deadline = time.monotonic() + 10
        while looked(node) == [one]:
            assert time.monotonic() < deadline, "it stayed in the crowd"
            time.sleep(0.25)
    finally:
        for busy in crowd:
            busy.kill()
            busy.communicate()


class Task:
    """What the system tells of a thread, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now, self.waited, self.processor = 100.0, 0.0, 1

    def look(self, processor: CpuPinner, seconds: float, waited: float) -> None:
        self.now += seconds
        self.waited += waited
        (self.folder / "schedstat").write_text(f"1 {int(self.waited * 1e9)} 7\n")
        fields = ["S", *["0"] * 35, str(self.processor), "0"]
        (self.folder / "stat").write_text(f"1 (odd) name) {' '.join(fields)}\n")
        processor._adjust(self.folder, self.now)


class Recorded(CpuPinner):
    """Says where threads would be placed."""

    def __init__(self) -> None:
        super().__init__(threading.get_native_id)
        self.placed: list[set[int]] = []

    def _set_affinity(self, processors: set[int]) -> None:
        self.placed.append(processors)


def test_who_is_crowded_again_and_again_is_let_go_for_longer(tmp_path: Path) -> None:
    processor, task = Recorded(), Task(tmp_path)
    everywhere = os.sched_getaffinity(0)
    for pause in (0.5, 1.0, 2.0):
        task.look(processor, 0.25, 0.0)
        assert processor.placed[-1] == {1}
        task.look(processor, 1.0, 0.3)
        assert processor.placed[-1] == {1}, "a third of the time is no crowd"
        task.look(processor, 1.0, 0.6)
        assert processor.placed[-1] == everywhere
        task.look(processor, pause - 0.1, 0.0)
        assert processor.placed[-1] == everywhere
    task.look(processor, 0.25, 0.0)
    task.look(processor, 10.0, 0.0)
    task.look(processor, 1.0, 0.9)
    task.look(processor, 0.3, 0.0)
    assert processor.placed[-1] == {1}, "a place that was good for long is looked for again at once"


def test_a_kernel_that_keeps_no_account_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("0 0 0\n")
    with pytest.raises(ValueError, match="nothing but zeros"):
        Recorded()._adjust(tmp_path, 100.0)


def test_where_the_system_tells_nothing_threads_are_let_go() -> None:
    processor = Recorded()
    processor._get_thread_id = lambda: 2**22 + 1
    processor.adjust()
    processor.adjust()
    assert processor.placed == [os.sched_getaffinity(0)], "wherever they were kept, they are let go, once"
