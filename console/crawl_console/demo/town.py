"""The demo town: two more hosts beside the shop, one slow and one with errors; front.py has a third.

Each of the two has a list of its pages. Their defs are in town.yml, which has one mistake on purpose.
"""

from collections.abc import Iterable
from zlib import crc32

from crawl_console.demo.site import Reply

ARCHIVE_SLOTS, ARCHIVE_SECONDS = 4, 0.4
"""The archive answers so many requests at a time, each after so many seconds."""
LIST_PATH = "/list.html"
_FAILING, _GONE = 5, 7
"""One stock page in so many always fails, and one in so many is gone."""
_ERROR_TEXT = "<h1>Out of order</h1><p>The scales of the warehouse are being repaired. Ask again tomorrow.</p>"


def town_size(pages: int) -> int:
    """The numbers of stories and of stock pages in a town beside a shop of `pages` products."""
    return max(10, pages // 5)


class Archive:
    """Stories about the products. Slow."""

    def __init__(self, count: int) -> None:
        self._count = count

    def reply(self, target: str) -> Reply:
        if target == LIST_PATH:
            return _list_page("The archive", (f"/story/{n}.html" for n in range(1, self._count + 1)))
        number = _number_of(target, "/story/")
        if not 1 <= number <= self._count:
            return _page("Nothing here", "<p>It was never written down.</p>", status=404)
        year = 1700 + crc32(b"%d" % number) % 300
        text = (
            f'<p class="year">Written in {year}</p><p class="teller">Teller {number % 9}</p><p>Once upon a kettle.</p>'
        )
        return _page(f"Story {number}", text)


class Warehouse:
    """The stock on the shelves. Some pages always fail."""

    def __init__(self, count: int) -> None:
        self._count = count

    def reply(self, target: str) -> Reply:
        if target == LIST_PATH:
            return _list_page("The warehouse", (f"/stock/{n}.html" for n in range(1, self._count + 1)))
        number = _number_of(target, "/stock/")
        if not 1 <= number <= self._count or number % _GONE == 0:
            return _page("Nothing here", "<p>The shelf is gone.</p>", status=404)
        if number % _FAILING == 0:
            return _page("Out of order", _ERROR_TEXT, status=500)
        text = f'<p class="shelf">Shelf {number % 12}</p><p class="pieces">{crc32(b"%d" % number) % 90} pieces</p>'
        return _page(f"Stock {number}", text)


def town_urls(archive: str, warehouse: str) -> str:
    """The seeds of the town, a line each: the lists of both hosts, given by their origins."""
    return f"# where the archive and the warehouse are today\n{archive}{LIST_PATH}\n{warehouse}{LIST_PATH}\n"


def _list_page(title: str, paths: Iterable[str]) -> Reply:
    return _page(title, "<ul>" + "".join(f'<li><a href="{path}">{path}</a></li>' for path in paths) + "</ul>")


def _page(title: str, main: str, *, status: int = 200) -> Reply:
    html = (
        f'<!doctype html><html lang="en"><head><title>{title}</title></head><body><h1>{title}</h1>{main}</body></html>'
    )
    return Reply(status, html.encode())


def _number_of(target: str, folder: str) -> int:
    """The number in `/folder/12.html`; 0 for another path."""
    text = target.partition("?")[0].removeprefix(folder).removesuffix(".html")
    return int(text) if target.startswith(folder) and text.isascii() and text.isdigit() and len(text) < 10 else 0
