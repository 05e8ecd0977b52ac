"""The crawl whose data dir is kept for each schema: begun once by `make_dump`, continued by a test ever after."""

import contextlib
import fcntl
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from engine.store.db.connector import Database
from tests.process.library import Library
from tests.process.site import Page, Site

PORT = 20471
"""The URLs in a dump, and the hashes of them, have this port."""
_PORT_WAIT_SECONDS = 60.0
FORBIDDEN, DISALLOWED, FAILING = "/book/0-1", "/book/0-2", "/book/1-0"
HELD = ("/shelf/2", "/book/1-1")
DUMPS = Path(__file__).parent
DATABASES = ("crawl.db", "pages.db")


class KeptCrawl:
    """A library of 15 pages: one book is forbidden (403), and robots.txt disallows one."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.library = Library(site, shelves=3, books=4)
        site["/robots.txt"] = Page(f"User-agent: *\nDisallow: {DISALLOWED}\n", headers={"Content-Type": "text/plain"})
        site[FORBIDDEN] = Page("no", 403)

    def hold_back(self) -> None:
        """Answer two pages never, and another with an error that is retried."""
        for path in HELD:
            self.site[path] = Page(hold=threading.Event())
        self.site[FAILING] = Page("later", 500)

    def defs(self) -> str:
        """The defs, with two outputs."""
        more = "appenders: {rows: {type: csv}, lines: {type: jsonl}}\n"
        return self.library.defs(robots=True, concurrency=4, more=more)

    def rows(self) -> Counter[tuple[str, ...]]:
        """The rows of a complete crawl."""
        missing = {self.site.url(path) for path in (FORBIDDEN, DISALLOWED)}
        return Counter({row: count for row, count in self.library.rows().items() if row[2] not in missing})

    def pages(self) -> set[str]:
        """The paths that a complete crawl requests."""
        return self.library.pages - {DISALLOWED}


@contextlib.contextmanager
def serve_kept_crawl() -> Iterator[KeptCrawl]:
    """The crawl's site, at its port; waits while another test uses that. Raises OSError if it stays in use."""
    with Path(__file__).open() as own:
        fcntl.flock(own, fcntl.LOCK_EX)  # tests in other processes look for the port at the same moment
        deadline = time.monotonic() + _PORT_WAIT_SECONDS
        while not _is_port_free() and time.monotonic() < deadline:
            time.sleep(0.1)
        site = Site()
        site.open(PORT)
        try:
            yield KeptCrawl(site)
        finally:
            site.close()


def load_dump(dump: Path, folder: Path) -> None:
    """Create a data dir from a dump."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in DATABASES:
        db = Database.open(folder / name)
        with db.transaction():
            db.execute_script((dump / name).with_suffix(".sql").read_text("utf-8"))
        db.close()


def _is_port_free() -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return False
    return True
