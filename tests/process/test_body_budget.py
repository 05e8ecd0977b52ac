"""Bodies being read, extracted or waiting for their commit share one budget of memory."""

import gzip
import random
import sys
import threading
from pathlib import Path

import pytest

from .project import Project, until
from .site import Page, Site, html
from .test_politeness import defs

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc"),
]

MAX_BODY = 10_000_000
BODIES = 24
BESIDE = BODIES * 512 * 1024 + 36_000_000
"""What connections (half a MB each), SQLite's caches, zstd and the allocator take beside the bodies. Measured in all:
31 MB for one body, 52 MB for 24, and over 200 MB without the budget."""


def peak(process: int) -> int:
    """The most bytes of memory that the process has had; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


@pytest.mark.quick
@pytest.mark.parametrize("encoding", ["gzip", pytest.param("", marks=pytest.mark.sweep)])
def test_large_bodies_wait_for_their_share_of_memory(project: Project, site: Site, encoding: str) -> None:
    start, words = threading.Event(), random.Random(1).choices(range(10**6), k=9_000_000 // 7)
    body = "".join(f"{word:06} " for word in words).encode()
    content = gzip.compress(body, 1) if encoding else body
    links = "".join(f'<a href="/{number}">{number}</a>' for number in range(BODIES))
    site["/"] = Page(html(links), hold=start)
    for number in range(BODIES):  # no page of text: what is measured are the bodies, not their trees
        site[f"/{number}"] = Page(
            content, headers={"Content-Type": "image/x-map"} | ({"Content-Encoding": encoding} if encoding else {})
        )
    project.write(defs(site.url("/"), host=f"concurrency: {BODIES}, robots: false"))
    project.nodes = 1
    run = project.start("--set", f"max_body={MAX_BODY}", "--set", "deadline=20")
    assert until(lambda: len(site.paths) == 1)
    [node] = project.children("node")
    base, highest = peak(node), 0
    start.set()

    def finished() -> bool:
        nonlocal highest
        highest = max(highest, peak(node))
        return run.exited

    assert until(finished, 60)
    done = run.wait()
    assert done.jobs == {"done": 1, "skipped": BODIES}
    assert project.query("SELECT count(*), min(size) FROM documents WHERE size > 1000000") == [(BODIES, len(body))]
    assert highest - base <= 2 * MAX_BODY + BESIDE
