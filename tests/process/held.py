"""A crawl that waits for its test: all pages are done but one, and defs are saved meanwhile."""

import threading
from collections import Counter
from pathlib import Path

from .house import House, Running, until
from .library import Library
from .site import Page, Site, html

GATE = "/shelf/gate"


class Held:
    """A library whose crawl cannot end before `finish`: one page is kept back."""

    def __init__(self, house: House, site: Site, shelves: int = 3, books: int = 4) -> None:
        self.house, self.site = house, site
        self.library = Library(site, shelves=shelves, books=books)
        self.hold = threading.Event()
        site[GATE] = Page(html("<p>no list</p>"), hold=self.hold)
        self.write(self.library.defs())

    def write(self, text: str) -> None:
        """Save these defs of the library, the gate among its locators."""
        self.house.write(self.gated(text))

    def gated(self, text: str) -> str:
        start = f'url: "{self.site.url("/shelf/0")}"}}'
        return text.replace(start, f'{start}, {{name: gate, url: "{self.site.url(GATE)}"}}')

    def begin(self, *arguments: str) -> Running:
        running = self.house.start(*arguments)
        assert until(lambda: self.done() >= self.library.size), running.err
        return running

    def done(self) -> int:
        try:
            return self.house.query("SELECT total(done) FROM sequences WHERE kind = 'page'")[0][0]
        except Exception:
            return 0

    def finish(self, running: Running, code: int = 0) -> None:
        self.hold.set()
        done = running.wait()
        assert done.code == code, done.err + self.house.logs()[-2000:]
        self.house.assert_clean(done)


def version(house: House) -> int:
    return house.query("SELECT defs_version FROM runs ORDER BY seq DESC LIMIT 1")[0][0]


def events(house: House, kind: str = "defs") -> list[str]:
    return [text for (text,) in house.query(f"SELECT text FROM events WHERE kind = '{kind}' ORDER BY id")]


def settled(house: House) -> bool:
    return house.query("SELECT reextraction IS NULL FROM runs ORDER BY seq DESC LIMIT 1") == [(1,)] and house.query(
        "SELECT count(*) FROM jobs WHERE page IS NOT NULL"
    ) == [(0,)]


CHANGED = 'isbn: {selector: b, required: true, match: "[0-9]+-[0-9]+"}\n      short: {value: "%{depth}"}'


def changed(text: str) -> str:
    return text.replace("isbn: {selector: b, required: true}", CHANGED)


def fresh(house: House, site: Site, text: str, folder: Path) -> House:
    """A crawl from nothing with these defs, in a house of its own."""
    other = House(folder)
    other.write(text)
    other.crawl()
    return other


def outputs(house: House) -> dict[str, Counter[str]]:
    """Every output's lines, in no order."""
    folder = house.data / "output" / "latest"
    return {p.name: Counter(p.read_text("utf-8").splitlines()) for p in sorted(folder.glob("[!.]*"))}


def saved(house: House) -> str:
    return (house.defs / "crawl.yml").read_text("utf-8")
