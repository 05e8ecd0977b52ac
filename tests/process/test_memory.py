"""The memory of a large page is returned to the system, also while the node is idle."""

import os
import sys
import threading
from pathlib import Path

import pytest

from .project import Project, until
from .site import Page, Site, html
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)

TREE = 50_000_000
"""The least number of bytes for the tree of a 3 MB page; measured: 90 MB."""
CHILD = 60_000_000
"""At most the memory that an extraction process starts with, most of it shared with the node."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the allocator of Linux")
def test_an_idle_node_returns_the_memory_of_a_large_page(project: Project, site: Site) -> None:
    large, last = threading.Event(), threading.Event()
    site["/"] = Page(html("".join(f"<p class=c{i}><b>{i}</b> words</p>" for i in range(90_000))), hold=large)
    site["/last"] = Page(html("x"), hold=last)
    project.write(defs(site.url("/"), site.url("/last")))
    run = project.start()
    assert until(lambda: len(site.paths) == 2)
    [node] = project.children("node")

    def resident() -> int:
        pids = [node, *project.extraction_processes()]
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * os.sysconf("SC_PAGE_SIZE")

    before = resident() + CHILD
    large.set()
    assert until(lambda: resident() > before + TREE)
    assert until(lambda: project.job(site.url("/"))["state"] == "DONE")
    assert until(lambda: resident() < before + TREE / 2)
    assert site.count("/last") == 1, "the node is idle meanwhile"
    last.set()
    assert run.wait().code == 0
