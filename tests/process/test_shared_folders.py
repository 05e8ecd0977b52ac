"""Folders of a data dir that are links to folders with files of others: only our own files are deleted or cut."""

import os
from pathlib import Path

import pytest

from .library import Library
from .project import Project
from .site import Site

pytestmark = pytest.mark.timeout(60)


def link_folder(project: Project, name: str) -> Path:
    """Make a part of the data dir a link to a folder that others use; returns that folder."""
    target = project.folder / f"shared-{name}"
    target.mkdir()
    project.data.mkdir(mode=0o700, exist_ok=True)
    (project.data / name).symlink_to(target)
    return target


def test_files_of_others_stay(project: Project, site: Site) -> None:
    library = Library(site, shelves=1)
    project.write(library.defs())
    beats, logs, output = (link_folder(project, name) for name in ("beats", "logs", "output"))
    for folder in (beats, logs, output):
        (folder / "notes.txt").write_text("mine")
        (folder / "n1.bak").write_text("mine")
    with (logs / "syslog.log").open("wb") as log:
        os.truncate(log.fileno(), 30_000_000)
    project.crawl("--max-pages", "3")
    (beats / "n77").write_bytes(b"")
    project.crawl()
    for folder in (beats, logs, output):
        assert (folder / "notes.txt").read_text() == "mine"
        assert (folder / "n1.bak").read_text() == "mine"
    assert sorted(path.name for path in beats.iterdir()) == ["n1.bak", "notes.txt"], "our own are deleted"
    assert (logs / "syslog.log").stat().st_size == 30_000_000
    assert project.count_rows("entry", "book") == library.rows()


def test_a_file_in_the_place_of_a_heartbeat_is_named_and_stays(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    notes = link_folder(project, "beats") / "n1"
    notes.write_text("mine")
    done = project.start().wait()
    assert done.code == 3
    assert "beats/n1: not a heartbeat file" in done.err
    assert "Traceback" not in done.err
    assert notes.read_text() == "mine"
    assert site.exchanges == []
