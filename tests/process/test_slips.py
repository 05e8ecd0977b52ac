"""A slip in the defs of a small crawl is a warning at its end: the place of the selector, and the nearest name."""

import re

import pytest

from .project import Project
from .site import Page, Site, html

pytestmark = [pytest.mark.timeout(120), pytest.mark.extended]

PAGES = 12
TABLE = "<table class=prices><tr><th>Article<th>Price<tr><td>Tea<td>{0}.50</table>"
ITEM = '<li class=product data-sku=S-{0}><h2 class=title>Tea {0}</h2><b class=price title="EUR {0}">{0}.50 EUR</b></li>'
DATA = '<script id=data type=application/json>{{"items": [{{"name": "Tea {0}", "price": {0}}}]}}</script>'
DEFS = """\
baseUrl: {base}
hosts: {{127.0.0.1: {{private: true, robots: false}}}}
locatorGroups: {{list: {{locators: [{{url: "/p/{{1..12}}"}}]}}}}
taskGroups:
  list: {{a: {{dataDef: block}}, b: {{dataDef: field}}, c: {{dataDef: attribute}}, d: {{dataDef: column}},
         e: {{dataDef: key}}, f: {{dataDef: regex}}, g: {{dataDef: kind}}, h: {{dataDef: table}},
         i: {{dataDef: filtered}}, j: {{dataDef: more}}}}
dataDefs:
  block:
    query: {{block: "li.prodct"}}
    fields: {{name: {{selector: h2}}}}
  field:
    query: {{block: "li.product"}}
    fields:
      name: {{selector: h2}}
      price:
        type: str
        selector: .prise
  attribute:
    query: {{block: "li.product"}}
    fields: {{name: {{selector: b, attribute: titel}}}}
  column:
    query: {{table: ".prices"}}
    fields: {{name: {{column: Article}}, price: {{column: Prise}}}}
  key:
    query: {{block: "jmespath(#data): items"}}
    fields: {{price: {{selector: "jmespath: prices"}}}}
  regex:
    query: {{block: "li.product"}}
    fields: {{price: {{selector: .price, match: "[0-9]+ USD"}}}}
  kind:
    query: {{block: "li.product"}}
    fields: {{name: {{selector: h2}}, price: {{selector: .price, type: int}}}}
  table:
    query: {{table: ".price-list"}}
    fields: {{name: {{column: Article}}}}
  filtered:
    query: {{block: "li.product"}}
    filters: [{{field: name, pattern: "Tea.*"}}]
    fields: {{name: {{selector: .title}}}}
  more:
    query: {{block: "li.product"}}
    fields:
      name: {{selector: .title}}
      sale: {{selector: .titel, default: none}}
      stock: {{selector: .stock, default: none}}
      parts: {{selector: b, fields: {{x: {{attribute: title}}, y: {{attribute: titel}}}}}}
    links: [{{selector: "a.nxt"}}, {{selector: a.next}}]
    next: {{url: "%{{u}}", u: ".follow"}}
"""


def write(project: Project, site: Site, defs: str = DEFS) -> None:
    for number in range(1, PAGES + 1):
        body = (ITEM + TABLE + DATA).format(number) + f"<a class=next href=/p/{number % PAGES + 1}>next</a>"
        site[f"/p/{number}"] = Page(html(body))
    project.write(defs.format(base=site.url("")))


def test_each_slip_is_named_with_its_place_and_the_nearest_name(project: Project, site: Site) -> None:
    write(project, site)
    done = project.crawl(code=1)  # by `kind`, whose type rejects all
    found = sorted(warning["text"].replace("defs/crawl.yml:", "@") for warning in done.summary["warnings"])
    sample = r"'[0-9]+\.50 EUR'"
    expected = [
        r"attribute.name was never filled in 12 records by `b` \(@21:31\); did you mean `attribute: title`\?",
        r"block: block `li.prodct` \(@10:20\) matched no element on 12 pages; did you mean `.product`\?",
        r"column.price was never filled in 12 records by the column `Prise` \(@24:55\); did you mean `Price`\?",
        rf"every record of kind was rejected \(12\): price: {sample} is not a whole number \(@33:36\)",
        r"field.price was never filled in 12 records by `.prise` \(@18:19\); did you mean `.price`\?",
        r"filtered: its filters \(@39:15\) dropped every record \(12\) of 12 pages",
        r"key.price was never filled in 12 records by `jmespath: prices` \(@27:32\); did you mean `price`\?",
        r"more.parts.y was never filled \(@47:60\)",
        r"more.sale was never filled in 12 records by `.titel` \(@45:24\); did you mean `.title`\?",
        r"more: links\[1\] `a.nxt` \(@48:13\) led to no page; did you mean `.next`\?",
        r"more: next \(@49:11\) led to no page; no `.follow` is there",
        "regex.price was never filled in 12 records by `.price` "
        rf"\(@30:32\); `match` matches none of its texts, such as {sample}",
        r"table: block `table: .price-list` \(@35:20\) matched no element on 12 pages; did you mean `.prices`\?",
    ]
    assert len(found) == len(expected), found
    for text, pattern in zip(found, expected, strict=True):
        assert re.fullmatch(pattern, text), text
    assert project.status()["warnings"] == done.summary["warnings"]


def test_what_the_last_run_had_is_no_warning_in_a_small_one(project: Project, site: Site) -> None:
    defs = (
        DEFS[: DEFS.index("taskGroups")]
        + """\
taskGroups: {{list: {{a: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: "li.product"}}
    fields: {{name: {{selector: h2}}, sale: {{selector: .sale}}, stock: {{selector: .stok}}}}
    links: [{{selector: "a.next"}}, {{selector: a.nxt}}]
"""
    )
    write(project, site, defs)
    site["/p/1"] = Page(
        html(ITEM.format(1).replace("</li>", "<i class=sale>now</i></li>") + "<a class=next href=/p/2>")
    )
    warned = [warning["subject"] for warning in project.crawl().summary["warnings"]]
    assert sorted(warned) == ["links[2]", "stock"]
    for number in range(1, PAGES + 1):
        site[f"/p/{number}"] = Page(html(ITEM.format(number)))
    warned = [warning["subject"] for warning in project.crawl("--fresh").summary["warnings"]]
    assert sorted(warned) == ["links[2]", "stock"], "the others gave something in the run before"
