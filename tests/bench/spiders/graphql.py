"""Products of a GraphQL endpoint, page by page with its cursor."""

import scrapy
from scrapy.http import JsonRequest

QUERY = """
query Products($after: String) {
  products(first: 100, after: $after) {
    nodes { sku name vendor { name } variants { size price } }
    pageInfo { endCursor }
  }
}
"""


class GraphqlSpider(scrapy.Spider):
    name = "graphql"

    async def start(self):
        yield self.ask(after=None)

    def ask(self, after):
        return JsonRequest("https://shop.example/graphql", data={"query": QUERY, "variables": {"after": after}})

    def parse(self, response):
        products = response.json()["data"]["products"]
        for node in products["nodes"]:
            yield {
                "sku": node["sku"],
                "name": node["name"],
                "vendor": node["vendor"]["name"] if node["vendor"] else None,
                "sizes": [variant["size"] for variant in node["variants"]],
                "price": node["variants"][0]["price"],
            }
        cursor = products["pageInfo"]["endCursor"]
        if cursor:
            yield self.ask(after=cursor)
