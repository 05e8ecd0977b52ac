"""Articles of an RSS feed, with the tags and the first paragraph of their pages."""

from datetime import datetime

import scrapy
from scrapy.spiders import XMLFeedSpider


class FeedSpider(XMLFeedSpider):
    name = "feed"
    start_urls = ["https://shop.example/news.rss"]
    namespaces = [("dc", "http://purl.org/dc/elements/1.1/")]
    iterator = "xml"
    itertag = "item"

    def parse_node(self, response, node):
        date = datetime.strptime(node.xpath("pubDate/text()").get(), "%a, %d %b %Y %H:%M:%S %z")
        entry = {"author": node.xpath("dc:creator/text()").get(), "date": date.isoformat()}
        url = node.xpath("link/text()").get()
        return scrapy.Request(url, callback=self.parse_article, cb_kwargs={"entry": entry})

    def parse_article(self, response, entry):
        yield {
            "url": response.url,
            "title": response.css("h1").xpath("normalize-space()").get(),
            "intro": response.css(".text p::text").get(),
            "tags": response.css("a[rel=tag]::text").getall(),
            "author": entry["author"],
            "date": entry["date"],
        }
