"""A shop whose scripts write its pages, and the rows that its recipes give."""

import json
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.process.site import Page, Request, Site, html
from tests.recipes.recipes import Recipe, Row
from tests.recipes.shop import Shop


class Sort(NamedTuple):
    name: str
    price: str
    origin: str

    @property
    def json(self) -> dict[str, str]:
        return self._asdict()


PLACES = ("Assam", "Uji", "Nuwara Eliya", "Yunnan", "Darjeeling")
SORTS = tuple(Sort(f"Tea {n}", f"{4 + n % 9}.{n % 10}0", PLACES[n % len(PLACES)]) for n in range(1, 44))
_STEP = 10
_JSON = {"Content-Type": "application/json"}
_ADD = """
const add = items => { for (const item of items) {
    const row = Object.assign(document.createElement('li'), {className: 'tea'});
    row.style.height = '200px';
    for (const name of ['name', 'price', 'origin'])
        row.append(Object.assign(document.createElement('span'), {className: name, textContent: item[name]}));
    list.append(row);
} };
const load = async from => (await fetch('/api/teas?from=' + from)).json();
"""
_WALL = f"""<ul id=list></ul><p id=end style='height:10px'></p><script>{_ADD}
let next = 0, busy = false;
const more = async () => {{
    if (busy || next === null) return;
    busy = true;
    const answer = await load(next);
    add(answer.teas);
    next = answer.next;
    busy = false;
}};
new IntersectionObserver(seen => {{ if (seen[0].isIntersecting) more(); }}).observe(end);
</script>"""
_WINDOW = f"""<ul id=list style='box-sizing:border-box;height:8600px'></ul><script>{_ADD}
const known = [];
const draw = async () => {{
    const first = Math.max(0, Math.floor((scrollY - list.offsetTop) / 200)), last = first + 5;
    while (known.length < last) {{
        const answer = await load(known.length);
        known.push(...answer.teas);
        if (answer.next === null) break;
    }}
    list.replaceChildren();
    list.style.paddingTop = first * 200 + 'px';
    add(known.slice(first, last));
}};
addEventListener('scroll', draw); draw();
</script>"""
_CATALOGUE = f"""<ul id=list></ul><button id=more hidden>More teas</button>
<div id=consent style='position:fixed;inset:0;background:white'><button id=accept>Accept</button></div>
<script>{_ADD}
let next = 0;
const show = async () => {{
    more.disabled = true;
    const answer = await load(next);
    add(answer.teas);
    next = answer.next;
    more.disabled = false;
    more.hidden = next === null;
}};
more.onclick = show;
accept.onclick = () => {{ consent.remove(); show(); }};
</script>"""
_SHELF = """<div id=app></div><script>
fetch('/api/stock' + location.pathname, {headers: {'X-Page': btoa(location.pathname)}})
    .then(answer => answer.json())
    .then(stock => { app.innerHTML = '<p id=ready>' + stock.teas.length + ' teas</p>'; });
</script>"""
SHELVES = 3


def serve_scripted(site: Site) -> None:
    """Put the pages on a site of the tests."""
    site["/wall"], site["/catalogue"], site["/window"] = html(_WALL), html(_CATALOGUE), html(_WINDOW)
    site.fallback = _answer
    for number in range(1, SHELVES + 1):
        site[f"/shelf/{number}"] = html(_SHELF)
        site[f"/api/stock/shelf/{number}"] = _stock


def _answer(request: Request) -> Page:
    url = urlsplit(request.path)
    if url.path != "/api/teas":
        return Page(status=404)
    first = int(parse_qs(url.query)["from"][0])
    following = first + _STEP if first + _STEP < len(SORTS) else None
    teas = [sort.json for sort in SORTS[first : first + _STEP]]
    return Page(json.dumps({"teas": teas, "next": following}), headers=_JSON)


def _stock(request: Request) -> Page:
    headers = {name.lower(): value for name, value in request.headers.items()}
    if "x-page" not in headers:
        return Page("only for our pages", 403)
    teas = [{**sort.json, "stock": {"pieces": pieces}} for sort, pieces in _shelf(int(request.path[-1]))]
    return Page(json.dumps({"teas": teas}), headers=_JSON)


def _shelf(number: int) -> list[tuple[Sort, int]]:
    return [(sort, 3 * place) for place, sort in enumerate(SORTS) if place % SHELVES == number - 1]


def _teas(_shop: Shop) -> Iterable[Row]:
    for sort in SORTS:
        yield sort.json


def _stocked(shop: Shop) -> Iterable[Row]:
    for number in range(1, SHELVES + 1):
        for sort, pieces in _shelf(number):
            url = f"{shop.origin}/shelf/{number}"
            yield {"shelf": url, "name": sort.name, "price": sort.price, "pieces": pieces}


BROWSER_RECIPES = (
    Recipe("wall", "Infinite scroll", "tea", _teas),
    Recipe("consent", "A consent banner and “load more”", "tea", _teas),
    Recipe("window", "A list that keeps only what is in view", "tea", _teas),
    Recipe("behind", "The JSON behind a page", "stocked", _stocked),
)
