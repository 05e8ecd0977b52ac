"""The demo shop: its products, its pages, and the expected results of a crawl. Pure functions.

The shop has the usual difficulties of crawling: hrefs written in many ways, pages that moved or are gone, files that
are not pages, paths that robots.txt disallows, names in many scripts, and a price that is not a number.
"""

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from html import escape
from typing import Any
from urllib.parse import quote, unquote
from zlib import crc32

from msgspec import Struct

PER_PAGE = 20
"""Offers on one page of a category."""

CATEGORIES = (
    ("teapots", "Teapots", "Teapot"),
    ("cups-and-bowls", "Cups & Bowls", "Cup"),
    ("kettles", "Kettles", "Kettle"),
    ("thé", "Thé", "Oolong"),
    ("káva", "Káva", "Roast"),
    ("spoons", "Spoons", "Spoon"),
    ("trays", "Trays", "Tray"),
    ("書籍", "書籍 · Books", "Almanac"),
)
"""Path segment, title, and the name of one product of the category."""

MOVED = (3, 11)
"""Products linked only by an old path, which redirects permanently."""
UNPRICED = 5
"""The product whose price is a sentence."""
FREE_EVERY = 40
"""One product in this many is a free sample."""

_ADJECTIVES = ("Blue", "Smoky", "Café", "Black & White", "Žlutá", "Große", "京都", "Морской", "Señorial", "Plain")
_TAGS = ("gift", "handmade", "new", "last pieces", "für Büro", "夏")
_MAKERS = ("Bird & Sons", "Dílna Hůrka", "北窯", "Atelier Noël")
_MATERIALS = ("stoneware", "porcelain", "cast iron", "olive wood")
_REVIEWERS = ("Ana", "Božena", "陳", "D'Arcy", "<b>Eve</b>")
_REVIEW_TEXTS = ("Pours without a drip.", "Smaller than I thought & lovely.", "Broke after a week.", "很好。", "Fine.")

_ARTICLES = (
    ("how-long-to-steep", "How long to steep", "Iris Vale", "2024-02-11", "utf-8"),
    ("příběh-hrnku", "Příběh hrnku", "Jiří Dlouhý", "2024-03-05", "iso-8859-2"),
    ("water-is-half-of-it", "Water is half of it", "Iris Vale", "2024-04-19", "utf-8"),
    ("茶の時間", "茶の時間", "森 直子", "2024-06-30", "utf-8"),
    ("descaling-a-kettle", "Descaling a kettle", "Tom Åberg", "2024-09-02", "utf-8"),
    ("a-tray-for-two", "A tray for two", "Tom Åberg", "2025-01-17", "utf-8"),
)
"""Path segment, title, author, date, encoding."""
_STEEPING = (("Green", 75, 2), ("Oolong", 90, 4), ("Black", 95, 4), ("Herbal", 100, 7))

HTML = "text/html; charset=utf-8"
_GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
_ZIP = b"PK\x05\x06" + bytes(18)  # an empty archive
_MAX_SITEMAP_URLS = 50_000
_FOOTER = (
    '<footer><a href="/catalogue.zip">Catalogue to print</a><a href="/logo.gif">Logo</a>'
    '<a href="/spring-sale.html">Spring sale</a><a href="/summer-sale.html">Summer sale</a>'
    '<a href="https://partner.example/">Our friends</a><a href="mailto:shop@shop.example">Mail</a>'
    '<a href="javascript:window.print()">Print</a></footer>'
)


class Reply(Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = HTML
    location: str | None = None


class Product(Struct, frozen=True, kw_only=True):
    """A product. All its attributes follow from its number, which counts from 1."""

    number: int
    name: str
    path: str
    """The path of its page, not percent-encoded."""
    price: str
    pieces: int
    seed: int
    """A pseudo-random number that the other attributes are derived from."""

    @property
    def sku(self) -> str:
        """The id of the product, which identifies its rows."""
        return f"S-{self.number:05d}"

    @property
    def link_path(self) -> str:
        """The path that pages link to: of a moved product, the old one."""
        return f"/p/{self.number}" if self.number in MOVED else self.path


def product(number: int) -> Product:
    dice = crc32(b"%d" % (number * 7919))
    adjective = _ADJECTIVES[dice % len(_ADJECTIVES)]
    thing = CATEGORIES[(number - 1) % len(CATEGORIES)][2]
    slug = adjective.lower().replace(" & ", "-")
    price = "£0.00" if number % FREE_EVERY == 0 else f"£{2 + dice % 140}.{dice // 140 % 100:02d}"
    return Product(
        number=number,
        name=f"{adjective} {thing} {number}",
        path=f"/product/{slug}-{thing.lower()}-{number}.html",
        price="Price on request" if number == UNPRICED else price,
        pieces=dice // 7 % 30 if dice % 5 else 0,
        seed=dice,
    )


def category_products(category: int, pages: int) -> range:
    """The numbers of a category's products (by its index in CATEGORIES), in a shop of `pages` products."""
    return range(category + 1, pages + 1, len(CATEGORIES))


def list_page_count(category: int, pages: int) -> int:
    """How many list pages a category has; one at least."""
    return max(1, -(-len(category_products(category, pages)) // PER_PAGE))


def expected_results(pages: int) -> dict[str, Any]:
    """The results of a crawl with the demo's defs, in a shop of `pages` products, with any latency and errors.

    `jobs` by state, `skipped` by reason, `rows` and `rejected` by dataDef.
    """
    lists = sum(list_page_count(category, pages) for category in range(len(CATEGORIES)))
    skipped = {
        "HTTP 404 (gone)": 1 + len(CATEGORIES),
        "HTTP 410 (gone)": 1,
        "not a page: application/zip": 1,
        "not a page: image/gif": 1,
        "robots.txt disallows it": 2,
    }
    plain = len(("/", "/about.html", "/contact.html", "/help/delivery.html", "/articles"))
    unpriced = int(pages >= UNPRICED)
    return {
        "jobs": {
            "done": plain + lists + pages + len(_ARTICLES), "failed": 0, "skipped": sum(skipped.values()),
            "incomplete": 0, "ready": 0, "taken": 0,
        },
        "skipped": skipped,
        "rows": {
            "article": len(_ARTICLES),
            "offer": pages - pages // FREE_EVERY,
            "product": pages - unpriced,
            "spec": 4 * pages,
            "steeping": sum(_steeping_count(index) for index in range(len(_ARTICLES))),
        },
        "rejected": {"product": 1} if unpriced else {},
    }  # fmt: skip


class Shop:
    """The site; each page is rendered when it is requested."""

    def __init__(self, pages: int, origin: str) -> None:
        """`pages`: the number of products. `origin`: `http://127.0.0.1:8080`, for absolute hrefs."""
        self._pages = pages
        self._origin = origin
        self._navigation_html = _navigation(origin)
        self._routes: dict[str, Callable[[], Reply]] = {
            "/": self._home,
            "/about.html": self._about,
            "/contact.html": partial(self._page, "Contact", "<p>Write to us: a pigeon will do.</p>"),
            "/help/delivery.html": partial(self._page, "Delivery", "<p>Two days, three with snow.</p>"),
            "/articles": partial(Reply, 301, b"", location="/articles/"),
            "/articles/": self._articles,
            "/robots.txt": self._robots,
            "/sitemap.xml": self._sitemap,
            "/catalogue.zip": partial(Reply, 200, _ZIP, "application/zip"),
            "/logo.gif": partial(Reply, 200, _GIF, "image/gif"),
            "/summer-sale.html": partial(self._page, "The summer is over", "", status=410),
            # A crawl must not fetch these: links to them are denied, marked nofollow, or disallowed by robots.txt.
            **dict.fromkeys(("/admin/", "/cart", "/login", "/wishlist"), partial(self._page, "Staff only", "")),
            **{_article_path(index): partial(self._article, index) for index in range(len(_ARTICLES))},
            **{
                f"/catalogue/{slug}/{f'page-{page}.html' if page > 1 else ''}": partial(self._list, category, page)
                for category, (slug, _, _) in enumerate(CATEGORIES)
                for page in range(1, list_page_count(category, pages) + 1)
            },
        }

    def reply(self, target: str) -> Reply:
        """The response to a GET of `target`: a percent-encoded path, with or without a query."""
        path = unquote(target.partition("?")[0])
        if (fixed := self._routes.get(path)) is not None:
            return fixed()
        section, _, rest = path[1:].partition("/")
        if section == "product":
            number = _parse_number(rest.rpartition("-")[2].removesuffix(".html"))
            if 1 <= number <= self._pages and (item := product(number)).path == path:
                return self._product(item)
        elif section == "p" and (number := _parse_number(rest)) in MOVED and number <= self._pages:
            return Reply(301, b"", location=quote(product(number).path))
        return self._page("Nothing here", "<p>We looked everywhere.</p>", status=404)

    def _page(self, title: str, main: str, *, status: int = 200, base: str = "", encoding: str = "utf-8") -> Reply:
        head = f'<base href="{base}">' if base else ""
        text = (
            f'<!doctype html><html lang="en"><head><meta charset="{encoding}">{head}<title>{escape(title)}</title>'
            f"</head><body>{self._navigation_html}<main><h1>{escape(title)}</h1>{main}</main>{_FOOTER}</body></html>"
        )
        body = text.encode(encoding, "xmlcharrefreplace")
        return Reply(status, body, HTML if encoding == "utf-8" else "text/html")

    def _home(self) -> Reply:
        featured = "".join(self._link(product(n), "product/") for n in range(1, min(4, self._pages) + 1))
        text = '<p>Tea things since 1912. <a href="about.html">Who we are</a>.</p>'
        return self._page("The Kettle & Leaf", f'{text}<div class="featured">{featured}</div>')

    def _about(self) -> Reply:
        """All hrefs of this page are relative to its `<base>`."""
        text = '<p>See <a href="delivery.html">delivery</a>, or <a href="../contact.html">ask</a>.</p>'
        return self._page("About us", text, base="/help/")

    def _list(self, category: int, page: int) -> Reply:
        slug, title, thing = CATEGORIES[category]
        shown = category_products(category, self._pages)[(page - 1) * PER_PAGE : page * PER_PAGE]
        offers = "".join(map(self._offer, map(product, shown)))
        pager = f'<li class="previous"><a href="{f"page-{page - 1}.html" if page > 2 else "."}">back</a></li>'
        if page < list_page_count(category, self._pages):
            pager += f'<li class="next"><a href="page-{page + 1}.html">more</a></li>'
        gone = f'<aside><a href="../../product/discontinued-{thing.lower()}.html">No longer made</a></aside>'
        return self._page(
            title,
            f'<p class="sort"><a href="/catalogue/{slug}/?sort=price">by price</a></p><ol class="offers">{offers}</ol>'
            f'{gone if page == 1 else ""}<ul class="pager">{pager}</ul>',
        )

    def _offer(self, item: Product) -> str:
        return (
            f'<li class="offer" data-sku="{item.sku}"><h3>{self._link(item, "../../product/")}</h3>'
            f'<p class="price">{item.price}</p><p class="stock">{_stock_text(item)}</p>'
            f'<a class="compare" href="{item.path}?compare=1">Compare</a></li>'
        )

    def _link(self, item: Product, folder: str) -> str:
        """A link to a product: absolute, without scheme, from the root or from the page, depending on its number."""
        address = item.link_path
        if address == item.path:
            style = item.number % 4
            if style == 0:
                address = self._origin + address
            elif style == 1:
                address = self._origin.partition(":")[2] + address
            elif style == 2:
                address = folder + address.removeprefix("/product/") + "#reviews"
        return f'<a href="{address}" title="{escape(item.name)}">{escape(item.name)}</a>'

    def _product(self, item: Product) -> Reply:
        dice = item.seed
        since = date(2019, 1, 1) + timedelta(days=dice % 2000)
        tags = "".join(f"<li>{tag}</li>" for index, tag in enumerate(_TAGS) if dice >> index & 1)
        stars = 1 + dice % 9 / 2
        material, maker = _MATERIALS[dice // 3 % 4], escape(_MAKERS[dice // 5 % 4])
        width = 8 + dice % 40
        reviews = "".join(_review(dice // 11 + n * 7919, since) for n in range(dice // 13 % 4))
        others = (item.number % self._pages + 1, (item.number + 7) % self._pages + 1)
        related = "".join(self._link(product(number), "../product/") for number in others)
        return self._page(
            item.name,
            f'<p class="sku">{item.sku}</p><p class="price">{item.price}</p><p class="stock">{_stock_text(item)}</p>'
            f'<p class="rating" data-stars="{stars:g}">{"★" * int(stars)}</p>'
            f'<p class="released">On sale since {since.day} {since:%B %Y}</p>'
            f'<p class="photo"><img src="../logo.gif?of={item.number}" alt=""></p><ul class="tags">{tags}</ul>'
            f'<div class="text"><p>In {material}, for slow mornings.</p><p>Made by {maker}.</p></div>'
            f'<table class="specs"><tr><th>Material</th><td>{material}</td></tr><tr><th>Maker</th><td>{maker}</td></tr>'
            f"<tr><th>Width</th><td>{width} cm</td></tr><tr><th>Weight</th><td>{width * 31} g</td></tr></table>"
            f'<section class="reviews">{reviews}</section><aside class="related">{related}</aside>'
            f'<p><a href="/wishlist?add={item.sku}" rel="nofollow">Wish for it</a></p>',
        )

    def _articles(self) -> Reply:
        items = "".join(f'<li><a href="archive/{slug}.html">{escape(title)}</a></li>' for slug, title, *_ in _ARTICLES)
        return self._page("Articles", f'<ul class="archive">{items}</ul>')

    def _article(self, index: int) -> Reply:
        _, title, author, day, encoding = _ARTICLES[index]
        rows = "".join(
            f"<tr><td>{tea}</td><td>{heat} °C</td><td>{minutes} min</td></tr>"
            for tea, heat, minutes in _STEEPING[: _steeping_count(index)]
        )
        other = _ARTICLES[(index + 1) % len(_ARTICLES)][0]
        mentioned = product(min(index + 1, self._pages)).link_path
        return self._page(
            title,
            f'<article><p class="by"><a rel="author">{author}</a>, <time datetime="{day}">{day}</time></p>'
            f'<p>Every leaf has its hour.</p><p>This one goes with <a href="../..{mentioned}">a thing we sell</a>.</p>'
            f'<table class="steeping"><tr><th>Tea</th><th>Water</th><th>Time</th></tr>{rows}</table></article>'
            f'<p class="next"><a href="../archive/./{other}.html">Read on</a></p>',
            encoding=encoding,
        )

    def _robots(self) -> Reply:
        text = f"User-agent: *\nDisallow: /admin/\nDisallow: /cart\nSitemap: {self._origin}/sitemap.xml\n"
        return Reply(200, text.encode(), "text/plain; charset=utf-8")

    def _sitemap(self) -> Reply:
        """Every page that a crawl should find, up to the size limit of a sitemap."""
        paths = ["/", "/articles/", *map(_article_path, range(len(_ARTICLES)))]
        paths += [f"/catalogue/{slug}/" for slug, _, _ in CATEGORIES]
        paths += [product(number).path for number in range(1, min(self._pages, _MAX_SITEMAP_URLS - len(paths)) + 1)]
        urls = "".join(f"<url><loc>{self._origin}{quote(path)}</loc></url>" for path in paths)
        text = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        return Reply(200, text.encode(), "application/xml")


def _navigation(origin: str) -> str:
    links = "".join(
        f'<a href="{origin if index % 2 else ""}/catalogue/{slug}/">{escape(title)}</a>'
        for index, (slug, title, _) in enumerate(CATEGORIES)
    )
    return (
        f'<nav class="categories">{links}</nav><nav class="site"><a href="/">Home</a><a href="/articles">Articles</a>'
        '<a href=" /about.html ">About</a><a href="/contact.html#form">Contact</a><a href="/cart?add=1">Cart</a>'
        '<a href="/admin/">Staff</a><a href="/login?to=/">Log in</a><a href="/wishlist" rel="nofollow">Wishes</a></nav>'
    )


def _stock_text(item: Product) -> str:
    return f"In stock ({item.pieces})" if item.pieces else "Sold out"


def _review(dice: int, since: date) -> str:
    day = since + timedelta(days=30 + dice % 300)
    return (
        f'<article class="review" data-stars="{1 + dice % 5}"><b class="author">{escape(_REVIEWERS[dice % 5])}</b>'
        f'<time datetime="{day}">{day:%d/%m}</time><p class="said">{escape(_REVIEW_TEXTS[dice // 5 % 5])}</p></article>'
    )


def _article_path(index: int) -> str:
    return f"/articles/archive/{_ARTICLES[index][0]}.html"


def _steeping_count(index: int) -> int:
    return 2 + index % 3


def _parse_number(text: str) -> int:
    """The canonical number in a path, else 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 and text[0] != "0" else 0
