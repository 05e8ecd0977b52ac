"""The output type `files`: a folder of hard links, right at the end whatever came in between."""

import os
import signal

import pytest

from .papers import Papers
from .project import Project, until
from .site import Site

pytestmark = pytest.mark.timeout(120)

OUTPUT = 'lines: {type: jsonl}, named: {type: files, dataDefs: [paper], fileName: "%s"}'


def add_output(project: Project, name: str) -> None:
    defs = project.folder / "defs" / "crawl.yml"
    defs.write_text(defs.read_text().replace("lines: {type: jsonl}", OUTPUT % name))


def named(project: Project) -> dict[str, bytes]:
    folder = project.output("paper")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check(project: Project) -> None:
    """Each link is a file of the run by another name, and each file has one."""
    folder = project.output("paper")
    stored = {path.stat().st_ino: path for path in (folder.parent / "files").iterdir()}
    linked = {path.stat().st_ino for path in folder.iterdir()}
    assert linked == set(stored)


@pytest.mark.quick
def test_files_have_names_of_fields(project: Project, site: Site) -> None:
    Papers(project, site, 3, 4)
    add_output(project, "%{field.title}-%{download.number}")
    project.crawl()
    assert len(named(project)) == 24, "of each row its own file, and the one that all share"
    check(project)


@pytest.mark.parametrize("kind", ["node", "supervisor"])
def test_a_kill_leaves_no_wrong_name(project: Project, site: Site, kind: str) -> None:
    papers = Papers(project, site, 6, 6)
    add_output(project, "%{field.title}-%{download.number}")
    running = project.start("--set", "output_every=0.2")
    assert until(lambda: len(site.paths) > 25 or running.exited)
    if kind == "supervisor":
        running.send(signal.SIGKILL)
        running.wait()
        project.crawl("--set", "output_every=0.2")
    else:
        os.kill(project.status()["nodes"][0]["pid"], signal.SIGKILL)
        assert running.wait(60).code == 0
    papers.assert_exact()
    check(project)
