"""A crawl of two groups whose rows share their files, with sums recomputed by hand and ways to damage it."""

import contextlib
import json
import shlex
import sqlite3
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow.parquet
from xxhash import xxh3_128_digest

from crawl_engine.store.pages.page_store import PageStore

from .project import Project
from .site import Site, html

DEFS = """\
locatorGroups:
  red: {{locators: [{{name: r, urls: {red}}}]}}
  blue: {{locators: [{{name: b, urls: {blue}}}]}}
taskGroups:
  red: {{page: {{dataDef: item}}}}
  blue: {{page: {{dataDef: item}}}}
dataDefs:
  item:
    query: {{block: li}}
    fields: {{name: {{selector: a}}, price: {{selector: i, type: decimal}}}}
appenders:
  table: {{type: csv}}
  lines: {{type: jsonl}}
  base: {{type: sqlite}}
  columns: {{type: parquet}}
hosts:
  "127.0.0.1": {{robots: false, concurrency: 8, delay: 0}}
"""
FILES = ("item.csv", "item.jsonl", "item.db", "item.parquet")
PAGES, ITEMS = 4, 5


class VerifiedCrawl:
    """The project, its site, and what an undisturbed crawl gives. Four pages of five rows in each group."""

    def __init__(self, project: Project, site: Site) -> None:
        self.project, self.site = project, site
        for color in ("red", "blue"):
            for page in range(PAGES):
                entries = "".join(
                    f'<li><a>{color} "{page}", {i}\u00e9</a><i>{page}.{i}0</i></li>' for i in range(ITEMS)
                )
                site[f"/{color}/{page}"] = html(f"<ul>{entries}</ul>")
        urls = {c: json.dumps([site.url(f"/{c}/{page}") for page in range(PAGES)]) for c in ("red", "blue")}
        project.write(DEFS.format(**urls))

    def verify(self, *arguments: str) -> dict[str, Any]:
        """`state --verify --json`; its exit code must agree with the object."""
        done = self.project.run_with_data("state", "--verify", "--json", *arguments)
        assert done.code in (0, 1), done.err
        result: dict[str, Any] = json.loads(done.out.splitlines()[-1])
        assert (done.code == 0) == result["valid"]
        return result

    def execute(self, sql: str, *parameters: object, name: str = "crawl.db") -> None:
        """Change a database by hand."""
        with contextlib.closing(sqlite3.connect(self.project.data / name)) as db, db:
            db.execute(sql, parameters)

    def row_of(self, group: str, number: int = 0) -> int:
        """The id of a row of a group."""
        rows = self.project.query(f"SELECT r.id FROM {_ROWS} WHERE s.grp = '{group}' ORDER BY r.id")
        return int(rows[number][0])

    def document_of(self, group: str, number: int = 0) -> tuple[int, str]:
        """The document of a page of a group, and the path of its URL."""
        page, url = self.project.query(
            "SELECT j.document, j.url FROM jobs j JOIN sequences s ON s.id = j.sequence"
            f" WHERE s.grp = '{group}' ORDER BY j.id"
        )[number]
        return int(page), "/" + str(url).split("/", 3)[3]

    def expected_rows(self) -> list[tuple[str, str]]:
        return sorted(
            (f'{color} "{page}", {i}\u00e9', f"{page}.{i}0")
            for color in ("red", "blue")
            for page in range(PAGES)
            for i in range(ITEMS)
        )

    def assert_whole(self) -> None:
        """Rows, files and sums are those of an undisturbed crawl, and a verification agrees."""
        rows = [json.loads(data, parse_float=str) for (data,) in self.project.query("SELECT data FROM rows")]
        assert sorted((row["name"], row["price"]) for row in rows) == self.expected_rows()
        table = self.project.rows("item")
        assert sorted((row["name"], row["price"]) for row in table) == self.expected_rows()
        lines = self.project.output("item.jsonl").read_text("utf-8").splitlines()
        objects = [json.loads(line, parse_float=str) for line in lines]
        assert sorted((row["name"], row["price"]) for row in objects) == self.expected_rows()
        with contextlib.closing(sqlite3.connect(self.project.output("item.db"))) as db:
            assert sorted(db.execute("SELECT name, price FROM item")) == self.expected_rows()
        columns = pyarrow.parquet.read_table(self.project.output("item.parquet")).to_pylist()
        assert sorted((row["name"], f"{row['price']:.2f}") for row in columns) == self.expected_rows()
        assert_exact_sums(self.project)
        result = self.verify()
        assert result["valid"], result
        assert {group["status"] for group in result["groups"]} == {"valid"}
        assert {output["status"] for output in result["outputs"]} == {"valid"}

    def change_file(self, name: str, how: str) -> str:
        """Damage a file at its row 7, which may be of any group; returns its group."""
        path = self.project.output(name)
        if name.endswith(".db"):
            with contextlib.closing(sqlite3.connect(path)) as db, db:
                (id_,) = db.execute("SELECT _id FROM item ORDER BY _id LIMIT 1 OFFSET 6").fetchone()
                if how == "changed":
                    db.execute("UPDATE item SET price = price || '1' WHERE _id = ?", (id_,))
                elif how == "removed":
                    db.execute("DELETE FROM item WHERE _id = ?", (id_,))
                else:
                    db.execute("INSERT INTO item SELECT -5, name, price FROM item WHERE _id = ?", (id_,))
        elif name.endswith(".parquet"):
            data = bytearray(path.read_bytes())
            data[len(data) // 3] ^= 1
            path.write_bytes(data)
        else:
            lines = path.read_bytes().splitlines(keepends=True)
            at = 7 if name.endswith(".csv") else 6
            if how == "changed":
                lines[at] = lines[at].replace(b"0", b"9")
            elif how == "removed":
                del lines[at]
            else:
                lines.insert(at, lines[at])
            path.write_bytes(b"".join(lines))
        [(group,)] = self.project.query(
            "SELECT s.grp FROM (SELECT job FROM rows ORDER BY id LIMIT 1 OFFSET 6) r JOIN jobs j ON j.id = r.job"
            " JOIN sequences s ON s.id = j.sequence"
        )
        return str(group)

    def mend(self, result: dict[str, Any]) -> list[str]:
        """Run the commands that a verification printed, and nothing else; returns their names."""
        self.site.clear_log()
        names = []
        for command in result["commands"]:
            program, *arguments = shlex.split(command)
            assert program == "crawl-console"
            done = self.project.run_with_data(*arguments)
            assert done.code == 0, (command, done.err)
            names.append(arguments[0])
        assert self.project.query("SELECT count(*) FROM runs") == [(1,)], "no other run was begun"
        return names


_ROWS = """rows r JOIN jobs j ON j.id = r.job JOIN sequences s ON s.id = j.sequence
JOIN data_defs d ON d.id = r.data_def"""


def assert_exact_sums(project: Project) -> None:
    """The sums in the table equal those recomputed from every row and every stored body, by group."""
    rows: dict[tuple[int, str], list[bytes]] = {}
    for run, group, name, data in project.query(f"SELECT r.run, s.grp, d.name, CAST(r.data AS TEXT) FROM {_ROWS}"):
        rows.setdefault((run, group), []).append(_digest(f"{name}\0{data}".encode()))
    documents: dict[tuple[int, str], list[bytes]] = {}
    with contextlib.closing(PageStore(Path(project.data), read_only=True)) as pages:
        for run, group, id_, url, status in project.query(
            "SELECT j.run, s.grp, d.id, d.url, d.status FROM jobs j JOIN sequences s ON s.id = j.sequence"
            " JOIN documents d ON d.id = j.document"
        ):
            body = pages.read(id_)
            assert body is not None
            documents.setdefault((run, group), []).append(_digest(f"{status} {url}\n".encode() + xxh3_128_digest(body)))
    stored = {
        (run, group): (documents_, document_sum, rows_, row_sum)
        for run, group, documents_, document_sum, rows_, row_sum in project.query(
            "SELECT run, grp, documents, document_sum, rows, row_sum FROM content_sums"
        )
    }
    assert set(rows) | set(documents) <= set(stored)
    for key, sums in stored.items():
        of_documents, of_rows = documents.get(key, []), rows.get(key, [])
        assert sums == (len(of_documents), _sum(of_documents), len(of_rows), _sum(of_rows)), key


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _sum(digests: list[bytes]) -> bytes:
    return (sum(int.from_bytes(digest, "big") for digest in digests) % 2**128).to_bytes(16, "big")
