"""The products of a sitemap, each by its canonical address."""

from decimal import Decimal

from scrapy.spiders import SitemapSpider


class ProductSitemapSpider(SitemapSpider):
    name = "sitemap"
    sitemap_urls = ["https://shop.example/sitemap.xml"]
    sitemap_rules = [("/p/", "parse_product")]

    def parse_product(self, response):
        canonical = response.css("link[rel=canonical]::attr(href)").get()
        if canonical and response.urljoin(canonical) != response.url:
            yield response.follow(canonical, callback=self.parse_product)
            return
        yield {
            "url": response.url,
            "sku": response.css("p.sku::text").get(),
            "name": response.css("h1").xpath("normalize-space()").get(),
            "price": Decimal(response.css("p.price::text").get().removeprefix("£").replace(",", "")),
            "inStock": response.css("p.stock::text").get() == "In stock",
        }
