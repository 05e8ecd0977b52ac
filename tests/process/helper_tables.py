"""Tables of helpers in the crawl.toml of a project, and what the helpers noted."""

import json
import socket
import sys
from pathlib import Path

from .library import Library
from .project import Project, Running, until
from .site import Site

PROGRAM = str(Path(__file__).with_name("noted_helper.py"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Helpers:
    """The tables of helpers in the crawl.toml of a project, and what the helpers noted."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.file = project.folder / "notes"
        self._toml = project.folder / "crawl.toml"

    def add(self, name: str, *arguments: str, ready: str = "", stop: float | str = 5) -> None:
        run = json.dumps([sys.executable, PROGRAM, name, str(self.file), *arguments])
        self.write(f"[helpers.{name}]\nrun = {run}\nstop = {json.dumps(stop)}\n" + f"ready = {ready}\n" * bool(ready))

    def write(self, text: str) -> None:
        with self._toml.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def remove(self) -> None:
        self._toml.unlink()

    @property
    def notes(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    @property
    def pids(self) -> list[int]:
        """Of every program and its child that were ever started."""
        return [int(word) for line in self.notes if " start " in line for word in line.split()[2:]]

    @property
    def alive(self) -> list[int]:
        return [pid for pid in self.pids if is_alive(pid)]

    def starts(self, name: str) -> int:
        return sum(line.startswith(f"{name} start") for line in self.notes)

    def events(self) -> list[str]:
        rows = self.project.query("SELECT text FROM events WHERE kind IN ('helper', 'node', 'stage') ORDER BY id")
        return [row[0] for row in rows]

    def guards(self) -> list[int]:
        return self.project.children("helper")


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def library(project: Project, site: Site, shelves: int = 2, delay: float = 0.0) -> Library:
    made = Library(site, shelves=shelves, books=4, delay=delay)
    project.write(made.defs(concurrency=4))
    return made


def start(project: Project, site: Site, *arguments: str) -> Running:
    running = project.start(*arguments)
    assert until(lambda: len(site.paths) >= 3 or running.exited), running.err
    assert not running.exited, running.err
    return running


def assert_exact(project: Project, expected: Library) -> None:
    assert project.count_rows("entry", "book") == expected.rows()
