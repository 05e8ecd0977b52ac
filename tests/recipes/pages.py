"""The HTML pages of the recipes' shop."""

import json
from html import escape

from tests.recipes.catalogue import Product, german

_ICON = '<svg class="icon" width="16" height="16" viewBox="0 0 16 16"><path d="M2 2 L14 8 L2 14 Z"></path></svg>'
_NAV = "".join(
    f'<li class="menu-item level-1"><a href="/help/{n}">{_ICON} Department {n}</a><ul class="submenu">'
    + "".join(
        f'<li class="menu-item level-2"><a class="menu-link" href="/help/{n}-{m}" data-track="menu">Kind {m}</a></li>'
        for m in range(10)
    )
    + "</ul></li>"
    for n in range(14)
)
_FOOT = "".join(
    f'<div class="column"><h4>Column {n}</h4><ul>'
    + "".join(f'<li><a href="/help/{n}{m}">Imprint, terms, delivery, part {m}</a></li>' for m in range(6))
    + "</ul></div>"
    for n in range(8)
)


def document(title: str, body: str, head: str = "") -> str:
    """A page with the header and the footer of the shop."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)} – Shop</title>{head}</head>
<body>
<header><a href="/">Shop</a><nav><ul>{_NAV}</ul></nav></header>
<main>
{body}
</main>
<footer>{_FOOT}</footer>
</body></html>
"""


def next_link(url: str | None) -> str:
    return "" if url is None else f'<p class="pages"><a class="next" rel="next" href="{escape(url)}">Next page</a></p>'


def shelf(products: list[Product], following: str | None) -> str:
    """A list of cards whose links carry marks of a campaign, a second one for the picture."""
    cards = "".join(
        f"""<article class="card" data-sku="{p.sku}">
  <a class="picture" href="{path(p)}?utm_source=shelf&amp;utm_medium=picture"><img src="/i/{p.sku}.jpg" alt=""></a>
  <h3><a href="{path(p)}?utm_source=shelf&amp;utm_medium=title">{escape(p.name)}</a></h3>
  {"" if p.brand is None else f'<span class="brand">{chr(10)}    {escape(p.brand)}{chr(10)}  </span>'}
  <p>from <b>{p.price}</b> £ <span class="rating" data-stars="{p.rating}"></span></p>
</article>
"""
        for p in products
    )
    return document("All goods", f"<h1>All goods</h1>{cards}{next_link(following)}")


def path(product: Product) -> str:
    return f"/p/{product.sku.lower()}"


def detail(product: Product, origin: str) -> str:
    """A product with its variants as a table, and the same as JSON-LD."""
    first, _, rest = product.name.partition(" ")
    rows = "".join(
        f"""<tr class="variant"><td class="code">{v.code}</td><td class="size">{v.size}</td>
  <td class="price">£{v.price:,}</td>{f'<td class="stock">{v.stock} left</td>' if v.stock is not None else ""}</tr>
"""
        for v in product.variants
    )
    text = "".join(f"<p>{escape(product.name)} is grown in high gardens, part {n} of its story.</p>" for n in range(20))
    head = f'<link rel="canonical" href="{origin}{path(product)}">{_json_ld(product)}'
    body = f"""<h1>{escape(first)}
   <em>{escape(rest)}</em></h1>
<p class="sku">{product.sku}</p><p class="price">£{product.price:,}</p>
<p class="stock">{"In stock" if product.in_stock else "Sold out"}</p>
<table class="variants"><tr><th>Code</th><th>Size</th><th>Price</th><th>Stock</th></tr>
{rows}</table>
<section class="story">{text}</section>"""
    return document(product.name, body, head)


def _json_ld(product: Product) -> str:
    crumbs = {
        "@type": "BreadcrumbList",
        "itemListElement": [
            {"@type": "ListItem", "position": 1, "name": "Shop"},
            {"@type": "ListItem", "position": 2, "name": product.department},
        ],
    }
    goods = {
        "@type": "Product",
        "sku": product.sku,
        "name": product.name,
        "image": [f"/i/{product.sku}-{colour}.jpg" for colour in product.colours],
        "offers": {"@type": "Offer", "price": str(product.price), "priceCurrency": "GBP"},
        "aggregateRating": {"@type": "AggregateRating", "ratingValue": str(product.rating)},
    }
    if product.brand is not None:
        goods["brand"] = {"@type": "Brand", "name": product.brand}
    blocks = [{"@context": "https://schema.org", "@graph": [crumbs, goods]}, {"@type": "Organization", "name": "Shop"}]
    return "".join(f'<script type="application/ld+json">{json.dumps(block)}</script>' for block in blocks)


def deals(products: list[Product], following: str | None) -> str:
    """A list that is drawn by a script from the JSON in the page."""
    goods = [{"sku": p.sku, "url": path(p), "labels": ["deal", p.department]} for p in products]
    data = {"props": {"pageProps": {"products": goods, "next": following}}, "page": "/deals", "buildId": "a1b2"}
    script = f'<script id="__NEXT_DATA__" type="application/json">{json.dumps(data)}</script>'
    return document("Deals", f'<div id="__next"></div>{script}')


def offers(products: list[Product], following: range) -> str:
    """A list in German, with numbers and dates as people write them, and links to the following pages."""
    rows = "".join(
        f"""<li class="offer"><h3>{escape(p.name)}</h3> <p class="sku">Art.-Nr. {p.sku}</p>
  <p class="price">nur {german(p.price)} €</p> <p class="weight">{german(p.weight)} kg</p>
  <p class="tags">{", ".join(p.colours)}</p> <p class="stock">{"auf Lager" if p.in_stock else "ausverkauft"}</p></li>
"""
        for p in products
    )
    numbers = " ".join(f'<a href="/offers?page={number}">{number}</a>' for number in following)
    heading = f"<h1>Angebote</h1><p>Stand: <time>{products[0].german_day}</time></p>"
    return document("Angebote", f'{heading}<ul>{rows}</ul><nav class="pages">Seite {numbers}</nav>')


def is_raised(product: Product) -> bool:
    """Whether its price rises between two runs of the price watch."""
    return product.number % 10 == 0


def prices(products: list[Product], raised: bool) -> str:
    """A list of prices; `raised`: some are a pound higher."""
    rows = "".join(
        f'<tr class="price"><td class="sku">{p.sku}</td><td class="name">{escape(p.name)}</td>'
        f'<td class="amount">£{p.price + (raised and is_raised(p)):,}</td></tr>\n'
        for p in products
    )
    return document("Prices", f"<table>{rows}</table>")


def search_form(department: str, token: str) -> str:
    form = f"""<form class="search" method="post" action="/results">
  <input type="hidden" name="token" value="{token}">
  <input type="hidden" name="department" value="{department}">
  <input type="text" name="q" value="">
  <button type="submit">Search</button>
</form>"""
    return document("Search", f'<form class="login" action="/login"><input name="user"></form>{form}')


def results(products: list[Product], following: str | None) -> str:
    rows = "".join(
        f"""<div class="hit"><a href="{path(p)}">{escape(p.name)}</a>
  <span class="sku">{p.sku}</span> <span class="price">£{p.price:,}</span></div>
"""
        for p in products
    )
    return document("Results", f"<h1>Results</h1>{rows}{next_link(following)}")


def article(product: Product) -> str:
    text = "".join(f"<p>Paragraph {n} about {escape(product.name)}.</p>\n" for n in range(30))
    tags = "".join(f'<li><a rel="tag" href="/tag/{colour}">{colour}</a></li>' for colour in product.colours)
    return document(
        product.name, f'<article><h1>{escape(product.name)}\n is here</h1><div class="text">{text}</div>'
        f'<ul class="tags">{tags}</ul></article>'
    )  # fmt: skip
