"""Logs over the size limit are rotated by a running supervisor."""

from tests.process.library import Library
from tests.process.project import Project
from tests.process.site import Site

LIMIT = 10_000_000


def test_a_run_rotates_logs_that_are_too_large(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=2, books=2).defs())
    logs = project.data / "logs"
    logs.mkdir(parents=True)
    (logs / "n1.log").write_bytes(b"an old line\n" * (LIMIT // 12 + 1000) + b"the last old line\n")
    (logs / "appender.log").write_bytes(b"a short log\n")
    project.crawl()
    assert (logs / "n1.log").stat().st_size < LIMIT
    old = (logs / "n1.log.1").read_bytes()
    assert len(old) == LIMIT
    assert old.endswith(b"the last old line\n")
    assert (logs / "appender.log").read_bytes().startswith(b"a short log\n")
    assert not (logs / "appender.log.1").exists()
    done = project.run_with_data("logs", "n1")
    assert done.code == 0, done.err
    assert "old line" not in done.out
