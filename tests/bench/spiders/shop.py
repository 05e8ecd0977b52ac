"""Variants of all products, with the brand and the rating from the card in the list."""

from decimal import Decimal

import scrapy
from w3lib.url import url_query_cleaner


class ShopSpider(scrapy.Spider):
    name = "shop"
    start_urls = ["https://shop.example/shelf"]

    def parse(self, response):
        for card in response.css("article.card"):
            url = url_query_cleaner(card.css("h3 a").attrib["href"], ["utm_source", "utm_medium"], remove=True)
            brand = card.css(".brand::text").get(default="").strip()
            rating = card.css(".rating").attrib["data-stars"]
            yield response.follow(url, callback=self.parse_product, cb_kwargs={"brand": brand, "rating": rating})
        yield from response.follow_all(css="a.next", callback=self.parse)

    def parse_product(self, response, brand, rating):
        name = response.css("h1").xpath("normalize-space()").get()
        for variant in response.css("tr.variant"):
            stock = variant.css(".stock::text").re_first(r"\d+")
            yield {
                "brand": brand,
                "rating": rating,
                "code": variant.css(".code::text").get(),
                "name": name,
                "size": variant.css(".size::text").get(),
                "stock": int(stock) if stock else None,
                "price": Decimal(variant.css(".price::text").get().removeprefix("£").replace(",", "")),
            }
