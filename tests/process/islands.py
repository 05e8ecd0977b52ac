"""A site of many hosts, each with shelves of books, that checks how politely all of them are asked."""

import math
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from .gaps import assert_spaced
from .site import Exchange, Page, Request, Site, html

_DEFS = """\
locatorGroups:
  shelves: {locators: [%s]}
taskGroups:
  shelves: {list: {dataDef: entry}}
  books: {page: {dataDef: book}}
dataDefs:
  entry:
    query: {block: "li"}
    fields: {title: {selector: a}}
    links:
      - {selector: "a.next", linkGroup: shelves}
      - {selector: "li a", linkGroup: books}
  book:
    fields:
      isbn: {selector: b, required: true}
      path: {value: "%%{document.url}"}
hosts:
"""


class Islands:
    """Every second host has a delay between requests, the others a bound of requests at once."""

    def __init__(
        self,
        site: Site,
        shelves: int,
        books: int,
        *,
        delay: float = 0.5,
        concurrency: int = 2,
        page_seconds: float = 0.3,
    ) -> None:
        """`delay`: 0: no host has one; `page_seconds`: how long an answer of a host without delay takes."""
        self.site, self.shelves, self.books = site, shelves, books
        self.delay, self.concurrency, self.page_seconds = delay, concurrency, page_seconds
        self.hosts = site.hosts
        site.fallback = self._respond

    @property
    def size(self) -> int:
        """How many pages it has."""
        return len(self.hosts) * self.shelves * (1 + self.books)

    def defs(self, *, more: str = "", **_: object) -> str:
        starts = ", ".join(f'{{name: h{n}, url: "{self._url(host)}/shelf/0"}}' for n, host in enumerate(self.hosts))
        hosts = (
            f"  {host!r}: {{robots: false, "
            + (f"delay: {self.delay}" if self._has_delay(host) else f"concurrency: {self.concurrency}, delay: 0")
            + "}\n"
            for host in self.hosts
        )
        return _DEFS % starts + "".join(hosts) + more

    def rows(self) -> Counter[tuple[str, ...]]:
        """What an exact crawl extracts."""
        rows: Counter[tuple[str, ...]] = Counter()
        for host in self.hosts:
            for shelf in range(self.shelves):
                for book in range(self.books):
                    rows["entry", f"Book {host} {shelf}-{book}"] += 1
                    rows["book", f"ISBN {host} {shelf}-{book}", f"{self._url(host)}/book/{shelf}-{book}"] += 1
        return rows

    def assert_polite(self, late: Sequence[tuple[float, float]] = ()) -> None:
        """No two requests of a host came too soon after each other, and never too many were open at once.

        `late`: from when to when requests arrive that a network held for a moment; their gaps are not judged.
        """
        by_host: defaultdict[str, list[Exchange]] = defaultdict(list)
        for exchange in list(self.site.exchanges):
            by_host[exchange.request.headers["host"].partition(":")[0]].append(exchange)
        for host, exchanges in by_host.items():
            if self._has_delay(host):
                times = sorted(exchange.started for exchange in exchanges)
                starts, ends = [0.0, *(end for _, end in late)], [*(start for start, _ in late), math.inf]
                for start, end in zip(starts, ends, strict=True):
                    assert_spaced([time for time in times if start <= time < end], self.delay)
            else:
                changes = [(one.started, 1) for one in exchanges] + [
                    (one.ended or one.started, -1) for one in exchanges
                ]
                most = now = 0
                for _, change in sorted(changes):
                    now += change
                    most = max(most, now)
                assert most <= self.concurrency, f"{most} requests of {host} at once"

    def _has_delay(self, host: str) -> bool:
        return self.delay > 0 and self.hosts.index(host) % 2 == 0

    def _url(self, host: str) -> str:
        return f"http://{host}:{self.site.port}"

    def _respond(self, request: Request) -> Page:
        host = request.headers["host"].partition(":")[0]
        kind, _, name = request.path.strip("/").partition("/")
        if kind == "book":
            body = f"<b>ISBN {host} {name}</b>"
        else:
            body = "".join(f'<li><a href="/book/{name}-{b}">Book {host} {name}-{b}</a></li>' for b in range(self.books))
            if int(name) + 1 < self.shelves:
                body += f'<a class="next" href="/shelf/{int(name) + 1}">on</a>'
        return Page(html(body), delay=0.02 if self._has_delay(host) else self.page_seconds)


@contextmanager
def serve_islands(hosts: Sequence[str]) -> Iterator[Site]:
    """A site that listens on these addresses, at one port."""
    site = Site(hosts)
    with closing(socket.socket()) as free:
        free.bind((hosts[0], 0))
        port = free.getsockname()[1]
    site.open(port)
    try:
        yield site
    finally:
        site.close()
    assert not site.errors
