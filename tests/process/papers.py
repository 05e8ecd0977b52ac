"""A site of pages whose rows name files, with the rows and files that an exact crawl gives."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from .project import Project
from .site import Page, Request, Site, html

DEFS = """\
locatorGroups:
  papers: {{locators: [{{name: start, urls: {urls}}}]}}
taskGroups:
  papers: {{list: {{dataDef: paper}}{group}}}
dataDefs:
  paper:
    query: {{block: "li"}}
    fields:
      title: {{selector: b}}
      price: {{selector: i, type: decimal}}
      paper: {{selector: "a", attribute: href, type: file}}
      pictures: {{selector: img, attribute: src, all: true, type: file}}
hosts:
  "127.0.0.1": {{private: true, robots: {robots}, concurrency: 8, delay: 0}}
appenders: {{rows: {{type: csv}}, lines: {{type: jsonl}}}}
"""
PDF = "application/pdf"


def file_value(content: bytes, extension: str, type_: str) -> dict[str, Any]:
    """The value of a field whose file has this content."""
    digest = hashlib.sha256(content).hexdigest()
    return {"path": f"files/{digest}.{extension}", "size": len(content), "hash": digest, "type": type_}


def without_url(value: Any) -> Any:
    """The value of a file without what depends on its URL, which it must have."""
    if isinstance(value, list):
        return [without_url(item) for item in value]
    if value is None:
        return None
    assert list(value) == ["path", "size", "hash", "type", "name", "url"]
    assert value["url"].startswith("http")
    assert value["name"] == value["url"].rpartition("/")[2]
    return {key: value[key] for key in ("path", "size", "hash", "type")}


def paper(content: bytes) -> dict[str, Any]:
    return file_value(content, "pdf", PDF)


def entry(title: str, paper: str, *pictures: str) -> str:
    images = "".join(f'<img src="{picture}">' for picture in pictures)
    return f'<li><b>{title}</b><i>1.50</i><a href="{paper}">x</a>{images}</li>'


def write_defs(project: Project, urls: list[str], *, robots: bool = False, group: str = "") -> None:
    project.write(DEFS.format(urls=json.dumps(urls), robots=str(robots).lower(), group=group))


def ranged(content: bytes, request: Request, *, tag: str = '"v1"', type_: str = PDF) -> Page:
    """The content, or the part that a request asks for if its validator fits."""
    headers = {"Content-Type": type_, "ETag": tag, "Accept-Ranges": "bytes"}
    asked = request.headers.get("range", "")
    if asked and request.headers.get("if-range") == tag:
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            return Page(b"", 416)
        part = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return Page(content[start:], 206, {**headers, "Content-Range": part})
    return Page(content, 200, headers)


class Papers:
    """`pages` pages with `each` rows; each row names a paper of its own and a logo that all of them share."""

    def __init__(self, project: Project, site: Site, pages: int, each: int, *, delay: float = 0.0) -> None:
        self.project, self.site = project, site
        self.logo = b"\x89PNG logo"
        site["/logo.png"] = Page(self.logo, headers={"Content-Type": "image/png"}, delay=delay)
        self.contents: dict[str, bytes] = {}
        for page in range(pages):
            names = [f"{page}-{number}" for number in range(each)]
            for name in names:
                content = self.contents[name] = f"%PDF-1.7 {name} ".encode() * 40
                site[f"/paper/{name}.pdf"] = Page(content, headers={"Content-Type": PDF}, delay=delay)
            site[f"/page/{page}"] = html("".join(entry(n, f"/paper/{n}.pdf", "/logo.png") for n in names))
        write_defs(project, [site.url(f"/page/{page}") for page in range(pages)])

    def expected_rows(self) -> Counter[str]:
        logo = [file_value(self.logo, "png", "image/png")]
        rows = [
            {"title": name, "price": "1.50", "paper": paper(content), "pictures": logo}
            for name, content in self.contents.items()
        ]
        return Counter(json.dumps(row, sort_keys=True) for row in rows)

    def assert_exact(self) -> None:
        """Each row once in the table and the outputs, each file once on disk, with its content; nothing waits."""
        assert read_rows(self.project) == self.expected_rows()
        contents = [*self.contents.values(), self.logo]
        assert stored_files(self.project) == {hashlib.sha256(content).hexdigest() for content in contents}
        assert_settled(self.project)


def read_rows(project: Project) -> Counter[str]:
    """The rows of the JSONL file, which must be those of the table and of the CSV file."""
    lines = project.output("paper.jsonl").read_text("utf-8").splitlines()
    rows = Counter(map(_dump_row, lines))
    assert Counter(_dump_row(data) for (data,) in project.query("SELECT CAST(data AS TEXT) FROM rows")) == rows
    assert len(project.rows("paper")) == rows.total()
    return rows


def _dump_row(text: str) -> str:
    row = json.loads(text, parse_float=str)
    return json.dumps({**row, **{name: without_url(row[name]) for name in ("paper", "pictures")}}, sort_keys=True)


def values_of(project: Project, field: str) -> dict[str, Any]:
    """By title: the value of a field of files in the JSONL file, without their URLs."""
    lines = project.output("paper.jsonl").read_text("utf-8").splitlines()
    return {row["title"]: without_url(row[field]) for row in map(json.loads, lines)}


def stored_files(project: Project) -> set[str]:
    """The digests of the files on disk; each has its name, and no part is left."""
    folder = project.data / "output" / "latest" / "files"
    if not folder.exists():
        return set()
    for path in folder.iterdir():
        assert path.is_file(), path
        assert path.stat().st_mode & 0o777 == 0o600
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name.partition(".")[0]
    return {path.name.partition(".")[0] for path in folder.iterdir()}


def part_sizes(project: Project) -> list[int]:
    """The sizes of the parts of incomplete files."""
    parts: list[Path] = list(project.data.glob("output/*/files/.part/*"))
    return [path.stat().st_size for path in parts if not path.suffix]


def assert_settled(project: Project) -> None:
    """No row waits, the counts are those of the tables, and no file has two names."""
    for table in ("held_rows", "held_files"):
        assert project.query(f"SELECT count(*) FROM {table}") == [(0,)]
    counted = project.query("SELECT sum(rows), sum(waiting) FROM row_counts")
    assert counted == project.query("SELECT nullif(count(*), 0), 0 FROM rows") or counted == [(0, 0)]
    hashes = project.query("SELECT count(DISTINCT hash), count(DISTINCT path) FROM files")
    assert hashes[0][0] == hashes[0][1]
