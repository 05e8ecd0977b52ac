"""The shop front of the demo town: windows whose goods come by script, and one that is plain.

Their defs are in front.yml.
"""

import json
from collections.abc import Iterator
from zlib import crc32

from crawl_console.demo.site import Reply

WINDOWS, PER_CLICK, CLICKS = 4, 8, 2
"""Windows; goods that come at once; clicks on "load more" until all are there."""
PLAIN_WINDOW = 1
_SCRIPT = """
const list = document.querySelector('ul'), more = document.querySelector('#more');
let part = 0;
async function load() {
    const answer = await fetch(`/goods/WINDOW.json?part=${++part}`);
    const {goods, last} = await answer.json();
    for (const good of goods) {
        const item = list.appendChild(document.createElement('li'));
        item.className = 'good';
        item.append(Object.assign(document.createElement('b'), {textContent: good.name}), ' ',
                    Object.assign(document.createElement('i'), {textContent: good.price}));
    }
    more.hidden = last;
}
more.onclick = load;
load();
"""


class Front:
    """Goods in windows."""

    def reply(self, target: str) -> Reply:
        path, _, query = target.partition("?")
        window = next((number for number in range(1, WINDOWS + 1) if path == f"/window/{number}.html"), 0)
        if window:
            return _page(f"Window {window}", _plain_list(window) if window == PLAIN_WINDOW else _scripted_list(window))
        for number in range(1, WINDOWS + 1):
            for part in range(1, CLICKS + 2):
                if (path, query) == (f"/goods/{number}.json", f"part={part}"):
                    goods = list(_goods(number, part))
                    return Reply(200, json.dumps({"goods": goods, "last": part > CLICKS}).encode(), "application/json")
        return Reply(404, b"", "text/plain")


def front_urls(front: str) -> str:
    """The seeds of the shop front, a line each."""
    lines = [f"{front}/window/{number}.html" for number in range(1, WINDOWS + 1)]
    return "\n".join(["# where the shop front is today", *lines, ""])


def _goods(window: int, part: int) -> Iterator[dict[str, str]]:
    for index in range(PER_CLICK * (part - 1) + 1, PER_CLICK * part + 1):
        cents = 300 + crc32(b"%d-%d" % (window, index)) % 9_000
        yield {"name": f"Good {window}-{index}", "price": f"£{cents / 100:.2f}"}


def _plain_list(window: int) -> str:
    parts = (good for part in range(1, CLICKS + 2) for good in _goods(window, part))
    items = "".join(f'<li class="good"><b>{good["name"]}</b> <i>{good["price"]}</i></li>' for good in parts)
    return f"<ul>{items}</ul>"


def _scripted_list(window: int) -> str:
    script = _SCRIPT.replace("WINDOW", str(window))
    return f'<ul></ul><button id="more">Load more</button><script>{script}</script>'


def _page(title: str, main: str) -> Reply:
    html = (
        f'<!doctype html><html lang="en"><head><title>{title}</title></head><body><h1>{title}</h1>{main}</body></html>'
    )
    return Reply(200, html.encode())
