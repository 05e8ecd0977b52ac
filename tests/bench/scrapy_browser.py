"""The spider that a user of scrapy-playwright writes for a site whose rows come by script."""

from collections.abc import AsyncIterator
from typing import Any

import scrapy
from scrapy_playwright.page import PageMethod


class ScriptedSpider(scrapy.Spider):
    """Pages `/s/0` to `/s/N-1`; of each the items that its script writes."""

    name = "scripted"

    def __init__(self, origin: str, pages: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._origin = origin
        self._pages = int(pages)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for number in range(self._pages):
            meta = {"playwright": True, "playwright_page_methods": [PageMethod("wait_for_selector", ".item")]}
            yield scrapy.Request(f"{self._origin}/s/{number}", meta=meta)

    def parse(self, response: scrapy.http.Response) -> Any:
        for item in response.css(".item"):
            yield {"url": response.url, "name": item.css("b::text").get(), "price": item.css("i::text").get()}
