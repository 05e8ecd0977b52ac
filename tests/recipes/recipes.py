"""The recipes: their parts in docs/recipes.md, and the rows that the shop has for each."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.recipes import pages
from tests.recipes.catalogue import API_PAGE, DEPARTMENTS, PER_PAGE, Product, page_of, page_of_department
from tests.recipes.shop import Shop

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ("returning", "shapes", "inside", "values", "browser")
DOCUMENTS = [ROOT / "docs" / "recipes.md", *(ROOT / "docs" / "recipes" / f"{name}.md" for name in CHAPTERS)]
SPIDERS = ROOT / "tests" / "bench" / "spiders"
ADDRESS = "https://shop.example"
"""The address of the shop in the document and in the spiders."""

Row = dict[str, Any]
Rows = Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe by the name of its spider: its heading in the document, its dataDef, and the rows that the shop has."""

    name: str
    heading: str
    data_def: str
    rows_of: Callable[[Shop], Iterable[Row]]

    @property
    def section(self) -> str:
        text = "\n".join(document.read_text("utf-8") for document in DOCUMENTS)
        match = re.search(rf"^## {re.escape(self.heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert match, f"the recipes have no section {self.heading!r}"
        return match[1]

    def block(self, kind: str) -> str:
        """The only code block of this kind."""
        [text] = re.findall(rf"^```{kind}\n(.*?)^```$", self.section, re.MULTILINE | re.DOTALL)
        return str(text)

    def defs(self, origin: str) -> str:
        """The defs, with the address of a server of the tests."""
        return at_origin(self.block("yaml"), origin)

    @property
    def command(self) -> tuple[dict[str, str], list[str]]:
        """The environment variables and the arguments of the command that runs it."""
        words = shlex.split(self.block("sh"))
        start = words.index("crawl-console")
        return dict(word.split("=", 1) for word in words[:start]), words[start + 1 :]

    def spider(self, origin: str) -> str:
        """The source of the spider, with the address of a server of the tests."""
        return at_origin((SPIDERS / f"{self.name}.py").read_text("utf-8"), origin)

    def rows(self, shop: Shop) -> Rows:
        """The rows that the shop has, as texts."""
        return counted(self.rows_of(shop))


def at_origin(text: str, origin: str) -> str:
    """A text with another address in the place of the shop's."""
    host = re.sub(r"^https?://([^:/]+).*", r'"\1"', origin)
    return text.replace(ADDRESS, origin).replace("shop.example", host)


def counted(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Rows as texts, in any order."""
    return Counter(tuple(map(_cell, row.values())) for row in rows)


def _cell(value: Any) -> str:
    """A value as in a CSV file of crawl-console; amounts in an object may be texts, as Scrapy writes decimals."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "|".join(map(_cell, value))
    if isinstance(value, dict):
        return f'{{"amount":{value["amount"]},"currency":"{value["currency"]}"}}'
    return str(value)


# ── the rows of each recipe ──────────────────────────────────────────────────────────────────────────────────────────


def _goods(shop: Shop) -> Iterable[Product]:
    return map(Product, range(1, shop.size + 1))


def _listed(shop: Shop, size: int = PER_PAGE) -> Iterable[Product]:
    return (product for page in range(1, shop.size + 1) for product in page_of(page, size))


def _variants(shop: Shop) -> Iterable[Row]:
    for p in _goods(shop):
        for v in p.variants:
            yield {
                "brand": p.brand,
                "rating": p.rating,
                "code": v.code,
                "name": p.name,
                "size": v.size,
                "stock": v.stock,
                "price": v.price,
            }


def _items(shop: Shop) -> Iterable[Row]:
    for p in _listed(shop, API_PAGE):
        yield {
            "id": p.number,
            "name": p.name,
            "brand": p.brand,
            "price": p.price,
            "currency": "GBP",
            "colours": p.colours,
        }


def _nodes(shop: Shop) -> Iterable[Row]:
    for p in _listed(shop, API_PAGE):
        sizes = [variant.size for variant in p.variants]
        yield {"sku": p.sku, "name": p.name, "vendor": p.brand, "sizes": sizes, "price": p.variants[0].price}


def _articles(shop: Shop) -> Iterable[Row]:
    for p in _goods(shop):
        yield {
            "url": f"{shop.origin}/news/{p.number}",
            "title": f"{p.name} is here",
            "intro": f"Paragraph 0 about {p.name}.",
            "tags": p.colours,
            "author": p.brand or "The editors",
            "date": p.time.isoformat(),
        }


def _hits(shop: Shop) -> Iterable[Row]:
    for department in DEPARTMENTS:
        for page in range(1, shop.search_pages + 1):
            for p in page_of_department(department, page):
                yield {"sku": p.sku, "name": p.name, "url": shop.origin + pages.path(p), "price": p.price}


def _canonical(shop: Shop) -> Iterable[Row]:
    for p in _goods(shop):
        url = shop.origin + pages.path(p)
        yield {"url": url, "sku": p.sku, "name": p.name, "price": p.price, "inStock": p.in_stock}


def _embedded(shop: Shop) -> Iterable[Row]:
    for p in _goods(shop):
        images = [f"/i/{p.sku}-{colour}.jpg" for colour in p.colours]
        yield {
            "sku": p.sku,
            "name": p.name,
            "brand": p.brand,
            "price": p.price,
            "rating": p.rating,
            "images": images,
            "department": p.department,
        }


def _offers(shop: Shop) -> Iterable[Row]:
    for page in range(1, shop.size + 1):
        products = page_of(page)
        for p in products:
            yield {
                "sku": p.sku,
                "price": {"amount": p.price, "currency": "€"},
                "day": products[0].time.date().isoformat(),
                "tags": p.colours,
                "weight": p.weight,
                "inStock": p.in_stock,
            }


def _prices(shop: Shop) -> Iterable[Row]:
    """The rows of one run: after the prices were raised, those that are new."""
    for p in _listed(shop):
        if not shop.raised:
            yield {"sku": p.sku, "name": p.name, "price": p.price}
        elif pages.is_raised(p):
            yield {"sku": p.sku, "name": p.name, "price": p.price + Decimal(1)}


RECIPES = (
    Recipe("shop", "Shop with details", "variant", _variants),
    Recipe("cursor_api", "Cursor API", "item", _items),
    Recipe("graphql", "GraphQL", "product", _nodes),
    Recipe("feed", "Feed", "article", _articles),
    Recipe("search_form", "Search form", "hit", _hits),
    Recipe("sitemap", "Sitemap", "product", _canonical),
    Recipe("embedded_json", "Embedded JSON", "product", _embedded),
    Recipe("cleaning", "Cleaning numbers and dates", "offer", _offers),
    Recipe("price_watch", "Price watch", "price", _prices),
)
PRICE_WATCH = "price_watch"
"""The recipe of two runs, between which prices are raised."""
