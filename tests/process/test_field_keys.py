"""A page with every key that changes or types a text: CSV, JSONL, `try`, and a re-extraction without a request."""

import csv
import io
import json

import pytest

from .project import Project
from .site import Site, html

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{shop: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{shop: {{items: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: li}}
    fields:
      name: {{selector: b}}
      category: {{selector: h1, scope: page}}
      weight: {{selector: .w, replace: [["(?i) kg$", ""]], type: decimal, decimalMark: ",", groupMark: "."}}
      price: {{selector: .p, type: price}}
      seen: {{selector: time, type: date, format: any, locale: de}}
      colours: {{selector: .c, split: ",", join: "; "}}
      code: {{selector: pre, whitespace: keep}}
hosts: {{"127.0.0.1": {{robots: false, delay: 0}}}}
appenders: {{rows: {{type: csv}}, lines: {{type: jsonl}}}}
"""
ITEM = """<li><b>{name}</b><i class=w>{weight} KG</i><i class=p>{price}</i><time>{seen}</time><i class=c>{colours}</i>
<pre>{code}</pre></li>"""


def test_all_keys_in_csv_and_jsonl(project: Project, site: Site) -> None:
    site["/"] = html(
        "<h1>Teas</h1><ul>"
        + ITEM.format(
            name="Assam", weight="1.116,90", price="ab 1.116,90 €", seen="3. März 2024", colours="red , green,,",
            code="  a\n\tb ",
        )
        + ITEM.format(name="Sold out", weight="2", price="", seen="", colours="", code="")
        + ITEM.format(name="Odd", weight="1.5", price="call us", seen="soon", colours="", code="")
        + "</ul>"
    )  # fmt: skip
    project.write(DEFS.format(url=site.url("/")))
    done = project.crawl()
    project.assert_clean(done)
    assert (done.summary["rows"]["item"], done.summary["rejected"]["item"]) == (2, 1), done.out
    lines = project.output("item.jsonl").read_text("utf-8").splitlines()
    assert lines[0] == (
        '{"name":"Assam","category":"Teas","weight":1116.90,"price":{"amount":1116.90,"currency":"€"},'
        '"seen":"2024-03-03","colours":["red","green"],"code":"  a\\n\\tb "}'
    )
    assert json.loads(lines[1]) == {
        "name": "Sold out", "category": "Teas", "weight": 2, "price": None, "seen": None, "colours": [], "code": None,
    }  # fmt: skip
    text = project.output("item.csv").read_bytes().decode()
    assert [*csv.reader(io.StringIO(text, newline=""))][1:] == [
        ["Assam", "Teas", "1116.90", '{"amount":1116.90,"currency":"€"}', "2024-03-03", "red; green", "  a\n\tb "],
        ["Sold out", "Teas", "2", "", "", "", ""],
    ]
    where = ("--defs", str(project.defs))
    tried = project.run_with_data("try", "item", site.url("/"), *where)
    assert "1116.90" in tried.out, tried.err

    site.clear_log()
    project.write(
        DEFS.format(url=site.url("/"))
        .replace('split: ","', 'split: "n"')
        .replace("scope: page", "scope: page, all: true")
    )
    again = project.run_with_data("extract")
    assert again.code == 0, again.err
    assert site.paths == []
    first = json.loads(project.output("item.jsonl").read_text("utf-8").splitlines()[0])
    assert (first["colours"], first["category"]) == (["red , gree", ",,"], ["Teas"])
