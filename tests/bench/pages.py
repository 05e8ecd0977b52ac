"""Generates the pages of the bench sites: link-heavy like API documentation, every page reachable."""

from functools import lru_cache

_PER_PACKAGE = 50
_NEAR = 10
_COMMON = 11
_ANCHORS = 35
_BYTES = 28_000


def path_of(number: int) -> str:
    """The path of a page; number 0 is the start page."""
    return "/index.html" if number == 0 else f"/p{number // _PER_PACKAGE}/c{number}.html"


def number_of(path: str) -> int | None:
    """The number of the page at a path; None when there is none."""
    if path in ("/", "/index.html"):
        return 0
    name = path.rpartition("/c")[2].removesuffix(".html")
    if name.isascii() and name.isdigit() and path_of(int(name)) == path:
        return int(name)
    return None


def page(number: int, count: int, size: int = _BYTES) -> bytes:
    """A page of about `size` bytes with about 60 links, 25 of them distinct: children, neighbours, common pages.

    Page n has the children 4n+1 … 4n+4, so all `count` pages are reachable from page 0.
    """
    up = "" if number == 0 else "../"
    near = range(max(1, number - _NEAR // 2), number + _NEAR // 2)
    linked = dict.fromkeys(n for n in [*range(4 * number + 1, 4 * number + 5), *near, *range(_COMMON)] if n < count)
    hrefs = [up + path_of(n)[1:] for n in linked]
    anchors = [f"{hrefs[(number + k) % len(hrefs)]}#m{k}()" for k in range(_ANCHORS)]
    links = "\n".join(f'<li><a href="{href}" title="class in p{k}">C{k}</a></li>' for k, href in enumerate(hrefs))
    inner = "\n".join(f'<dd><code><a href="{href}">m{k}</a></code></dd>' for k, href in enumerate(anchors))
    head = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>C{number} (p{number // _PER_PACKAGE})'
        f"</title></head>\n<body><h1>Class C{number}</h1>\n<ul>{links}</ul>\n<h2>Field Summary</h2>\n"
        f"<h2>Method Summary</h2>\n<dl>{inner}</dl>\n<h2>Method Details</h2>\n"
    )
    return (head + _filler(max(0, size - len(head)))).encode()


def small_page(number: int, count: int) -> bytes:
    """A page of about 3 kB with 14 links: its four children, and a navigation that all pages share."""
    links = "".join(
        f'<li><a href="{path_of(n)}">Article {n}</a></li>' for n in range(4 * number + 1, min(4 * number + 5, count))
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Article {number}</title></head>\n'
        f"<body>{_navigation(count)}<h1>Article {number}</h1>\n<ul>{links}</ul>\n<h2>Summary</h2>\n"
        f"<h2>Details</h2>\n{_filler(2_000)}"
    ).encode()


SCRIPT = """\
fetch('/api/' + location.pathname.split('/').pop()).then(answer => answer.json()).then(items => {
    for (const item of items)
        list.insertAdjacentHTML('beforeend', `<li class=item><b>${item.name}</b> <i>${item.price}</i></li>`);
});
"""
"""Writes the rows of a page, from JSON that it asks for."""
STYLE = "body { font: 16px sans-serif } .item { display: flex; padding: 4px } .detail { margin: 8px }"
ITEMS = 10


def items(number: int) -> list[dict[str, str]]:
    """What a page of the scripted site offers."""
    return [{"name": f"Item {number}-{n}", "price": f"{number}.{n}0"} for n in range(ITEMS)]


def scripted_page(number: int, *, by_script: bool) -> bytes:
    """A page of about 8 kB, whose items its script writes, or which has them."""
    rows = (
        ""
        if by_script
        else "".join(f"<li class=item><b>{i['name']}</b> <i>{i['price']}</i></li>" for i in items(number))
    )
    script = '<script src="/site.js"></script>' if by_script else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Shelf {number}</title>'
        f'<link rel="stylesheet" href="/site.css"></head>\n<body><h1>Shelf {number}</h1>\n'
        f'<ul id="list">{rows}</ul>{script}\n{_filler(7_000)}'
    ).encode()


@lru_cache(maxsize=1)
def _navigation(count: int) -> str:
    return "".join(f'<a href="{path_of(n)}">Part {n}</a>\n' for n in range(min(10, count)))


@lru_cache(maxsize=1024)
def _filler(size: int) -> str:
    """The long part of the page: sections of text and markup like descriptions of methods."""
    parts, length = [], 20
    for k in range(10_000):
        part = (
            f'<section class="detail" id="m{k}"><h3>m{k}</h3><div class="signature"><span class="modifiers">public'
            f' final</span> <span class="type">int</span> <b>m{k}</b>(<i>first</i>, <i>second</i>)</div>\n<div'
            ' class="block">Gives the value at the place that is asked for, or the one before it where there is none;'
            " <code>null</code> is no value &amp; never given.</div><dl><dt>Returns:</dt><dd>it</dd></dl></section>\n"
        )
        length += len(part)
        if length > size and k:
            break
        parts.append(part)
    return "".join(parts) + "</body></html>\n"
