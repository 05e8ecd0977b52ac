"""Documents inside pages through a run, an edit of `from`, `try`, `shell`, golden tests and previews."""

import json

import pytest

from .project import Project
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

PAGE = html("""<h1>Tea</h1><script>var data = {items: [{id: 1, price: 1.10, at: new Date()}, {id: 2}]};</script>
<div id=more><!-- <p class=item data-id=3>2.50</p> --></div>""")

STATE = "{from: script, match: 'data =', as: js, block: 'jmespath: items'}"
COMMENT = '{from: "comment(#more)", as: html, block: .item}'


def defs(site: Site, source: str = STATE, price: str = "") -> str:
    fields = f"id: {{selector: 'jmespath: id'}}, price: {{selector: 'jmespath: {price or 'price'}'}}"
    if "html" in source:
        fields = "id: {attribute: data-id}, price: {}"
    return f"""\
baseUrl: {site.url("")}
locatorGroups: {{shop: {{locators: [{{url: /shop}}]}}, api: {{locators: [{{url: /api}}]}}}}
taskGroups: {{shop: {{list: {{dataDef: item}}}}, api: {{list: {{dataDef: card}}}}, card: {{page: {{dataDef: page}}}}}}
dataDefs:
  item:
    query: {source}
    key: [id]
    fields: {{{fields}, kind: {{selector: h1, scope: page}}}}
  card:
    query: {{from: "jmespath: html", as: html, block: li}}
    fields: {{name: {{selector: a}}}}
    links: [{{selector: a, linkGroup: card}}]
  page: {{fields: {{name: {{selector: h1}}}}}}
"""


def serve(site: Site) -> None:
    site["/shop"] = PAGE
    body = {"html": "<li><a href='/c/1'>one</a></li><li><a href='c/2'>two</a></li>"}
    site["/api"] = Page(body=json.dumps(body), headers={"Content-Type": "application/json"})
    site["/c/1"], site["/c/2"] = html("<h1>1</h1>"), html("<h1>2</h1>")


def rows(project: Project, data_def: str) -> list[tuple[str, ...]]:
    return sorted(tuple(row.values()) for row in project.rows(data_def))


def test_an_edit_of_from_extracts_stored_pages_again(project: Project, site: Site) -> None:
    serve(site)
    project.write(defs(site))
    done = project.crawl()
    assert rows(project, "item") == [("1", "1.10", "Tea"), ("2", "", "Tea")]
    assert rows(project, "card") == [("one",), ("two",)]
    assert rows(project, "page") == [("1",), ("2",)]
    (warning,) = done.summary["warnings"]
    assert warning["code"] == "js-expression"
    assert "only a script knows: missing, such as `new Date()" in warning["text"]
    project.write(defs(site, COMMENT))
    planned = project.run_with_data("plan")
    assert "from changed, block changed" in planned.out, planned.out
    assert "item: +1 ~0 −2" in planned.out, planned.out
    assert project.run_with_data("extract").code == 0
    assert rows(project, "item") == [("3", "2.50", "Tea")]
    assert site.paths.count("/shop") == 1


def test_try_shell_and_golden_tests_know_from(project: Project, site: Site) -> None:
    (project.folder / "page.html").write_bytes(PAGE.encode())
    where = ("--defs", str(project.defs))
    project.write(defs(site, COMMENT.replace("#more", "#less")))
    tried = project.run_command("try", "item", "page.html", *where)
    assert "item: `from: comment(#less)` matches nothing on this page" in tried.err, tried.err
    project.write(defs(site, "{from: script, match: nope, as: js, block: 'jmespath: items'}"))
    tried = project.run_command("try", "item", "page.html", *where)
    assert "item: `match: nope` matches nothing in the text of `from: script`" in tried.err, tried.err
    project.write(defs(site, "{from: script, as: json, block: 'jmespath: items'}"))
    tried = project.run_command("try", "item", "page.html", *where)
    assert tried.err.count("item: `from: script`: the text at 1:") == 1, tried.err
    lines = [
        ":from script match data = as js",
        "jmespath: items[].id",
        ":from comment(#more) as html",
        ".item",
        ":from",
        "h1",
    ]
    lines += [":from #no as html", ":from x as y", ":from a[ as html"]
    shell = project.start_command("shell", "page.html", *where, stdin="\n".join(lines).encode()).wait(60)
    assert shell.code == 0, shell.err
    shown = [line.strip() for line in shell.out.splitlines()]
    text = "1 text: selectors search each"
    assert shown[2:9] == [text, "2 matches", "1  1", "2  2", text, "1 match", "1  2.50"]
    assert shown[9:12] == ["the whole page", "1 match", "1  Tea"]
    assert shown[12].startswith("error: `from: #no` matches nothing on this page")
    assert shown[13].startswith("error: 'x as y' does not say how its text is read")
    assert shown[14].startswith("error: not a CSS selector: a[; it breaks off at its end")
    project.write(defs(site))
    recorded = project.run_command("test", "--record", "page.html", "--data-def", "item", *where)
    assert recorded.code == 0, recorded.err
    assert project.run_command("test", *where).code == 0
    project.write(defs(site, price="id"))
    assert project.run_command("test", *where).code == 1
