"""`status`: the full object at any time, also without a data dir or run; it never disturbs a run."""

import signal

import pytest

from .library import Library
from .project import Project, until
from .site import Site
from .test_whole_crawl import JOBS, SUMMARY

pytestmark = pytest.mark.timeout(60)

STATUS = SUMMARY | {
    "stage", "supervisor", "sequences", "hosts", "rates", "eta", "defs_problems", "defs_saved",
    "metrics", "paused", "alarm", "alarms", "helpers", "machines", "files", "waiting_rows",
    "running", "bad_answers", "gone", "blocked", "seeding", "reason", "progress", "host_states",
    "servers", "paused_by",
}  # fmt: skip


def test_without_data_dir_or_run(project: Project) -> None:
    for created in (False, True):
        if created:
            project.data.mkdir()
        status = project.status()
        assert set(status) == STATUS
        assert status["state"] is None
        assert status["run"] is None
        assert status["supervisor"] is None
        for name in ("nodes", "appenders", "sequences", "hosts", "defs_problems", "helpers", "machines"):
            assert status[name] == []
        assert set(status["jobs"]) == JOBS
    assert not any(project.data.iterdir()), "reading changes nothing"
    assert project.run_with_data("status").code == 0


def test_during_and_after_a_run(project: Project, site: Site) -> None:
    library = Library(site, shelves=8, books=6, delay=0.3)
    project.write(library.defs(concurrency=4))
    running = project.start("--backups", "1")
    assert until(lambda: len(site.paths) > 6)
    assert until(lambda: all(node["pid"] and node["beat_age"] is not None for node in project.status()["nodes"]))
    status = project.run_with_data("status", "--json").summary
    assert set(status) == STATUS
    assert status["stage"] == "RUNNING"
    assert status["state"] == "READY"
    assert status["exit_code"] is None
    assert status["supervisor"]["pid"] == running.pid
    assert sorted(node["pid"] for node in status["nodes"]) == project.children("node")
    assert {node["id"] for node in status["nodes"]} == {"n1", "n2", "n3"}
    assert {node["id"]: node["role"] for node in status["nodes"]}["n3"] == "BACKUP_RUNNER"
    assert all(0 <= node["beat_age"] < 2 for node in status["nodes"])
    assert {a["pid"] for a in status["appenders"]} == set(project.children("appender"))
    assert [host["host"] for host in status["hosts"]] == [f"127.0.0.1:{site.port}"]
    assert {s["group"] for s in status["sequences"]} == {"shelves", "books"}
    assert status["defs_version"] == 1
    assert status["jobs"]["done"] > 0
    running.send(signal.SIGINT)
    done = running.wait()
    status = project.status()
    assert status["state"] == "CANCELLED"
    assert status["stage"] == "SHUTDOWN_COMPLETE"
    assert status["supervisor"] is None
    assert status["jobs"] == done.summary["jobs"]
    assert status["rows"] == done.summary["rows"]
    assert all(node["pid"] is None for node in status["nodes"])
    project.crawl("--backups", "1")
    assert project.status()["state"] == "DONE"


@pytest.mark.sweep
def test_nothing_seems_alive_after_the_death_of_the_supervisor(project: Project, site: Site) -> None:
    library = Library(site, shelves=8, books=8, delay=0.2)
    project.write(library.defs())
    running = project.start()
    assert until(lambda: len(site.paths) > 6)
    running.send(signal.SIGKILL)
    running.process.wait()
    status = project.status()
    assert status["supervisor"] is None
    assert status["stage"] == "INTERRUPTED"
    assert {(node["state"], node["heart"], node["pid"]) for node in status["nodes"]} == {("DEAD", "ASYSTOLE", None)}
    assert {appender["pid"] for appender in status["appenders"]} == {None}
    text = project.run_with_data("status").out
    assert "stage INTERRUPTED" in text
    assert "no supervisor" in text
    assert "`crawl-console run` resumes it" in text
    assert "HEALTHY" not in text
    library.set_delay(0)
    project.assert_no_process_left()
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
