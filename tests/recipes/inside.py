"""Pages whose data stands inside other texts: what they show, and the rows that their recipes give."""

import json
import re
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from tests.process.site import Page, Site, html
from tests.recipes.recipes import Recipe, Row
from tests.recipes.shop import Shop


class Good(NamedTuple):
    id: int
    name: str
    price: str
    sale: bool


GOODS = (
    Good(1, "Darjeeling Gold & co", "11.90", True),
    Good(2, "Ceylon N° 5", "8.40", False),
    Good(3, 'Uji "Spring"', "16.05", False),
    Good(4, "Assam <strong>", "7.00", True),
    Good(5, "Māte's own", "5.10", False),
)
PLAYERS = (("Ann Noon", 20, "11.50"), ("Bea Stone", 19, "7.25"), ("Cid O'Neal", 3, "0.00"))
_PER_PART = 2


def serve_inside(site: Site) -> None:
    """Put the pages on a site of the tests."""
    parts = -(-len(GOODS) // _PER_PART)
    for part in range(parts):
        goods = GOODS[part * _PER_PART : (part + 1) * _PER_PART]
        cards = "".join(
            f"<li class=card><a href='/goods/{g.id}'><h3>{escape(g.name)}</h3></a><b class=price>{g.price} €</b></li>"
            for g in goods
        )
        following = f"/more?page={part + 2}" if part + 1 < parts else None
        body = json.dumps({"success": True, "data": {"html": cards, "next": following}})
        site[f"/more?page={part + 1}"] = Page(body=body.encode(), headers={"Content-Type": "application/json"})
        site["/next" if part == 0 else f"/next/{part + 1}"] = html(
            f"<main>{''.join(_flight_scripts(goods, f'/next/{part + 2}' if part + 1 < parts else None))}</main>"
        )
        nuxt_more = f"/nuxt/{part + 2}" if part + 1 < parts else None
        script = _nuxt_call(goods, nuxt_more) if part % 2 else _nuxt_list(goods, nuxt_more)
        site["/nuxt" if part == 0 else f"/nuxt/{part + 1}"] = html(f"<div id=__nuxt></div>{script}")
    for good in GOODS:
        site[f"/goods/{good.id}"] = html(f"<h1>{escape(good.name)}</h1>")
    site["/state"] = html(f"<h1>Tea &amp; more</h1><script>var x = {{a: 1}};</script><script>{_state()}</script>")
    site["/season"] = html(f"<h1>Season 2024</h1><div id=all_totals><p>loading</p><!-- {_players()} --></div>")


def _state() -> str:
    items = ", ".join(
        f"{{id: {g.id}, name: {json.dumps(g.name).replace('<', chr(92) + 'x3c')}, price: {g.price},"
        f" sale: !{int(not g.sale)}, stock: undefined,}}"
        for g in GOODS
    )
    return f"window.__STATE__ = {{catalogue: {{/* all */ currency: 'EUR', items: [{items}]}}}}; draw(window.__STATE__);"


def _flight_scripts(goods: tuple[Good, ...], more: str | None) -> Iterable[str]:
    texts = {f"a{g.id}": f"{g.name}: leaves, 100 g" for g in goods}
    products = [f'{{"id":{g.id},"name":{json.dumps(g.name)},"price":{g.price},"text":"$a{g.id}"}}' for g in goods]
    flight = '0:["$","$L1",null,{}]\n1:I[12,["static/a.js"],""]\n'
    flight += "".join(f"{id_}:T{len(text.encode()):x},{text}" for id_, text in texts.items())
    flight += f'7:["$","$L1",null,{{"products":[{",".join(products)}],"more":{json.dumps(more)}}}]\n'
    yield "<script>(self.__next_f=self.__next_f||[]).push([0])</script>"
    for at in range(0, len(flight), 61):
        chunk = json.dumps(flight[at : at + 61]).replace("<", "\\u003c")
        yield f"<script>self.__next_f.push([1,{chunk}])</script>"


def _nuxt_list(goods: tuple[Good, ...], more: str | None) -> str:
    """Of version 3: values name others by their places."""
    places: list[object] = [
        ["ShallowReactive", 1],
        {"data": 2},
        ["Reactive", 3],
        {"shelf": 4},
        None,
        {"town": 6},
        "Uji",
    ]
    numbers = []
    for good in goods:
        at = len(places)
        numbers.append(at)
        places += [{"id": at + 1, "name": at + 2, "price": at + 3, "from": 5}, good.id, good.name, f"#{good.price}"]
    places[4] = {"products": len(places), "more": len(places) + 1}
    text = re.sub(r'"#([\d.]+)"', r"\1", json.dumps([*places, numbers, more]).replace("<", "\\u003C"))
    return f'<script type="application/json" id="__NUXT_DATA__">{text}</script><script>window.__NUXT__={{}};</script>'


def _nuxt_call(goods: tuple[Good, ...], more: str | None) -> str:
    """Of version 2: a function with arguments, which fills what occurs twice."""
    items = ",".join(
        f"{{id:{g.id},name:{json.dumps(g.name).replace('<', chr(92) + 'u003C')},price:{g.price},from:a}}" for g in goods
    )
    body = f'a.town=b;return {{layout:"default",data:[{{products:[{items}],more:c}}],error:d}}'
    return f'<script>window.__NUXT__=(function(a,b,c,d){{{body}}}({{}},"Uji",{json.dumps(more)},null));</script>'


def _players() -> str:
    head = "<tr class=thead><th>Player<th>G<th>PTS"
    rows = [
        f"<tr><th data-stat=player><a href='/players/{number}'>{name}</a>"
        f"<td data-stat=g>{games}<td data-stat=pts>{points}"
        for number, (name, games, points) in enumerate(PLAYERS, 1)
    ]
    return f"<table id=totals><thead>{head}</thead><tbody>{rows[0]}{head}{''.join(rows[1:])}</tbody></table>"


def _cards(shop: Shop) -> Iterable[Row]:
    for good in GOODS:
        price = f'{{"amount":{good.price},"currency":"€"}}'
        yield {"name": good.name, "price": price, "url": f"{shop.origin}/goods/{good.id}"}


def _goods(_shop: Shop) -> Iterable[Row]:
    for g in GOODS:
        sale = str(g.sale).lower()
        yield {"shop": "Tea & more", "currency": "EUR", "id": g.id, "name": g.name, "price": g.price, "sale": sale}


def _flown(_shop: Shop) -> Iterable[Row]:
    for good in GOODS:
        yield {"id": good.id, "name": good.name, "price": good.price, "text": f"{good.name}: leaves, 100 g"}


def _laid(_shop: Shop) -> Iterable[Row]:
    for good in GOODS:
        yield {"id": good.id, "name": good.name, "price": good.price, "town": "Uji"}


def _totals(shop: Shop) -> Iterable[Row]:
    for number, (name, games, points) in enumerate(PLAYERS, 1):
        url = f"{shop.origin}/players/{number}"
        yield {"season": "Season 2024", "name": name, "url": url, "games": games, "points": points}


INSIDE_RECIPES = (
    Recipe("more", "Load more", "card", _cards),
    Recipe("state", "State in a script", "good", _goods),
    Recipe("flight", "A shop made with Next.js", "flown", _flown),
    Recipe("nuxt", "A shop made with Nuxt", "laid", _laid),
    Recipe("comments", "Tables in comments", "player", _totals),
)
