"""A site to crawl: a chain of shelves that link to books; with the rows that an exact crawl extracts."""

from collections import Counter
from dataclasses import replace

from .site import Page, Request, Site, html

DEFS = """\
locatorGroups:
  shelves: {{locators: [{{name: start, url: "{start}"}}]}}
taskGroups:
  shelves: {{list: {{dataDef: entry}}}}
  books: {{page: {{dataDef: book}}, more: {{dataDef: nothing}}}}
dataDefs:
  entry:
    query: {{block: "li"}}
    fields:
      title: {{selector: a}}
      price: {{selector: i, match: "[0-9.]+", type: decimal}}
    links:
      - {{selector: "a.next", linkGroup: shelves}}
      - {{selector: "li a", linkGroup: books}}
  book:
    fields:
      isbn: {{selector: b, required: true}}
      path: {{value: "%{{document.url}}"}}
  nothing:
    query: {{block: p.none}}
    fields: {{x: {{selector: u}}, y: {{selector: s}}}}
"""
HOSTS = """\
hosts:
  "127.0.0.1": {{robots: {robots}, concurrency: {concurrency}, delay: {delay}}}
"""


class Library:
    """`shelves` pages with `books` each, answered at once or after `delay` seconds."""

    def __init__(self, site: Site, shelves: int = 4, books: int = 5, delay: float = 0.0) -> None:
        self.site, self.shelves, self.books, self.delay = site, shelves, books, delay
        for shelf in range(shelves):
            site[f"/shelf/{shelf}"] = self._slow(self._shelf(shelf))
            for book in range(books):
                site[f"/book/{shelf}-{book}"] = self._slow(html(f"<b>ISBN {shelf:03d}-{book}</b>"))

    def set_delay(self, delay: float) -> None:
        """Answer with this delay from now on."""
        for path in self.pages:
            page = self.site.pages[path]
            if isinstance(page, Page):
                self.site[path] = replace(page, delay=delay)

    @property
    def size(self) -> int:
        return self.shelves * (1 + self.books)

    @property
    def pages(self) -> set[str]:
        shelves = range(self.shelves)
        return {f"/shelf/{s}" for s in shelves} | {f"/book/{s}-{b}" for s in shelves for b in range(self.books)}

    def defs(self, *, robots: bool = False, concurrency: int = 16, delay: float = 0, more: str = "") -> str:
        hosts = HOSTS.format(robots=str(robots).lower(), concurrency=concurrency, delay=delay)
        return DEFS.format(start=self.site.url("/shelf/0")) + hosts + more

    def rows(self) -> Counter[tuple[str, ...]]:
        rows: Counter[tuple[str, ...]] = Counter()
        for s in range(self.shelves):
            for b in range(self.books):
                rows["entry", f'Book "{s}", {b}; née', f"{s}.{b:02d}"] += 1
                rows["book", f"ISBN {s:03d}-{b}", self.site.url(f"/book/{s}-{b}")] += 1
        return rows

    def _shelf(self, shelf: int) -> str:
        entries = "".join(
            f'<li><a href="/book/{shelf}-{b}">Book "{shelf}", {b}; née</a> <i>£{shelf}.{b:02d}</i></li>'
            for b in range(self.books)
        )
        following = f'<a class="next" href="/shelf/{shelf + 1}">on</a>' if shelf + 1 < self.shelves else ""
        return html(f"<ul>{entries}</ul>{following}")

    def _slow(self, body: str) -> Page:
        return Page(body, delay=self.delay)


def ok(_: Request) -> Page:
    return Page(html("<b>here</b>"))
