"""Locators that are files: read under `--allow-file` alone, and nothing outside of what the defs name."""

import os
from pathlib import Path

import pytest

from tests.sample import sampled

from .project import Project
from .site import Site, html

DEFS = """\
locatorGroups:
  local: {{locators: [{{name: a, urls: {urls}}}]}}
taskGroups:
  local: {{page: {{dataDef: page}}}}
dataDefs:
  page: {{fields: {{title: {{selector: h1}}, from: {{value: "%{{document.url}}"}}}}, links: [{{selector: "a[href]"}}]}}
"""
TABLE = """\
baseUrl: "{base}"
locatorGroups:
  list: {{locators: [{{name: a, url: /list.html}}]}}
taskGroups:
  list:
    links:
      dataDef: links
      steps: {{jsoupDefault: {{go: {{class: LocatorCreator, previous: parser, next: seeder}}}}}}
  page: {{page: {{dataDef: page}}}}
dataDefs:
  links:
    query: {{block: ul}}
    items:
      - item: {{name: link, selector: "li:nth-child(%{{index}}) a attribute: href", indexRange: 1-4, linkGroup: page}}
  page: {{query: {{block: body, selector: b}}, items: [item: {{name: title, value: t}}]}}
"""


def write(folder: Path, **pages: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)


def test_files_are_read_with_the_flag_alone(project: Project) -> None:
    folder = project.folder / "pages"
    write(folder, a='<h1>A</h1><a href="b.html">b</a><a href="file:///etc/passwd">c</a>', b="<h1>B</h1>")
    absolute = (folder / "b.html").as_uri()
    project.write(DEFS.format(urls=f'["file:pages/a.html", "{absolute}"]'))
    refused = project.start(nodes=1).wait(20)
    assert refused.code == 2
    assert "defs/crawl.yml:2:22: `file:` URLs are read only with --allow-file: file:pages/a.html" in refused.err
    project.crawl("--allow-file", nodes=1)
    rows = {(row["title"], row["from"]) for row in project.rows("page")}
    assert rows == {("A", (folder / "a.html").as_uri()), ("B", absolute)}, "links of a file are not followed"


def test_a_page_of_a_site_leads_to_no_file(project: Project, site: Site) -> None:
    secret = project.folder / "secret.html"
    secret.write_text("<h1>secret</h1>")
    site["/"] = html(f'<h1>home</h1><a href="{secret.as_uri()}">a</a><a href="file:secret.html">b</a>')
    project.write(DEFS.format(urls=f'["{site.url("/")}"]'))
    project.crawl("--allow-file", nodes=1)
    assert [row["title"] for row in project.rows("page")] == ["home"]


@pytest.mark.sweep
def test_links_of_a_table_stay_below_the_folder_of_the_base(project: Project) -> None:
    outside = project.folder / "outside.html"
    outside.write_text("<b>secret</b>")
    links = ("/b.html", "../outside.html", outside.as_uri(), "sub/../c.html")
    items = "".join(f'<li><a href="{link}">x</a>' for link in links)
    write(project.folder / "root", list=f"<ul>{items}</ul>", b="<b>1</b>", c="<b>2</b>")
    project.write(TABLE.format(base=(project.folder / "root").as_uri()))
    project.crawl("--allow-file", nodes=1, code=1)
    [failed] = project.query("SELECT reason FROM jobs WHERE state = 'FAILED'")
    assert "link: no usable URL: ../outside.html" in failed[0]
    (project.folder / "root" / "list.html").write_text(
        "<ul><li><a href=/b.html>x</a><li><a href=sub/../c.html>x</a></ul>"
    )
    project.crawl("--allow-file", "--fresh", nodes=1)
    assert sorted(row["fact"] for row in project.rows("page")) == ["1", "2"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    sampled([
        ("missing", "no such file or directory"), ("folder", "not a regular file"), ("pipe", "not a regular file"),
        ("large", "larger than max_body (1,000 bytes)"), ("device", "not a regular file"),
    ], 2, 3),
)  # fmt: skip
def test_what_is_no_page_costs_its_job(project: Project, kind: str, reason: str) -> None:
    folder = project.folder / "pages"
    write(folder, good="<h1>good</h1>")
    path = folder / "bad"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b"x" * 1001)
    url = "file:///dev/zero" if kind == "device" else path.as_uri()
    project.write(DEFS.format(urls=f'["{url}", "{(folder / "good.html").as_uri()}"]'))
    project.crawl("--allow-file", "--set", "max_body=1000", nodes=1, code=1)
    assert [row["title"] for row in project.rows("page")] == ["good"]
    [failed] = project.query("SELECT reason FROM jobs WHERE state = 'FAILED'")
    assert failed[0] == reason
