"""What the search of each department finds, all pages of it."""

from decimal import Decimal

import scrapy
from scrapy.http import FormRequest


class SearchFormSpider(scrapy.Spider):
    name = "search_form"
    start_urls = [f"https://shop.example/search?in={department}" for department in ("tea", "coffee", "cocoa")]

    def parse(self, response):
        yield FormRequest.from_response(
            response, formcss="form.search", formdata={"q": "organic"}, callback=self.parse_results
        )

    def parse_results(self, response):
        for hit in response.css(".hit"):
            yield {
                "sku": hit.css(".sku::text").get(),
                "name": hit.css("a::text").get(),
                "url": response.urljoin(hit.css("a").attrib["href"]),
                "price": Decimal(hit.css(".price::text").get().removeprefix("£").replace(",", "")),
            }
        yield from response.follow_all(css="a.next", callback=self.parse_results)
