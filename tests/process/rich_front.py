"""A shop of six kinds of pages whose rows come by script, its defs, and the rows that it has."""

import json
from pathlib import Path

from .project import Project
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


def rows_of(pages: int) -> list[dict[str, str]]:
    """All rows, sorted by name. `pages`: of each kind."""
    found = [row for kind in PAGES for number in range(1, pages + 1) for row in _items(kind, str(number))]
    return sorted(found, key=lambda row: row["name"])


def write_defs(project: Project, site: Site, pages: int) -> None:
    """A group for each kind of pages."""
    site.fallback = answer
    locators = "".join(
        f"  {kind}: {{locators: [{{url: '{site.url(f'/{kind}/')}{{1..{pages}}}'}}]}}\n" for kind in PAGES
    )
    groups = "".join(
        f"  {kind}: {{loader: {{browser: {LOADERS[kind]}}}, {kind}Items: {{dataDef: item}}}}\n" for kind in PAGES
    )
    fields = "{name: {selector: b, required: true}, price: {selector: i}}"
    project.write(
        f"locatorGroups:\n{locators}taskGroups:\n{groups}"
        f"dataDefs:\n  item:\n    query: {{block: .item}}\n    fields: {fields}\n"
    )


def profiles(data: Path) -> list[str]:
    """The folders of browsers that are left."""
    return sorted(str(path) for path in (data / "browsers").glob("*/*"))
