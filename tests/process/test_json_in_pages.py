"""A crawl of pages that hold JSON, and of NDJSON, CSV and feeds; small ones, and ones for the extraction process."""

import pytest

from .project import Project
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups:
  list: {{locators: [{{url: "{url}/list"}}]}}
  lines: {{locators: [{{urls: ["{url}/stock.jsonl", "{url}/large.jsonl"]}}]}}
  tables: {{locators: [{{urls: ["{url}/stock.csv", "{url}/large.csv", "{url}/sheet.csv"]}}]}}
  feeds: {{locators: [{{urls: ["{url}/rss", "{url}/down"]}}]}}
taskGroups:
  list: {{t: {{dataDef: item}}}}
  detail: {{t: {{dataDef: product}}}}
  lines: {{t: {{dataDef: stock}}}}
  tables: {{t: {{dataDef: stock}}}}
  feeds: {{t: {{dataDef: entry}}}}
dataDefs:
  item:
    query: {{block: "jmespath(script#__NEXT_DATA__): props.items"}}
    fields: {{id: {{selector: "jmespath: id", type: int}}}}
    links: [{{selector: "jmespath(script#__NEXT_DATA__): props.items[].url", linkGroup: detail}}]
  product:
    fields:
      url: {{value: "%{{document.url}}"}}
      heading: {{selector: h1}}
      price: {{selector: "jsonld: Product.offers.price", type: decimal}}
      all: {{selector: "jsonld: Product.offers.price", all: true}}
  stock:
    query: {{block: "jmespath: @"}}
    fields: {{sku: {{selector: "jmespath: sku", required: true}}, left: {{selector: "jmespath: left", type: int}}}}
  entry:
    query: {{block: item}}
    fields: {{title: {{selector: title}}}}
    links: [{{selector: item link, attribute: text, linkGroup: detail}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: 8}}}}
"""
FILLER = "<p>x</p>" * 20_000
"""Makes a page too large for the fetch loop."""


def product(offers: str, filler: str = "") -> Page:
    block = f'{{"@graph": [{{"@type": "BreadcrumbList"}}, {{"@type": ["Product"], "offers": {offers}}}]}}'
    broken = '<script type="application/ld+json">{"@type": "Product", </script>'
    return html(f'<h1>p</h1>{broken}<script type="application/ld+json">{block}</script>{filler}')


def typed(body: str | bytes, content_type: str) -> Page:
    return Page(body.encode() if isinstance(body, str) else body, headers={"Content-Type": content_type})


def test_json_of_pages_and_documents(project: Project, site: Site) -> None:
    items = '{"props": {"items": [{"id": 1, "url": "/p/1"}, {"id": 2, "url": "/p/2"}]}}'
    site["/list"] = html(f'<script id="__NEXT_DATA__" type="application/json">{items}</script>')
    site["/p/1"] = product('{"price": 19.90}')
    site["/p/2"] = product('[{"price": 5}, {"price": "4.50"}]', FILLER)
    site["/p/3"] = html(f'<h1>deep</h1><script type="application/ld+json">{"[" * 200_000}</script>')
    site["/stock.jsonl"] = typed('{"sku": "a", "left": 1}\nbroken\n{"sku": "b"}\n', "text/plain")
    site["/large.jsonl"] = typed('{"sku": "c", "left": 2}\n' * 5_000, "application/x-ndjson")
    site["/stock.csv"] = typed("sku;left\nd;3\ne\nf\0;\n;4\n", "text/csv")
    site["/large.csv"] = typed("sku,left\r\n" + "g,5\r\n" * 20_000, "application/octet-stream")
    site["/sheet.csv"] = typed(b"PK\x03\x04\x14\x00\x06\x00", "text/csv")
    item = f"<item><title>n</title><link>{site.url('/p/3')}</link></item>"
    site["/rss"] = typed(f"<rss><channel>{item}<item><link/></item></channel></rss>", "application/rss+xml")
    site["/down"] = typed("<!DOCTYPE html><html><body><h1>Sorry</h1>", "application/rss+xml")
    project.write(DEFS.format(url=site.url("")))
    project.crawl(nodes=1, code=1)
    assert "not a page" in project.job(site.url("/sheet.csv"))["reason"]
    assert sorted(row["id"] for row in project.rows("item")) == ["1", "2"]
    prices = {row["url"].rpartition("/")[2]: (row["price"], row["all"]) for row in project.rows("product")}
    assert prices == {"1": ("19.90", "19.90"), "2": ("5", "5|4.50"), "3": ("", "")}
    assert project.count_rows("stock").total() == 2 + 5_000 + 3 + 20_000, "the row without sku is rejected"
    assert sorted(row["title"] for row in project.rows("entry")) == ["", "n"]
    assert "internal error" not in str(project.query("SELECT reason FROM jobs WHERE reason IS NOT NULL"))
    for fault in ("a block of JSON-LD is not JSON", "a line is not JSON", "a row of the CSV does not fit"):
        query = f"SELECT text FROM events WHERE text LIKE '%{fault}%'"
        assert len(project.query(query)) == 1, "said once, whatever process extracted the page"
