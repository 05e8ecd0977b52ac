"""Feeds that are compressed files and archives, crawled: by their only file, by names, again from the store."""

import gzip
import io
import json
import zipfile

import pytest

from .project import Project
from .site import Page, Site

pytestmark = pytest.mark.timeout(120)

CSV = b"sku,name\r\nA-1,Cup\r\nA-2,Pot\r\n"
DEFS = """\
baseUrl: {base}
locatorGroups: {{g: {{locators: [{{urls: [{urls}]}}]}}}}
taskGroups: {{g: {{page: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{{query}}}
    fields: {{sku: {{selector: "jmespath: sku"}}, name: {{selector: "jmespath: name"}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
BINARY = {"Content-Type": "application/octet-stream"}


def zipped(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return stream.getvalue()


def write(project: Project, site: Site, query: str, *paths: str) -> None:
    project.write(DEFS.format(base=site.url(), urls=", ".join(paths), query=query))


def skus(project: Project) -> list[str]:
    return sorted(row["sku"] for row in project.rows("item"))


@pytest.mark.quick
def test_compressed_feeds_are_pages_and_are_extracted_again(project: Project, site: Site) -> None:
    site["/a.csv.gz"] = Page(gzip.compress(CSV), headers=BINARY)
    site["/b"] = Page(
        gzip.compress(b'{"sku": "B-1", "name": "x"}\n'),
        headers={**BINARY, "Content-Disposition": 'attachment; filename="b.jsonl.gz"'},
    )
    site["/c.zip"] = Page(zipped(c_csv=b"sku,name\nC-1,x\n"), headers={"Content-Type": "application/zip"})
    write(project, site, 'block: "jmespath: @"', "/a.csv.gz", "/b", "/c.zip")
    project.crawl()
    assert skus(project) == ["A-1", "A-2", "B-1", "C-1"]
    asked = len(site.paths)
    write(project, site, "block: \"jmespath: @[?name != 'x']\"", "/a.csv.gz", "/b", "/c.zip")
    done = project.run_command("extract")
    assert done.code == 0, done.err
    assert len(site.paths) == asked, "from the stored bodies"


def test_files_in_an_archive_are_read_by_their_names(project: Project, site: Site) -> None:
    body = zipped(readme_txt=b"hello", data__one_csv=CSV, data__two_csv=b"sku,name\nC-1,x\n", image_bin=b"\0\1\2")
    site["/all.zip"] = Page(body, headers=BINARY)
    write(project, site, 'from: "member: data/*.csv", as: csv, block: "jmespath: @"', "/all.zip")
    project.crawl()
    assert skus(project) == ["A-1", "A-2", "C-1"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ('block: "jmespath: @"', "not a page: an archive of 2 files, such as 'a.csv', 'b.bin'; name one: `from:"),
        ('from: "member: c.csv", as: csv', "`from: member: c.csv` names none of 2 files, such as 'a.csv', 'b.bin'"),
        ('from: "member: b.bin", as: csv', "`from: member: b.bin`: 'b.bin' is no text"),
    ],
)
def test_what_a_def_does_not_find_in_an_archive_is_told(project: Project, site: Site, query: str, told: str) -> None:
    site["/all.zip"] = Page(zipped(a_csv=CSV, b_bin=b"\0\1\2"), headers=BINARY)
    write(project, site, query, "/all.zip")
    done = project.start().wait()
    jobs = [reason for (reason,) in project.query("SELECT reason FROM jobs") if reason]
    assert any(told in text for text in (*jobs, *(one["text"] for one in done.summary["warnings"])))


def test_an_archive_in_an_archive_and_a_bomb_end_their_page_alone(project: Project, site: Site) -> None:
    """A gigabyte behind a megabyte; an archive that would hold others without end."""
    site["/bomb.csv.gz"] = Page(gzip.compress(bytes(100_000_000)) * 20, headers=BINARY)
    site["/nested.zip"] = Page(zipped(a_zip=zipped(a_csv=CSV)), headers=BINARY)
    site["/good.csv.gz"] = Page(gzip.compress(CSV), headers=BINARY)
    write(project, site, 'block: "jmespath: @"', "/bomb.csv.gz", "/nested.zip", "/good.csv.gz")
    project.start().wait()
    assert skus(project) == ["A-1", "A-2"]
    reasons = dict(project.query("SELECT url, reason FROM jobs"))
    assert "parse_memory" in reasons[site.url("/bomb.csv.gz")]
    assert "is an archive, too" in reasons[site.url("/nested.zip")]
    assert json.dumps(reasons)
