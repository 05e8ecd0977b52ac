"""The ceiling of the bench runs with the process settings of a node."""

import re
from pathlib import Path

from engine.supervise import child_process
from tests.bench.loop import MALLOC_ENV
from tests.bench.loop_start import GC_THRESHOLDS

ENGINE = Path(child_process.__file__).parents[1]


def test_the_ceiling_collects_garbage_like_a_node():
    sources = "\n".join(path.read_text("utf-8") for path in (ENGINE / "node").glob("*.py"))
    [thresholds] = re.findall(r"gc\.set_threshold\(([\d_, ]+)\)", sources)
    assert tuple(map(int, thresholds.split(","))) == GC_THRESHOLDS
    assert "gc.freeze()" in sources
    assert "use_batch_scheduling()" in sources


def test_the_ceiling_has_the_allocator_settings_of_a_node():
    sources = "\n".join(path.read_text("utf-8") for path in (ENGINE / "supervise").rglob("*.py"))
    assert dict(re.findall(r'"(MALLOC_\w+)": "(\d+)"', sources)) == MALLOC_ENV
