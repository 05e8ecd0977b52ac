"""Offers of a German shop, their numbers and dates as data."""

from decimal import Decimal

import dateparser
import scrapy
from price_parser import Price


class CleaningSpider(scrapy.Spider):
    name = "cleaning"
    start_urls = ["https://shop.example/offers"]

    def parse(self, response):
        day = dateparser.parse(response.css("time::text").get(), languages=["de"])
        for offer in response.css("li.offer"):
            price = Price.fromstring(offer.css(".price::text").get())
            weight = offer.css(".weight::text").get().removesuffix(" kg")
            yield {
                "sku": offer.css(".sku::text").re_first(r"[A-Z]+-\d+"),
                "price": {"amount": price.amount, "currency": price.currency},
                "day": day.date().isoformat(),
                "tags": [tag.strip() for tag in offer.css(".tags::text").get().split(",")],
                "weight": Decimal(weight.replace(",", ".")),
                "inStock": offer.css(".stock::text").get() == "auf Lager",
            }
        yield from response.follow_all(css="nav.pages a", callback=self.parse)
