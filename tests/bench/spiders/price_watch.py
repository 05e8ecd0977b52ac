"""Prices that no earlier run has seen; those that were seen are kept in a file."""

import json
from decimal import Decimal
from pathlib import Path

import scrapy


class PriceWatchSpider(scrapy.Spider):
    name = "price_watch"
    url = "https://shop.example/prices?page={}"
    seen_file = Path("seen.json")

    async def start(self):
        self.seen = set()
        if self.seen_file.exists():
            self.seen = {tuple(pair) for pair in json.loads(self.seen_file.read_text())}
        yield scrapy.Request(self.url.format(1), cb_kwargs={"page": 1})

    def parse(self, response, page):
        rows = response.css("tr.price")
        for row in rows:
            sku = row.css(".sku::text").get()
            price = row.css(".amount::text").get().removeprefix("£").replace(",", "")
            if (sku, price) not in self.seen:
                self.seen.add((sku, price))
                yield {
                    "sku": sku,
                    "name": row.css(".name::text").get(),
                    "price": Decimal(price),
                }
        if rows:
            yield scrapy.Request(self.url.format(page + 1), cb_kwargs={"page": page + 1})

    def closed(self, reason):
        self.seen_file.write_text(json.dumps(sorted(self.seen)))
