"""The site of the recipes: a shop with pages, forms, APIs, a feed and a sitemap, of any size."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from tests.process.site import Page, Request, Site
from tests.recipes import answers, pages
from tests.recipes.catalogue import DEPARTMENTS, PER_PAGE, Product, page_of, page_of_department

JSON = "application/json"
API_KEY = "k-42"


class Shop:
    """Answers the requests of a site; each recipe fetches about `size` pages of it.

    `raised` changes the prices between two runs of the price watch.
    """

    def __init__(self, site: Site, size: int) -> None:
        self.size = size
        self.raised = False
        self.origin = site.url("")
        site.fallback = self.answer

    def answer(self, request: Request) -> Page:
        """The answer to one request; an address that the shop does not have is a 404."""
        url = urlsplit(request.path)
        if request.method == "POST":
            return self._posted(url.path, request.body)
        if url.path == "/api/items" and request.headers.get("x-api-key") != API_KEY:
            return Page("an API key is needed", 401)
        return self._page(url.path, url.query, self.raised)

    @property
    def search_pages(self) -> int:
        """Pages of results in each department."""
        return max(2, self.size // len(DEPARTMENTS))

    @property
    def list_pages(self) -> int:
        """Pages of a list that leads to `size` products, which fill all but its last page."""
        return -(-self.size // PER_PAGE)

    def listed(self, page: int) -> list[Product]:
        return [product for product in page_of(page) if product.number <= self.size]

    def _page(self, path: str, query: str, raised: bool) -> Page:
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        number = int(fields.get("page", "1")) if fields.get("page", "1").isdigit() else 0
        if product := re.fullmatch(r"/p/(tea|cof|coc)-(\d{5})", path):
            found = Product(int(product[2]))
            known = path == pages.path(found) and 1 <= found.number <= self.size
            return _html(pages.detail(found, self.origin)) if known else _MISSING
        if entry := re.fullmatch(r"/news/(\d+)", path):
            return _html(pages.article(Product(int(entry[1]))))
        if re.fullmatch(r"/help/\d+", path):
            return _html(pages.document("Help", "<h1>Help</h1><p>Ask us.</p>"))
        lists: dict[str, Callable[[], Page]] = {
            "/shelf": lambda: _html(pages.shelf(self.listed(number), self._next(path, number, self.list_pages))),
            "/deals": lambda: _html(pages.deals(self.listed(number), self._next(path, number, self.list_pages))),
            "/offers": lambda: _html(pages.offers(page_of(number), self._following(number))),
            "/prices": lambda: _html(pages.prices(page_of(number) if number <= self.size else [], raised)),
            "/search": lambda: _html(pages.search_form(fields["in"], _token(fields["in"]))),
            "/results": lambda: self._results(fields["in"], number),
            "/api/items": lambda: _typed(answers.items(answers.page_of_cursor(fields.get("cursor")), self.size), JSON),
            "/news.rss": lambda: _typed(answers.feed(self.origin, self.size), "application/rss+xml"),
            "/sitemap.xml": lambda: _typed(answers.sitemap(self.origin, self.size), "application/xml"),
        }
        return lists[path]() if path in lists else _MISSING

    def _posted(self, path: str, body: bytes) -> Page:
        if path == "/graphql":
            return _typed(answers.graphql(body, self.size), JSON)
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        department = fields.get("department", "")
        if path != "/results" or fields.get("token") != _token(department) or fields.get("q") != "organic":
            return Page("the form was not sent as it is", 400)
        return self._results(department, 1)

    def _results(self, department: str, page: int) -> Page:
        following = f"/results?in={department}&page={page + 1}" if page < self.search_pages else None
        return _html(pages.results(page_of_department(department, page), following))

    def _following(self, page: int) -> range:
        """The pages after a page of the offers that it has links to."""
        return range(page + 1, min(page + 5, self.size) + 1)

    @staticmethod
    def _next(path: str, page: int, last: int) -> str | None:
        return f"{path}?page={page + 1}" if page < last else None


_MISSING = Page("nothing here", 404)


def _token(department: str) -> str:
    return f"t-{department}-7f3a"


def _html(text: str) -> Page:
    return Page(text)


def _typed(text: str, content_type: str) -> Page:
    return Page(text, headers={"Content-Type": content_type})
