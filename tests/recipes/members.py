"""The part of the recipes' shop for customers: a login, an API with a token, pages with versions, and files."""

import json
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs, urlsplit

from tests.process.site import Page, Request, Site, redirect
from tests.recipes import pages
from tests.recipes.catalogue import Product
from tests.recipes.shop import Shop

USER, PASSWORD = "anna@shop.example", "correct horse & battery"
TOKEN = "q7-token-42"
_PER_PAGE = 10
_FIRST_CHANGE = datetime(2026, 1, 5, 6, 30, tzinfo=UTC).timestamp()


class MemberShop(Shop):
    """Answers like a shop whose customers log in. `change` raises the price of some products."""

    def __init__(self, site: Site, size: int) -> None:
        super().__init__(site, size)
        self._lock = threading.Lock()
        self._sessions: dict[str, bool] = {}
        """By id, whether it is logged in."""
        self.changed: dict[int, float] = {}
        """When each product changed, by number."""
        self.removed: set[int] = set()
        """Products whose pages are gone; the sitemap still names them."""

    def change(self, *numbers: int) -> None:
        """Raise the price of these products now."""
        self.changed.update(dict.fromkeys(numbers, time.time()))

    def answer(self, request: Request) -> Page:
        url = urlsplit(request.path)
        fields = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path.split("/")[1:]:
            case ["login"]:
                return self._log_in(request)
            case ["account"]:
                return Page(pages.document("Welcome", '<a class="logout" href="/logout">Log out</a>'))
            case ["account", "orders"]:
                return self._orders(request, int(fields.get("page", "1")))
            case ["api", "stock"]:
                return self._stock(request, int(fields.get("page", "1")))
            case ["daily.xml"]:
                return Page(self._sitemap(), headers={"Content-Type": "application/xml"})
            case ["d", number] if number.isdigit():
                return self._product(request, int(number))
            case ["manuals"]:
                return Page(self._manuals(int(fields.get("page", "1"))))
            case ["files", name]:
                return self._file(name)
        return super().answer(request)

    def price(self, product: Product) -> Decimal:
        """Today's price."""
        return product.price + Decimal(1 if product.number in self.changed else 0)

    @property
    def numbers(self) -> range:
        return range(1, self.size + 1)

    def _log_in(self, request: Request) -> Page:
        session = _session_of(request)
        if request.method == "GET":
            session = f"s-{time.time_ns()}"
            with self._lock:
                self._sessions[session] = False
            return _with_session(Page(pages.document("Log in", _login_form(session))), session)
        fields = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        with self._lock:
            known = session in self._sessions
        right = (fields.get("user"), fields.get("password"), fields.get("csrf")) == (USER, PASSWORD, f"c-{session}")
        if not known or not right:
            return Page(pages.document("Log in", "<p>Try again.</p>" + _login_form(session)))
        new = f"m-{time.time_ns()}"
        with self._lock:
            self._sessions[new] = True
        return _with_session(redirect("/account"), new)

    def _orders(self, request: Request, page: int) -> Page:
        with self._lock:
            logged_in = self._sessions.get(_session_of(request), False)
        if not logged_in:
            return redirect("/login")
        numbers = [n for n in self.numbers if (n - 1) // _PER_PAGE == page - 1]
        rows = "".join(
            f'<tr class="order"><td class="number">{n}</td><td class="day">{Product(n).time.date()}</td>'
            f'<td class="total">{Product(n).price}</td></tr>'
            for n in numbers
        )
        following = f"/account/orders?page={page + 1}" if page * _PER_PAGE < self.size else None
        body = f'<a class="logout" href="/logout">Log out</a><table>{rows}</table>{pages.next_link(following)}'
        return Page(pages.document("Your orders", body))

    def _stock(self, request: Request, page: int) -> Page:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Page('{"error": "a token is needed"}', 401, headers={"Content-Type": "application/json"})
        numbers = [n for n in self.numbers if (n - 1) // _PER_PAGE == page - 1]
        items = [{"sku": Product(n).sku, "left": Product(n).variants[0].stock} for n in numbers]
        return Page(json.dumps({"items": items}), headers={"Content-Type": "application/json"})

    def _sitemap(self) -> str:
        entries = "".join(
            f"<url><loc>{self.origin}/d/{n}</loc><lastmod>{_w3c(self.changed.get(n, _FIRST_CHANGE))}</lastmod></url>"
            for n in self.numbers
        )
        return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'

    def _product(self, request: Request, number: int) -> Page:
        if number not in self.numbers or number in self.removed:
            return Page("nothing here", 404)
        product = Product(number)
        etag = f'"{number}-{self.price(product)}"'
        if request.headers.get("if-none-match") == etag:
            return Page(status=304, headers={"ETag": etag})
        body = (
            f"<h1>{escape(product.name)}</h1><p class=sku>{product.sku}</p><p class=price>£{self.price(product):,}</p>"
        )
        return Page(pages.document(product.name, body), headers={"ETag": etag})

    def _manuals(self, page: int) -> str:
        numbers = [n for n in self.numbers if (n - 1) // _PER_PAGE == page - 1]
        rows = "".join(
            f'<li class="manual"><b class="sku">{Product(n).sku}</b> <a href="/files/{manual_of(n)}.pdf">Manual</a>'
            for n in numbers
        )
        following = f"/manuals?page={page + 1}" if page * _PER_PAGE < self.size else None
        return pages.document("Manuals", f"<ul>{rows}</ul>{pages.next_link(following)}")

    def _file(self, name: str) -> Page:
        number = name.removesuffix(".pdf").removeprefix("manual-")
        if not number.isdigit():
            return Page("nothing here", 404)
        return Page(manual(int(number)), headers={"Content-Type": "application/pdf"})


def manual_of(number: int) -> str:
    """The name of the manual of a product: three products share one."""
    return f"manual-{number // 3}"


def manual(number: int) -> bytes:
    """The bytes of a manual."""
    return b"%PDF-1.4\n" + f"manual {number}\n".encode() * 200


def _login_form(session: str) -> str:
    return (
        '<form action="/search"><input name="q"></form>'
        f'<form class="login" method="post" action="/login"><input type="hidden" name="csrf" value="c-{session}">'
        '<input name="user"><input type="password" name="password"><button>Log in</button></form>'
    )


def _session_of(request: Request) -> str:
    cookies = dict(pair.strip().partition("=")[::2] for pair in request.headers.get("cookie", "").split(";"))
    return cookies.get("session", "")


def _with_session(page: Page, session: str) -> Page:
    headers = {**page.headers, "Set-Cookie": f"session={session}; Path=/; HttpOnly"}
    return Page(page.body, page.status, headers)


def _w3c(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
