"""What a large page takes of a node's memory goes back, also while the node has nothing to do."""

import os
import sys
import threading
from pathlib import Path

import pytest

from .house import House, until
from .site import Page, Site, html
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)

TREE = 50_000_000
"""Bytes a page of 3 MB takes at least; it was 90 MB."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system's allocator is another one")
def test_a_node_that_waits_gives_back_what_a_large_page_took(house: House, site: Site) -> None:
    large, last = threading.Event(), threading.Event()
    site["/"] = Page(html("".join(f"<p class=c{i}><b>{i}</b> words</p>" for i in range(90_000))), hold=large)
    site["/last"] = Page(html("x"), hold=last)
    house.write(defs(site.url("/"), site.url("/last")))
    run = house.start()
    assert until(lambda: len(site.paths) == 2)
    [node] = house.children("node")

    def resident() -> int:
        return int(Path(f"/proc/{node}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    large.set()
    assert until(lambda: resident() > before + TREE)
    assert until(lambda: house.job(site.url("/"))["state"] == "DONE")
    assert until(lambda: resident() < before + TREE / 2)
    assert site.times("/last") == 1, "it has nothing else to do meanwhile"
    last.set()
    assert run.wait().code == 0
