"""The recipes for customers and for later runs: those that have no spider beside them, and the rows of each."""

import hashlib
import json
from collections.abc import Iterable

from tests.recipes.catalogue import Product
from tests.recipes.members import MemberShop, manual, manual_of
from tests.recipes.recipes import Recipe, Row
from tests.recipes.shop import Shop

CHANGED = (2, 3)
"""The products whose price is raised between two runs."""


def _orders(shop: Shop) -> Iterable[Row]:
    for p in map(Product, range(1, shop.size + 1)):
        yield {"number": p.number, "day": p.time.date(), "total": p.price}


def _stock(shop: Shop) -> Iterable[Row]:
    for p in map(Product, range(1, shop.size + 1)):
        yield {"sku": p.sku, "left": p.variants[0].stock}


def _today(shop: Shop) -> Iterable[Row]:
    assert isinstance(shop, MemberShop)
    for p in map(Product, range(1, shop.size + 1)):
        yield {"sku": p.sku, "name": p.name, "price": shop.price(p)}


def _manuals(shop: Shop) -> Iterable[Row]:
    for p in map(Product, range(1, shop.size + 1)):
        content = manual(int(manual_of(p.number).removeprefix("manual-")))
        digest = hashlib.sha256(content).hexdigest()
        name = f"{manual_of(p.number)}.pdf"
        stored = {
            "path": f"files/{digest}.pdf", "size": len(content), "hash": digest, "type": "application/pdf",
            "name": name, "url": f"{shop.origin}/files/{name}",
        }  # fmt: skip
        yield {"sku": p.sku, "file": json.dumps(stored, separators=(",", ":"))}


LOGIN = Recipe("login", "Login", "order", _orders)
TOKEN_API = Recipe("token_api", "Token API", "stock", _stock)
DAILY = Recipe("daily", "Daily incremental crawl", "product", _today)
CHANGES = Recipe("changes", "Changes only", "product", _today)
FILES = Recipe("files", "File downloads", "manual", _manuals)
MEMBER_RECIPES = (LOGIN, TOKEN_API, DAILY, CHANGES, FILES)
