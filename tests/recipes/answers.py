"""The answers of the recipes' shop that are not HTML: APIs, feed, sitemap."""

import base64
import json
import re
from email.utils import format_datetime
from html import escape
from typing import Any

from tests.recipes.catalogue import API_PAGE, Product, page_of
from tests.recipes.pages import path


def cursor_of(page: int) -> str:
    """An opaque cursor, with characters that a URL must escape."""
    return base64.b64encode(f"page={page}??>>".encode()).decode()


def page_of_cursor(cursor: str | None) -> int:
    """Raises ValueError for a cursor that the API never gave."""
    if cursor is None:
        return 1
    match = re.fullmatch(r"page=(\d+)\?\?>>", base64.b64decode(cursor, validate=True).decode())
    if match is None:
        raise ValueError(cursor)
    return int(match[1])


def items(page: int, pages: int) -> str:
    """A page of the JSON API. A price is an object, a brand may be null."""
    listed = [
        {
            "id": p.number,
            "name": p.name,
            "brand": None if p.brand is None else {"name": p.brand, "url": "/b"},
            "price": {"amount": str(p.price), "currency": "GBP"},
            "colours": p.colours,
        }
        for p in page_of(page, API_PAGE)
    ]
    return json.dumps({"items": listed, "paging": {"next": cursor_of(page + 1) if page < pages else None}})


def graphql(body: bytes, pages: int) -> str:
    """The answer to a query for products; an error as GraphQL has it for any other."""
    query = json.loads(body)
    first = re.search(r"\bproducts\(first: *(\d+), *after: *\$after\)", query.get("query", ""))
    if first is None or int(first[1]) != API_PAGE:
        return json.dumps({"data": None, "errors": [{"message": "unknown query"}]})
    page = page_of_cursor((query.get("variables") or {}).get("after"))
    nodes: list[dict[str, Any]] = [
        {
            "sku": p.sku,
            "name": p.name,
            "vendor": None if p.brand is None else {"name": p.brand},
            "variants": [{"size": v.size, "price": str(v.price)} for v in p.variants],
        }
        for p in page_of(page, API_PAGE)
    ]
    info = {"hasNextPage": page < pages, "endCursor": cursor_of(page + 1) if page < pages else None}
    return json.dumps({"data": {"products": {"nodes": nodes, "pageInfo": info}}})


def feed(origin: str, count: int) -> str:
    """An RSS feed with one item for each article."""
    entries = "".join(
        f"""<item><title>{escape(p.name)} &amp; more</title><link>{origin}/news/{p.number}</link>
  <guid isPermaLink="false">{p.sku}</guid><dc:creator>{escape(p.brand or "The editors")}</dc:creator>
  <pubDate>{format_datetime(p.time)}</pubDate></item>
"""
        for p in map(Product, range(1, count + 1))
    )
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>News</title><link>{origin}/</link>
{entries}</channel></rss>
"""


def sitemap(origin: str, count: int) -> str:
    """All products, each tenth a second time with a mark in its URL; and help pages."""
    urls = [path(product) for product in map(Product, range(1, count + 1))]
    urls += [f"{path(Product(number))}?ref=mail" for number in range(10, count + 1, 10)]
    urls += [f"/help/{number}" for number in range(1 + count // 10)]
    entries = "".join(f"<url><loc>{origin}{url}</loc><priority>0.5</priority></url>\n" for url in urls)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{entries}</urlset>\n"
    )
