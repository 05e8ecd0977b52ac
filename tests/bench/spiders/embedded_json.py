"""Products out of the JSON in their pages: links from __NEXT_DATA__, fields from JSON-LD."""

import json

import scrapy


class EmbeddedJsonSpider(scrapy.Spider):
    name = "embedded_json"
    start_urls = ["https://shop.example/deals"]

    def parse(self, response):
        data = json.loads(response.css("script#__NEXT_DATA__::text").get())
        props = data["props"]["pageProps"]
        for product in props["products"]:
            yield response.follow(product["url"], callback=self.parse_product)
        if props["next"]:
            yield response.follow(props["next"])

    def parse_product(self, response):
        objects = {}
        for text in response.css("script[type='application/ld+json']::text").getall():
            block = json.loads(text)
            for item in block.get("@graph", [block]):
                objects[item["@type"]] = item
        product = objects["Product"]
        yield {
            "sku": product["sku"],
            "name": product["name"],
            "brand": product.get("brand", {}).get("name"),
            "price": product["offers"]["price"],
            "rating": product["aggregateRating"]["ratingValue"],
            "images": product["image"],
            "department": objects["BreadcrumbList"]["itemListElement"][-1]["name"],
        }
