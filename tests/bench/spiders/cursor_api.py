"""Items of a JSON API, page by page with its cursor."""

import os
from urllib.parse import urlencode

import scrapy


class CursorApiSpider(scrapy.Spider):
    name = "cursor_api"
    headers = {"X-Api-Key": os.environ["SHOP_KEY"]}

    async def start(self):
        yield scrapy.Request("https://shop.example/api/items", headers=self.headers)

    def parse(self, response):
        data = response.json()
        for item in data["items"]:
            yield {
                "id": item["id"],
                "name": item["name"],
                "brand": item["brand"]["name"] if item["brand"] else None,
                "price": item["price"]["amount"],
                "currency": item["price"]["currency"],
                "colours": item["colours"],
            }
        cursor = data["paging"]["next"]
        if cursor:
            yield response.follow(f"/api/items?{urlencode({'cursor': cursor})}", headers=self.headers)
