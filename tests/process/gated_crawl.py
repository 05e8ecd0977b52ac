"""A crawl that cannot end before its test allows it: one page is held back while defs are saved."""

import threading
from collections import Counter
from pathlib import Path

from .library import Library
from .project import Project, Running, until
from .site import Page, Site, html

GATE = "/shelf/gate"


class GatedCrawl:
    """A crawl of a library that cannot end before `finish`: one page is held back."""

    def __init__(self, project: Project, site: Site, shelves: int = 3, books: int = 4) -> None:
        self.project, self.site = project, site
        self.library = Library(site, shelves=shelves, books=books)
        self.hold = threading.Event()
        site[GATE] = Page(html("<p>no list</p>"), hold=self.hold)
        self.write(self.library.defs())

    def write(self, text: str) -> None:
        """Save these defs of the library, with the gate as a locator."""
        self.project.write(self.with_gate(text))

    def with_gate(self, text: str) -> str:
        start = f'url: "{self.site.url("/shelf/0")}"}}'
        return text.replace(start, f'{start}, {{name: gate, url: "{self.site.url(GATE)}"}}')

    def start(self, *arguments: str) -> Running:
        running = self.project.start(*arguments)
        assert until(lambda: self.done() >= self.library.size), running.err
        return running

    def done(self) -> int:
        try:
            return self.project.query("SELECT total(done) FROM sequences WHERE kind = 'page'")[0][0]
        except Exception:
            return 0

    def finish(self, running: Running, code: int = 0) -> None:
        self.hold.set()
        done = running.wait()
        assert done.code == code, done.err + self.project.logs()[-2000:]
        self.project.assert_clean(done)


def defs_version(project: Project) -> int:
    return project.query("SELECT defs_version FROM runs ORDER BY seq DESC LIMIT 1")[0][0]


def events(project: Project, kind: str = "defs") -> list[str]:
    return [text for (text,) in project.query(f"SELECT text FROM events WHERE kind = '{kind}' ORDER BY id")]


def reextraction_finished(project: Project) -> bool:
    return project.query("SELECT reextraction IS NULL FROM runs ORDER BY seq DESC LIMIT 1") == [(1,)] and project.query(
        "SELECT count(*) FROM jobs WHERE page IS NOT NULL"
    ) == [(0,)]


CHANGED_FIELD = 'isbn: {selector: b, required: true, match: "[0-9]+-[0-9]+"}\n      short: {value: "%{depth}"}'


def with_changed_field(text: str) -> str:
    return text.replace("isbn: {selector: b, required: true}", CHANGED_FIELD)


def crawl_from_scratch(project: Project, site: Site, text: str, folder: Path) -> Project:
    """A crawl from scratch with these defs, in another project."""
    other = Project(folder)
    other.write(text)
    other.crawl()
    return other


def outputs(project: Project) -> dict[str, Counter[str]]:
    """The lines of every output, unordered."""
    folder = project.data / "output" / "latest"
    return {p.name: Counter(p.read_text("utf-8").splitlines()) for p in sorted(folder.glob("[!.]*"))}


def read_defs(project: Project) -> str:
    return (project.defs / "crawl.yml").read_text("utf-8")
