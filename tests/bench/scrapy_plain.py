"""Scrapy as its users write it: every link of a page is followed, and Scrapy drops duplicates.

`scrapy runspider` runs the spider.
"""

from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Request, Response


class DocsSpider(scrapy.Spider):
    """Every page of a site: URL, title, headings."""

    name = "docs"
    custom_settings = {  # noqa: RUF012  # the type that Scrapy declares
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
    }

    def __init__(self, starts: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.start_urls = starts.split()
        self.allowed_domains = [url.split("/")[2].split(":")[0] for url in self.start_urls]

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "headings": "|".join(response.css("h2::text").getall()),
        }
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, callback=self.parse)
