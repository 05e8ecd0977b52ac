"""Orders to a running crawl: drain, restart, scale, pause, resume; and what is refused."""

import re
import signal
import threading
from typing import Any

import pytest

from .house import House, Running, until
from .library import Library
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

LIVING = "SELECT number FROM nodes WHERE ended_at IS NULL ORDER BY number"


def begun(house: House, site: Site, *, nodes: int, delay: float = 0.5) -> tuple[Library, Running]:
    library = Library(site, shelves=10, books=8, delay=delay)
    house.write(library.defs(concurrency=5))
    running = house.start(nodes=nodes)
    assert until(lambda: len(site.paths) >= 5 or running.over), running.err
    return library, running


def numbers(house: House) -> list[int]:
    return [number for (number,) in house.query(LIVING)]


def ended(house: House, running: Running, library: Library) -> dict[str, Any]:
    library.pace(0)
    done = running.wait()
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert house.counted("entry", "book") == library.rows()
    return {node["id"]: node for node in done.summary["nodes"]}


def test_drain_retires_a_node_and_nobody_takes_its_place(house: House, site: Site) -> None:
    library, running = begun(house, site, nodes=2)
    told = house.order("drain", "n2")
    assert told.code == 0, told.err
    assert "draining n2" in told.out
    assert until(lambda: numbers(house) == [1], 15)
    refused = house.order("drain", "n1")
    assert refused.code == 2
    assert "last runner" in refused.err
    nodes = ended(house, running, library)
    assert nodes["n2"]["state"] == "TERMINATED"
    assert nodes["n2"]["heart"] == "APPARENT_DEATH"
    assert set(nodes) == {"n1", "n2"}
    assert site.most_at_once <= 5
    assert len(site.paths) == len(set(site.paths)), "what it held was finished, not fetched again"


@pytest.mark.parametrize("order", [["drain", "n1"], ["restart", "n1"], ["scale", "1"]])
def test_a_job_cut_off_with_its_node_is_worked_by_another(house: House, site: Site, order: list[str]) -> None:
    """Its request outlasts the grace: the node gives it up, and the run goes on and ends."""
    library = Library(site, shelves=3, books=4)
    hold = threading.Event()
    site["/book/0-1"] = lambda asked: Page(html("<b>ISBN 000-1</b>"), hold=hold if asked.attempt == 1 else None)
    house.write(library.defs(concurrency=5))
    running = house.start("--grace", "0.5", nodes=2)
    holder = (
        "SELECT n.number FROM jobs j JOIN nodes n ON n.epoch = j.node WHERE j.url LIKE '%0-1' AND j.state = 'TAKEN'"
    )
    assert until(lambda: site.times("/book/0-1") == 1 and house.query(holder)), running.err
    [(number,)] = house.query(holder)
    order = [order[0], f"n{number}"] if order[0] != "scale" else order
    if order[0] == "scale" and number == 1:
        order = ["drain", "n1"]  # what scale retires is the highest number
    assert house.order(*order).code == 0
    ended(house, running, library)
    hold.set()
    assert site.times("/book/0-1") == 2


def test_restart_replaces_a_node_and_blames_nobody(house: House, site: Site) -> None:
    library, running = begun(house, site, nodes=1)
    told = house.order("restart", "n1")
    assert told.code == 0, told.err
    assert until(lambda: numbers(house) == [2], 15)
    nodes = ended(house, running, library)
    assert nodes["n1"]["state"] == "TERMINATED"
    assert house.query("SELECT replaces FROM nodes WHERE number = 2") == [(1,)]
    assert house.query("SELECT total(crashes) FROM jobs") == [(0.0,)]
    assert len(site.paths) == len(set(site.paths))


def test_scale_starts_and_retires_runners(house: House, site: Site) -> None:
    library, running = begun(house, site, nodes=1)
    told = house.order("scale", "3")
    assert told.code == 0, told.err
    assert "2 started" in told.out
    assert until(lambda: numbers(house) == [1, 2, 3], 15)
    assert house.order("scale", "3").out == "3 runners: 0 started, 0 retired\n"
    assert "2 retired" in house.order("scale", "1").out
    assert until(lambda: numbers(house) == [1], 15)
    assert house.order("scale", "0").code == 2
    assert house.order("scale", "999").code == 2
    nodes = ended(house, running, library)
    assert nodes["n3"]["state"] == nodes["n2"]["state"] == "TERMINATED"


def test_a_paused_crawl_fetches_nothing_does_not_end_and_goes_on(house: House, site: Site) -> None:
    library, running = begun(house, site, nodes=2)
    assert house.order("pause").code == 0
    assert until(lambda: house.query("SELECT total(taken) FROM sequences") == [(0.0,)], 15)
    fetched = len(site.paths)
    assert not until(lambda: len(site.paths) > fetched or running.over, 1.0)
    assert "PAUSED" in house.order("status").out
    assert house.order("resume").code == 0
    assert until(lambda: len(site.paths) > fetched, 15)
    ended(house, running, library)


def test_pause_is_kept_over_a_restart_and_said(house: House, site: Site) -> None:
    library, running = begun(house, site, nodes=1)
    assert house.order("pause").code == 0
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    fetched = len(site.paths)
    again = house.start("--progress", "plain")
    assert until(lambda: "\n" in again.err), house.standing()
    assert "PAUSED (operator; `crawl-console resume`)" in again.err.splitlines()[0]
    assert len(site.paths) == fetched
    assert house.order("resume").code == 0
    ended(house, again, library)


def test_one_group_is_paused_and_the_other_goes_on(house: House, site: Site) -> None:
    library, running = begun(house, site, nodes=2)
    assert house.order("pause", "books").code == 0
    told = house.order("status").out
    assert "PAUSED: 1 sequence\n" in told
    assert [line.split()[0] for line in told.splitlines() if line.endswith("incomplete  PAUSED")] == ["books"]
    assert until(lambda: "1 sequence PAUSED (`crawl-console resume SEQ`)" in running.err, 10), running.err
    whole = house.order("resume")
    assert (whole.code, whole.out.count("not paused"), whole.out.count("1 sequence paused by name")) == (0, 1, 1)
    assert until(lambda: site.times("/shelf/9") == 1, 15), "the shelves go on"
    assert not running.over
    fetched = len(site.paths)
    assert not until(lambda: len(site.paths) > fetched + 5, 1.0)
    host = re.escape(site.url("")).removeprefix("http://")
    again = house.order("resume", f"books@{host.replace(chr(92), '')}")
    assert again.code == 0, again.err
    ended(house, running, library)


@pytest.mark.parametrize("order", [["drain", "n7"], ["restart", "n7"], ["kill", "n7"], ["pause", "nothing"]])
def test_what_is_not_there_is_refused_by_name(house: House, site: Site, order: list[str]) -> None:
    _, running = begun(house, site, nodes=1, delay=0.3)
    told = house.order(*order)
    assert told.code == 2
    assert order[1] in told.err
    if order[0] != "pause":
        assert "n1" in told.err, "what is there is told"
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    gone = house.order(*order)
    assert gone.code == 2
    assert "no supervisor is running" in gone.err
