"""Scrapy in its fastest honest form: one parse per page, unneeded middlewares off, no JOBDIR.

It also has its own seen-set and uvloop. What stays: retries, redirects, the timeout, the check for errors and the CSV
feed. `scrapy runspider` runs the spider.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import scrapy
from scrapy.http import Request, Response

_DOWNLOADER = "scrapy.downloadermiddlewares"
_SPIDER = "scrapy.spidermiddlewares"
_EXTENSIONS = "scrapy.extensions"


class DocsSpider(scrapy.Spider):
    """Every page of a site: URL, title, headings."""

    name = "docs"
    custom_settings = {  # noqa: RUF012  # the type that Scrapy declares
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "COMPRESSION_ENABLED": False,
        "METAREFRESH_ENABLED": False,
        "HTTPPROXY_ENABLED": False,
        "MEMUSAGE_ENABLED": False,
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",  # the spider has its own seen-set
        "DOWNLOADER_MIDDLEWARES": {
            f"{_DOWNLOADER}.offsite.OffsiteMiddleware": None,
            f"{_DOWNLOADER}.robotstxt.RobotsTxtMiddleware": None,
            f"{_DOWNLOADER}.httpauth.HttpAuthMiddleware": None,
            f"{_DOWNLOADER}.httpcache.HttpCacheMiddleware": None,
            f"{_DOWNLOADER}.stats.DownloaderStats": None,
        },
        "SPIDER_MIDDLEWARES": {
            f"{_SPIDER}.referer.RefererMiddleware": None,
            f"{_SPIDER}.urllength.UrlLengthMiddleware": None,
            f"{_SPIDER}.depth.DepthMiddleware": None,
        },
        "EXTENSIONS": {
            f"{_EXTENSIONS}.logstats.LogStats": None,
            f"{_EXTENSIONS}.throttle.AutoThrottle": None,
            f"{_EXTENSIONS}.spiderstate.SpiderState": None,
        },
    }

    def __init__(self, starts: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.start_urls = starts.split()
        self.hosts = {urlsplit(url).netloc for url in self.start_urls}
        self.seen = set(self.start_urls)

    def parse(self, response: Response) -> Iterator[dict[str, Any] | Request]:
        root = response.selector.root  # type: ignore[attr-defined]  # one tree serves the fields and the links
        base = response.url
        yield {
            "url": base,
            "title": root.findtext(".//title"),
            "headings": "|".join(root.xpath("//h2/text()")),
        }
        for href in dict.fromkeys(href.partition("#")[0] for href in root.xpath("//a/@href")):
            url = urljoin(base, href)
            if url in self.seen or not url.endswith((".html", ".htm")):
                continue
            self.seen.add(url)
            if urlsplit(url).netloc in self.hosts:
                yield Request(url, callback=self.parse)
