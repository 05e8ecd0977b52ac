"""Data dirs that are unusable, read-only, or vanish during a run: exit 3, nothing changed."""

import hashlib
import os
import shutil
import signal
from pathlib import Path

import pytest

from crawl_engine.store.db.connector import connect

from .library import Library
from .project import Project, read_csv, until
from .site import Site
from .small_disk import small_disk
from .stopwatch import Stopwatch

pytestmark = pytest.mark.timeout(60)


def finished_crawl(project: Project, site: Site) -> Library:
    library = Library(site, shelves=2)
    project.write(library.defs())
    project.crawl()
    return library


def file_states(folder: Path) -> dict[str, tuple[int, str]]:
    """Modification time and hash of each file of a data dir, without the lock, which names the last holder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "supervisor.lock"
    }


@pytest.mark.parametrize("command", ["run", "status", "cancel", "export"])
def test_data_dir_is_a_file_or_below_a_file(project: Project, site: Site, command: str) -> None:
    project.write(Library(site).defs())
    project.data.write_text("a file")
    for data in (project.data, project.data / "below"):
        more = ["--no-ui", "--defs", str(project.defs)] if command == "run" else []
        done = project.run_command(command, *more, "--data", str(data))
        if command in ("status", "export") and data != project.data:
            assert done.code == (0 if command == "status" else 2), "a missing data dir has no run"
            continue
        assert done.code in ((2, 3) if command == "cancel" else (3,)), done.err
        assert str(data) in done.err
        assert "Traceback" not in done.err
        assert "fault of the program" not in done.err
    assert project.data.read_text() == "a file"
    assert site.exchanges == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root cannot write to")
def test_data_dir_cannot_be_created(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    done = project.start(data=Path("/proc/self/data")).wait()
    assert done.code == 3, done.err
    assert "/proc/self/data" in done.err
    assert "--data" in done.err
    assert "Traceback" not in done.err


@pytest.fixture
def unprivileged() -> list[str]:
    """A command prefix that drops root's right to bypass file permissions."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root bypasses permissions, and setpriv, which could prevent that, is missing")
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", rights, "--inh-caps", rights]


@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_data_dir_without_permission(project: Project, site: Site, unprivileged: list[str], mode: int) -> None:
    project.write(Library(site).defs())
    project.data.mkdir(mode=mode)
    commands = [["run", "--no-ui", "--defs", str(project.defs)]]
    if not mode:
        commands += [["status"], ["runs"], ["jobs"], ["events"], ["state"], ["export"], ["cancel"]]
    for command in commands:
        for data in (project.data, project.data / "below")[: 1 if mode else 2]:
            done = project.start_command(*command, "--data", str(data), tracer=unprivileged).wait()
            assert done.code == 3, (command, done)
            assert str(project.data) in done.err
            assert "fault of the program" not in done.err


@pytest.mark.sweep
def test_a_read_only_data_dir_can_be_read(project: Project, site: Site, unprivileged: list[str]) -> None:
    library = finished_crawl(project, site)
    rows = project.folder / "rows.csv"
    [(job,)] = project.query(f"SELECT id FROM jobs WHERE url = '{site.url('/book/0-1')}'")
    for name in ("crawl.db", "pages.db"):
        connect(project.data / name).close()  # closing the last connection checkpoints the WAL
    project.data.chmod(0o500)
    before = file_states(project.data)
    assert not [name for name in before if name.endswith("-wal")]
    try:
        for line in ("status --json", "state", "runs", "jobs", "events", "logs", f"export book -o {rows}"):
            command = line.split()
            done = project.start_command(*command, "--data", str(project.data), tracer=unprivileged).wait()
            assert (done.code, done.err) == (0, ""), command
        shown = project.start_command(
            "try", "book", "--job", str(job), "--data", str(project.data), tracer=unprivileged
        ).wait()
        assert "ISBN 000-1" in shown.out, shown
    finally:
        project.data.chmod(0o700)
    assert len(read_csv(rows)) == library.shelves * library.books
    assert file_states(project.data) == before


@pytest.mark.quick
def test_a_write_protected_database_is_named_and_left_alone(project: Project, site: Site, tmp_path: Path) -> None:
    finished_crawl(project, site)
    finished = project.data
    for number, name in enumerate(("crawl.db", "pages.db", "data")):
        with small_disk(tmp_path / f"disk{number}") as disk:
            moved = disk.path / name
            project.data = moved if name == "data" else project.folder / f"copy{number}"
            shutil.copytree(finished, project.data, symlinks=True)
            if name != "data":
                shutil.move(project.data / name, moved)
                (project.data / name).symlink_to(moved)
            before = file_states(project.data)
            disk.read_only()
            done = project.start("--fresh").wait()
            assert done.code == 3, (name, done.err)
            assert str(project.data) in done.err
            assert name in done.err
            assert "Traceback" not in done.err
            assert "fault of the program" not in done.err
            assert file_states(project.data) == before
            project.assert_no_process_left(2)


def test_a_data_dir_deleted_or_replaced_under_a_run_ends_it_with_3(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=6, books=8, delay=0.2).defs(concurrency=2))
    running = project.start()
    assert until(lambda: len(site.paths) > 4)
    moved = project.folder / "moved"
    os.rename(project.data, moved)
    watch = Stopwatch()
    done = running.wait()
    assert watch.seconds() < 5
    assert done.code == 3, done.err
    assert "crawl.db: deleted or replaced" in done.err
    assert "Traceback" not in done.err
    project.assert_no_process_left()
    shutil.rmtree(project.data, ignore_errors=True)  # log files of the exiting nodes
    os.rename(moved, project.data)
    project.crawl()


@pytest.mark.quick
@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_database_deleted_as_the_run_ends_ends_it_with_3(project: Project, site: Site, name: str) -> None:
    """A helper is stopped last, and deletes it then."""
    project.write(Library(site, shelves=1, books=2).defs())
    script = f"trap 'rm {project.data / name}; exit' TERM; echo up >&2; while :; do sleep 0.05; done"
    (project.folder / "crawl.toml").write_text(
        f'[helpers.late]\nrun = ["sh", "-c", "{script}"]\nready = {{line = "up"}}\n'
    )
    done = project.start().wait()
    assert done.code == 3, done.err
    assert f"{name}: deleted or replaced" in done.err
    assert "Traceback" not in done.err
    project.assert_no_process_left()


@pytest.mark.parametrize("name", ["crawl.db", "pages.db"])
def test_a_database_deleted_under_a_run_is_not_made_again(project: Project, site: Site, name: str) -> None:
    """Processes that start meanwhile say that it is missing."""
    library = Library(site, shelves=6, books=8, delay=0.1)
    project.write(library.defs(concurrency=2))
    running = project.start("--backups", "1")
    assert until(lambda: len(site.paths) > 4)
    for tail in ("", "-wal", "-shm"):
        (project.data / f"{name}{tail}").unlink(missing_ok=True)
    for pid in (*project.children("node"), *project.children("appender")):
        os.kill(pid, signal.SIGKILL)
    done = running.wait()
    assert done.code == 3, done.err
    assert f"{name}: deleted or replaced" in done.err + project.logs()
    assert "Traceback" not in done.err
    project.assert_no_process_left()
    assert not list(project.data.glob(f"{name}*"))
    assert project.run_with_data("status").code == 0
    assert not list(project.data.glob(f"{name}*"))
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()


@pytest.mark.sweep
def test_a_clean_end_leaves_no_wal_files(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=2).defs())
    for code, arguments in ((0, ["--max-pages", "3"]), (0, [])):
        assert project.start(*arguments).wait().code == code
        project.run_with_data("status")
        assert {path.name for path in project.data.glob("*.db*")} == {"crawl.db", "pages.db", "queue.db"}
