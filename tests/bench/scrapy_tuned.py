"""Scrapy with everything off that can be: no middleware, no extension, no statistics, no asyncio; one walk of lxml.

It keeps rows, written by the spider itself, and nothing else. `scrapy runspider` runs the spider.
"""

import csv
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import scrapy
from lxml.html import HtmlElement, HTMLParser, document_fromstring
from scrapy.http import Request, Response


class DocsSpider(scrapy.Spider):
    """Every page of a site: URL, title, headings."""

    name = "docs"
    custom_settings = {  # noqa: RUF012  # the type that Scrapy declares
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "CONCURRENT_ITEMS": 1,  # as many tasks are made for each page
        "DOWNLOAD_DELAY": 0,
        "LOG_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",  # the spider has its own seen-set
        "DOWNLOADER_MIDDLEWARES_BASE": {},
        "SPIDER_MIDDLEWARES_BASE": {},
        "EXTENSIONS_BASE": {},
    }

    def __init__(self, starts: str = "", rows: str = "", **options: Any) -> None:
        """`rows`: the CSV file."""
        super().__init__(**options)
        self.start_urls = starts.split()
        self.hosts = {urlsplit(url).netloc for url in self.start_urls}
        self.seen = set(self.start_urls)
        self.file = open(rows, "w", newline="", encoding="utf-8")  # noqa: SIM115  # until the spider is closed
        self.rows = csv.writer(self.file)
        self.rows.writerow(("url", "title", "headings"))
        self.parser = HTMLParser(encoding="utf-8")

    def closed(self, _reason: str) -> None:
        self.file.close()

    def parse(self, response: Response) -> Iterator[Request]:
        if response.status != 200:  # no middleware drops it
            return
        base, title, headings, hrefs = response.url, None, list[str](), dict[str, None]()
        for element in document_fromstring(response.body, parser=self.parser).iter("title", "h2", "a"):
            if element.tag == "a":
                hrefs[element.get("href", "").partition("#")[0]] = None
            elif element.tag == "h2":
                headings += _texts_of(element)
            elif title is None:
                title = element.text
        self.rows.writerow((base, title, "|".join(headings)))
        for href in hrefs:
            url = urljoin(base, href)
            if url in self.seen or not url.endswith((".html", ".htm")):
                continue
            self.seen.add(url)
            if urlsplit(url).netloc in self.hosts:
                yield Request(url, callback=self.parse)


def _texts_of(element: HtmlElement) -> list[str]:
    """The texts directly in an element."""
    return [text for text in (element.text, *[child.tail for child in element]) if text]
