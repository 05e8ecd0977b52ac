"""Scrapy with what its experts add by hand: a set of the URLs met, asked before a Request is made of a link.

As a program of its own it is measured; Scrapy runs the spider with `scrapy runspider`.
"""

import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Request, Response


class DocsSpider(scrapy.Spider):
    """Every page of a site: URL, title, headings."""

    name = "docs"
    custom_settings = {  # noqa: RUF012  # as Scrapy has it
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
    }

    def __init__(self, starts: str = "", **told: Any) -> None:
        super().__init__(**told)
        self.start_urls = starts.split()
        self.allowed_domains = [url.split("/")[2].split(":")[0] for url in self.start_urls]
        self.met = set(self.start_urls)

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "headings": "|".join(response.css("h2::text").getall()),
        }
        for href in response.css("a::attr(href)").getall():
            url = response.urljoin(href).partition("#")[0]
            if url not in self.met and url.endswith((".html", ".htm")):
                self.met.add(url)
                yield Request(url, callback=self.parse)


if __name__ == "__main__":
    from tests.bench.contest import SCRAPY_SEEN, alone

    sys.exit(alone(SCRAPY_SEEN))
