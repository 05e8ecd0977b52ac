"""Rows of tables, and fields outside of their block, through a run, an edit of the defs, `try` and golden tests."""

import pytest

from .project import Project
from .site import Site, html

pytestmark = pytest.mark.timeout(90)

PAGE = html("""<h2>Tea</h2><table><thead><tr><th rowspan=2>Name<th colspan=2>2023<tr><th>H1<th>H2</thead>
<tr><td>Darjeeling<td>1,10<td>1,20<tr><td>Ceylon<td>2,10<td></table>
<table class=plain><tr><td>x<td>y<tr><td>1<td>2</table>""")


def defs(site: Site, column: str = "2023 / H1", header: str = "rows") -> str:
    return f"""\
locatorGroups: {{prices: {{locators: [{{url: "{site.url("/prices")}"}}]}}}}
taskGroups: {{prices: {{list: {{dataDef: price}}, plain: {{dataDef: plain}}}}}}
dataDefs:
  price:
    query: {{table: "xpath: //table[thead]"}}
    key: [name]
    fields:
      name: {{column: Name}}
      price: {{column: "{column}", type: decimal, decimalMark: ","}}
      kind: {{selector: "xpath: ancestor::table/preceding-sibling::h2[1]"}}
  plain:
    query: {{table: .plain, header: {header}}}
    fields: {{x: {{column: x}}}}
"""


def rows(project: Project, data_def: str) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in project.rows(data_def)]


def test_an_edit_of_a_column_extracts_stored_pages_again(project: Project, site: Site) -> None:
    site["/prices"] = PAGE
    project.write(defs(site))
    done = project.crawl()
    assert rows(project, "price") == [("Darjeeling", "1.10", "Tea"), ("Ceylon", "2.10", "Tea")]
    assert rows(project, "plain") == [("",), ("",)]
    assert [w["code"] for w in done.summary["warnings"]] == ["empty-field", "no-headings"]
    project.write(defs(site, column="2023 / H2", header="first"))
    planned = project.run_with_data("plan")
    assert "plain: block changed; price: 1 field changed" in planned.out, planned.out
    assert "price: +0 ~2 −0" in planned.out
    assert project.run_with_data("extract").code == 0
    assert rows(project, "price") == [("Darjeeling", "1.20", "Tea"), ("Ceylon", "", "Tea")]
    assert rows(project, "plain") == [("1",)]
    assert site.paths.count("/prices") == 1


def test_try_shell_and_golden_tests_know_columns(project: Project, site: Site) -> None:
    site["/prices"] = PAGE
    (project.folder / "page.html").write_bytes(PAGE.encode())
    project.write(defs(site, column="2023 / H3"))
    where = ("--defs", str(project.defs))
    tried = project.run_command("try", "price", "page.html", *where)
    missing = "price.price: no column `2023 / H3`; the columns of the table are `Name`, `2023 / H1`, `2023 / H2`"
    assert missing in tried.err, tried.err
    lines = [":block table: table", "column: 2023 / H1", "column: H1", ":block table(first): .plain", ":column", "x"]
    lines += [":xpath", ":block //td", "../../preceding::h2[1]"]
    shell = project.start_command("shell", "page.html", *where, stdin="\n".join(lines).encode()).wait(60)
    assert shell.code == 0, shell.err
    shown = shell.out.splitlines()
    assert "2 matches in 4 blocks, 2 without a match" in shown
    assert any(line.startswith("the columns are: Name, 2023 / H1, 2023 / H2") for line in shown)
    assert "1 match in 1 block" in shown
    assert "10 matches in 10 blocks" in shown
    project.write(defs(site))
    recorded = project.run_command("test", "--record", "page.html", "--data-def", "price", *where)
    assert recorded.code == 0, recorded.err
    assert project.run_command("test", *where).code == 0
    project.write(defs(site, column="2023 / H2"))
    assert project.run_command("test", *where).code == 1
