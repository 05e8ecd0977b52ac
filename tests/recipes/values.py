"""Pages whose values need more than a selector: what they show, and the rows that their recipes give."""

from base64 import b64encode
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from tests.process.site import Page, Request, Site, html
from tests.recipes.recipes import Recipe, Row
from tests.recipes.shop import Shop


class Offer(NamedTuple):
    sku: str
    price: str
    reduced: str = ""
    stock: str = ""
    maker: str = ""
    note: str = ""


SHOP = "Tea & Co"
OFFERS = (
    Offer("7", "14.00", "11.90", "In stock", "https://garden.example/?q=tea&l=de", "Grüße aus Assam"),
    Offer("8", "8.40", stock="Sold out"),
    Offer("9", "4.00", stock="in two weeks"),
    Offer("10", "3.10", "2.95", "In stock", note="<b>new</b>?>"),
)
STOCK = {"In stock": "true", "Sold out": "false"}
FAIRS = {
    "de": ("de-DE", (("Berlin", "3. März 2024", "2024-03-03"), ("Wien", "1. Mai 2023", "2023-05-01"))),
    "fr": ("fr", (("Lyon", "12 avril 2024", "2024-04-12"),)),
    "old": ("", (("London", "1 May 2024", "2024-05-01"), ("York", "2 August 2022", "2022-08-02"))),
}
BRANCHES = {"1": {"7": 12, "8": 0}, "2": {"7": 3}, "3": {"9": 40}}
_KEY = "k-7 grün"


def serve_values(site: Site) -> None:
    """Put the pages on a site of the tests."""
    site["/mixed"] = html(f"<h1>{SHOP.replace('&', '&amp;')}</h1><ul>{''.join(map(_offer, OFFERS))}</ul>")
    for name, (language, fairs) in FAIRS.items():
        items = "".join(f"<li><b>{town}</b> <time>{text}</time>" for town, text, _ in fairs)
        site[f"/{name}/fairs"] = Page(f"<!doctype html><html lang='{language}'><body><ul>{items}</ul>")
    branches = "".join(f"<li class=branch data-id={number}>" for number in BRANCHES)
    site["/branches"] = html(f"<div id=app data-key='{_KEY}'></div><ul>{branches}</ul>")
    for number in BRANCHES:
        site[f"/api/branch/{number}"] = _answer


def _offer(offer: Offer) -> str:
    text = f"<li class=offer data-sku={offer.sku}><i class=price>{offer.price}</i>"
    text += f"<i class=price-new>{offer.reduced}</i><i class=stock>{offer.stock}</i>"
    if offer.maker:
        text += f"<a class=out href='/go?from=7&amp;u={quote(offer.maker, safe='')}'>Maker</a>"
    return text + f"<div class=note data-text='{b64encode(offer.note.encode()).decode()}'></div></li>"


def _answer(request: Request) -> Page:
    headers = {name.lower(): value for name, value in request.headers.items()}
    key = headers.get("x-key", "").encode("latin-1").decode()
    if (headers.get("x-requested-with"), key) != ("XMLHttpRequest", _KEY) or "/branches" not in headers["referer"]:
        return Page("no", 403)
    stock = BRANCHES[request.path.rpartition("/")[2]]
    items = ", ".join(f'{{"sku": "{sku}", "pieces": {pieces}}}' for sku, pieces in stock.items())
    return Page(f'{{"stock": [{items}]}}', headers={"Content-Type": "application/json"})


def _offers(_shop: Shop) -> Iterable[Row]:
    for offer in OFFERS:
        yield {
            "shop": SHOP,
            "sku": offer.sku,
            "id": f"{SHOP}/{offer.sku}",
            "price": offer.reduced or offer.price,
            "stock": STOCK.get(offer.stock),
            "maker": offer.maker,
            "note": offer.note,
        }


def _fairs(_shop: Shop) -> Iterable[Row]:
    for _, fairs in FAIRS.values():
        for town, _, date in fairs:
            yield {"town": town, "date": date}


def _stock(_shop: Shop) -> Iterable[Row]:
    for number, stock in BRANCHES.items():
        for sku, pieces in stock.items():
            yield {"branch": number, "sku": sku, "pieces": pieces}


VALUE_RECIPES = (
    Recipe("layouts", "Two layouts at once", "offer", _offers),
    Recipe("languages", "Dates in the language of the page", "fair", _fairs),
    Recipe("headers", "An API that asks for headers", "stock", _stock),
)
