"""`status`: the whole object at any time, also where there is nothing; it never disturbs a run."""

import signal

import pytest

from .house import House, until
from .library import Library
from .site import Site
from .test_whole_crawl import JOBS, SUMMARY

pytestmark = pytest.mark.timeout(60)

STATUS = SUMMARY | {
    "stage", "supervisor", "sequences", "hosts", "rates", "defs_problems", "metrics", "paused", "alarm",
}  # fmt: skip


def test_without_data_dir_or_run(house: House) -> None:
    for made in (False, True):
        if made:
            house.data.mkdir()
        told = house.status()
        assert set(told) == STATUS
        assert told["state"] is None
        assert told["run"] is None
        assert told["supervisor"] is None
        for name in ("nodes", "appenders", "sequences", "hosts", "defs_problems"):
            assert told[name] == []
        assert set(told["jobs"]) == JOBS
    assert not any(house.data.iterdir()), "looking changes nothing"
    assert house.order("status").code == 0


def test_during_and_after_a_run(house: House, site: Site) -> None:
    library = Library(site, shelves=8, books=6, delay=0.15)
    house.write(library.defs(concurrency=4))
    running = house.start("--backups", "1")
    assert until(lambda: len(site.paths) > 6)
    assert until(lambda: all(node["pid"] and node["beat_age"] is not None for node in house.status()["nodes"]))
    told = house.status()
    assert set(told) == STATUS
    assert told["stage"] == "RUNNING"
    assert told["state"] == "READY"
    assert told["exit_code"] is None
    assert told["supervisor"]["pid"] == running.pid
    assert sorted(node["pid"] for node in told["nodes"]) == house.children("node")
    assert {node["id"] for node in told["nodes"]} == {"n1", "n2", "n3"}
    assert {node["id"]: node["role"] for node in told["nodes"]}["n3"] == "BACKUP_RUNNER"
    assert all(0 <= node["beat_age"] < 2 for node in told["nodes"])
    assert {a["pid"] for a in told["appenders"]} == set(house.children("append"))
    assert [host["host"] for host in told["hosts"]] == [f"127.0.0.1:{site.port}"]
    assert {s["group"] for s in told["sequences"]} == {"shelves", "books"}
    assert told["defs_version"] == 1
    assert told["jobs"]["done"] > 0
    running.send(signal.SIGINT)
    done = running.wait()
    told = house.status()
    assert told["state"] == "CANCELLED"
    assert told["stage"] == "SHUTDOWN_COMPLETE"
    assert told["supervisor"] is None
    assert told["jobs"] == done.summary["jobs"]
    assert told["rows"] == done.summary["rows"]
    assert all(node["pid"] is None for node in told["nodes"])
    house.crawl("--backups", "1")
    assert house.status()["state"] == "DONE"
