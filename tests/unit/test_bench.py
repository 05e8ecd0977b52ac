"""The ceiling of the bench runs with the process settings of a node."""

import re
from pathlib import Path

from engine.processes import child as child_process
from tests.bench.loop import MALLOC_ENV

ENGINE = Path(child_process.__file__).parents[1]


def test_the_ceiling_has_the_allocator_settings_of_a_node():
    sources = "\n".join(path.read_text("utf-8") for path in (ENGINE / "processes").rglob("*.py"))
    assert dict(re.findall(r'"(MALLOC_\w+)": "(\d+)"', sources)) == MALLOC_ENV
