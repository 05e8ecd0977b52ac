"""A shop of six kinds of pages whose rows come by script, its defs, and the rows that it has."""

import itertools
import json

from .site import Page, Request, Site, html

ROWS = 4
JSON = {"Content-Type": "application/json"}
_ROW = "`<li class=item><b>${item.name}</b> <i>${item.price}</i></li>`"
_LOAD = f"""
const path = '/api' + location.pathname;
const load = (from, to, target) => fetch(path).then(answer => answer.json()).then(items => {{
    for (const item of items.slice(from, to)) target.insertAdjacentHTML('beforeend', {_ROW});
}});
const finish = () => document.body.insertAdjacentHTML('beforeend', '<p id=ready>ready</p>');
"""
_LIST = "<ul id=list></ul>"
PAGES = {
    "fetched": f"{_LIST}<script>{_LOAD} load(0, 4, list).then(finish)</script>",
    "scrolled": f"""<style>li {{ height: 900px }}</style>{_LIST}<script>{_LOAD}
        let count = 0, busy = false;
        const more = async () => {{ if (busy || count > 3) return; busy = true;
            await load(count, ++count, list); busy = false; }};
        addEventListener('scroll', more); more();</script>""",
    "more": f"""{_LIST}<button id=more>more</button><script>{_LOAD}
        let count = 0;
        const end = () => {{ if (count == 4) {{ more.remove(); finish(); }} }};
        more.onclick = () => load(count, ++count, list).then(end);
        </script>""",
    "consent": f"""{_LIST}<div id=wall style="position: fixed; inset: 0"><button id=accept>accept</button></div>
        <script>{_LOAD} accept.onclick = () => {{ wall.remove(); load(0, 4, list).then(finish); }}</script>""",
    "framed": "<iframe src='/inner{path}'></iframe><script>addEventListener('message', () => "
    "document.body.insertAdjacentHTML('beforeend', '<p id=ready>ready</p>'))</script>",
    "shadow": f"""<div id=host></div><script>{_LOAD}
        const root = host.attachShadow({{mode: 'open'}}); root.innerHTML = '<ul></ul>';
        load(0, 4, root.querySelector('ul')).then(finish)</script>""",
}
"""By kind."""
LOADERS = {
    "fetched": "{wait: '#ready'}",
    "scrolled": "{actions: [{scroll: {until: 'li:nth-child(4)'}}]}",
    "more": "{actions: [{click: '#more'}, {wait: 'li:nth-child(1)'}, {click: '#more'}, {wait: 'li:nth-child(2)'},"
    " {click: '#more'}, {wait: 'li:nth-child(3)'}, {click: '#more'}, {wait: '#ready'}]}",
    "consent": "{actions: [{click: '#accept'}, {wait: '#ready'}]}",
    "framed": "{wait: '#ready', frames: true}",
    "shadow": "{wait: '#ready'}",
}


def answer(request: Request) -> Page:
    _, first, *rest = request.path.split("/")
    if first == "api":
        return Page(json.dumps(_items(*rest[-2:])), headers=JSON)
    if first == "inner":
        # the scripts of a frame ask as those of its page do
        script = _LOAD.replace("location.pathname", "location.pathname.slice(6)")
        load = "load(0, 4, list).then(() => parent.postMessage('ready', '*'))"
        return Page(html(f"{_LIST}<script>{script} {load}</script>"))
    if first in PAGES:
        return Page(html(PAGES[first].replace("{path}", request.path)))
    return Page("nothing here", 404)


def _items(kind: str, number: str) -> list[dict[str, str]]:
    return [{"name": f"{kind} {number} {row}", "price": f"{int(number)}.{row}0"} for row in range(ROWS)]


class RichFront:
    """The shop on these sites: each has some of the kinds."""

    def __init__(self, pages: int, *sites: Site) -> None:
        """`pages`: of each kind."""
        self.pages = pages
        self._sites = dict(zip(PAGES, itertools.cycle(sites), strict=False))
        for site in sites:
            site.fallback = answer

    def defs(self, concurrency: int = 8, more: str = "") -> str:
        """Defs with a group for each kind, and these further lines."""
        urls = {kind: f"{site.url(f'/{kind}/')}{{1..{self.pages}}}" for kind, site in self._sites.items()}
        locators = "".join(f"  {kind}: {{locators: [{{url: '{url}'}}]}}\n" for kind, url in urls.items())
        groups = "".join(
            f"  {kind}: {{loader: {{browser: {loader}}}, {kind}Items: {{dataDef: item}}}}\n"
            for kind, loader in LOADERS.items()
        )
        fields = "{name: {selector: b, required: true}, price: {selector: i}}"
        return (
            f"locatorGroups:\n{locators}taskGroups:\n{groups}hosts: {{127.0.0.1: {{concurrency: {concurrency}}}}}\n"
            f"dataDefs:\n  item:\n    query: {{block: .item}}\n    fields: {fields}\n{more}"
        )

    @property
    def rows(self) -> list[dict[str, str]]:
        """All rows, sorted by name."""
        found = [row for kind in PAGES for number in range(1, self.pages + 1) for row in _items(kind, str(number))]
        return sorted(found, key=lambda row: row["name"])
