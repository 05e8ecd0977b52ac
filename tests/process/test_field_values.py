"""Lists of selectors, maps, codes, values of other fields: an edit, `plan`, `try`, `shell` and golden tests."""

import pytest

from .project import Project
from .site import Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{shop: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{shop: {{items: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{block: li}}
    fields:
      sku: {{attribute: id}}
      price: {{selector: [.new, .old], type: int}}
      stock: {{selector: .s, map: {{yes: true, "*": false}}, type: bool}}
      code: {{selector: .c, decode: base64}}
      id: {{value: "%{{field.sku}}-%{{depth}}"}}
hosts: {{"127.0.0.1": {{robots: false, delay: 0}}}}
"""
PAGE = html(
    "<ul><li id=a><b class=new>1</b><b class=old>9</b><i class=s>yes</i><i class=c>Y2Fmw6k=</i>"
    "<li id=b><b class=old>2</b><i class=s>no</i><i class=c>garbage!</i><li>"
)
ROWS = [("a", "1", "true", "café", "a-0"), ("b", "2", "false", "", "b-0"), ("", "", "", "", "")]


def rows(project: Project) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in project.rows("item")]


def test_an_edit_of_each_key_extracts_stored_pages_again(project: Project, site: Site) -> None:
    site["/"] = PAGE
    defs = DEFS.format(url=site.url("/"))
    project.write(defs)
    done = project.crawl()
    project.assert_clean(done)
    assert rows(project) == ROWS
    assert project.status()["fields"]["item"]["price[1]"] == {"filled": 1, "of": 3}
    edits = {
        "[.new, .old]": ("[.old, .new]", 1, ("9", "2", "")),
        '{yes: true, "*": false}': ("{no: true}", 2, ("", "true", "")),
        "decode: base64": ("decode: url", 3, ("Y2Fmw6k=", "garbage!", "")),
        "%{field.sku}-": ("%{field.price}/%{field.sku}-", 4, ("9/a-0", "2/b-0", "")),
    }
    for written, (other, column, values) in edits.items():
        defs = defs.replace(written, other)
        project.write(defs)
        planned = project.run_with_data("plan")
        assert "item: 1 field changed" in planned.out, planned.out
        assert project.run_with_data("extract").code == 0
        assert tuple(row[column] for row in rows(project)) == values
    assert site.paths.count("/") == 1


def test_try_shell_and_golden_tests(project: Project, site: Site) -> None:
    site["/"] = PAGE
    (project.folder / "page.html").write_bytes(PAGE.encode())
    defs = DEFS.format(url=site.url("/"))
    where = ("--defs", str(project.defs))
    project.write(defs.replace("[.new, .old]", "[u, s]"))
    tried = project.run_command("try", "item", "page.html", *where)
    assert "item.price: none of 2 selectors matches anything in 3 blocks" in tried.err, tried.err
    project.write(defs)
    recorded = project.run_command("test", "--record", "page.html", "--data-def", "item", *where)
    assert recorded.code == 0, recorded.err
    assert project.run_command("test", *where).code == 0
    project.write(defs.replace("[.new, .old]", "[.old, .new]"))
    assert project.run_command("test", *where).code == 1
    project.write(defs.replace('value: "%{field.sku}', 'value: "%{field.stok}'))
    checked = project.run_command("check", str(project.defs))
    assert (checked.code, "did you mean 'stock'" in checked.err) == (2, True), checked.err
