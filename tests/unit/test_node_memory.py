"""What large pages took goes back to the system, once for all that came together."""

import os
import subprocess
import sys

import pytest

from engine.node import memory
from engine.node.memory import Memory

LARGE = 2_000_000
_HOLE = """
import itertools, os
from engine.node import memory
clock = itertools.count(0.0, 1.5)
memory.time.monotonic = lambda: next(clock)
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
hole = [b"x" * (100_000 + i) for i in range(600)]
behind = [b"y" * (100_000 + i) for i in range(10)]
full = resident()
del hole
kept = resident()
of = memory.Memory()
for _ in range(3):
    of.done_with([2_000_000])
print(full - kept, kept - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system's allocator is another one")
def test_memory_that_lies_before_what_is_still_needed_is_given_back() -> None:
    env = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "2097152"}
    done = subprocess.run([sys.executable, "-c", _HOLE], capture_output=True, text=True, check=True, env=env)
    by_itself, returned = map(int, done.stdout.split())
    assert by_itself < 10_000_000
    assert returned > 50_000_000


def test_it_is_done_once_for_large_pages_that_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now, done = [0.0], []
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(memory, "_give_back", lambda: done.append(now[0]))
    of = Memory()
    for at, sizes in (
        (100.0, [30_000, 999_999]),
        (103.0, [30_000]),
        (104.0, [LARGE]),
        (105.0, [LARGE, 1]),
        (105.9, [1]),
        (106.0, [1]),
        (109.0, [1]),
        (110.0, [LARGE]),
        (120.0, []),
    ):
        now[0] = at
        of.done_with(sizes)
    assert done == [106.0, 120.0]
