"""Converted definitions in a crawl; and Scoopi's own examples as records, where they lie beside the project."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.defs.loader import load
from engine.model.axis import AxisTable
from tests.sample import sampled

from .project import Project
from .site import Site, html

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
CORPUS = next(iter(sorted(ROOT.parent.glob("*/corpus/scoopi"))), None)
"""Scoopi's examples: definitions, pages and the rows that Scoopi gives. They are not part of the project."""
EXAMPLES = sorted(path.parent.name for path in CORPUS.glob("*/expected.txt")) if CORPUS is not None else []
DATE = re.compile(r"\d{2}-\d{2}-\d{4} \d{2}:\d{2}:\d{2}|\d{4}-\d{2}-\d{2}T[\d:]+Z|%\{\w+\}")
CONVERTED = {
    "book-htmlunit-ex-2": {"bookData"},
    "book-htmlunit-ex-4": {"bookData", "bookLink"},
    "book-jsoup-ex-1": {"bookData"},
    "book-jsoup-ex-2": {"bookData"},
    "book-jsoup-ex-4": {"bookData", "bookLink"},
    "fin-htmlunit-ex-1": {"price"},
    "fin-htmlunit-ex-10": {"price", "snapshot"},
    "fin-htmlunit-ex-2": {"snapshot"},
    "fin-jsoup-ex-1": {"price"},
    "fin-jsoup-ex-10": {"price", "links"},
    "fin-jsoup-ex-9": {"price", "links"},
}
"""By example, the dataDefs that become records; the others stay tables."""

BOOKS = """\
baseUrl: "{base}"
locatorGroups:
  books: {{locators: [{{name: shop, url: "/list/1.html"}}]}}
taskGroups:
  books:
    book: {{dataDef: book}}
    more:
      dataDef: more
      steps: {{jsoupDefault: {{go: {{class: LocatorCreator, previous: parser, next: seeder}}}}}}
dataDefs:
  book:
    query: {{block: "ol > li:nth-child(%{{item.index}})", selector: "b"}}
    items: [item: {{name: book, indexRange: 2-3, value: book}}]
    dims:
      - item: {{name: url, selector: "a attribute: href"}}
      - item: {{name: date, script: "document.getFromDate()"}}
  more:
    query: {{block: nav}}
    items: [item: {{name: link, selector: "a attribute: href", linkGroup: books, prefix: ["/list/"]}}]
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def test_converted_definitions_give_the_same_values(project: Project, site: Site) -> None:
    for page, link in (("1", "<a href=2.html>next</a>"), ("2", "")):
        books = "".join(f"<li><a href=b{number}>x</a><b>{page}{number}</b>" for number in range(1, 5))
        site[f"/list/{page}.html"] = html(f"<ol>{books}</ol><nav>{link}</nav>")
    project.write(BOOKS.format(base=site.url("")))
    project.crawl(nodes=1)
    before = Counter(DATE.sub("", line) for line in project.output("book.csv").read_text("utf-8").splitlines())
    assert len(before) == 5
    converted = project.folder / "records"
    done = project.run_command("convert", "scoopi", str(project.defs), "-o", str(converted))
    assert done.code == 0, done.err
    data = str(project.folder / "other")
    done = project.run_command("run", "--no-ui", "--defs", str(converted), "--data", data, "--nodes", "1", seconds=60)
    assert done.code == 0, done.err
    output = project.folder / "other" / "output" / "latest" / "book.csv"
    assert Counter(DATE.sub("", line) for line in output.read_text("utf-8").splitlines()) == before


@pytest.mark.skipif(CORPUS is None, reason="Scoopi's examples do not lie beside the project, in */corpus/scoopi")
@pytest.mark.parametrize("name", sampled(EXAMPLES, 4, 6))
def test_an_example_of_scoopi_gives_its_values_as_records(project: Project, site: Site, name: str) -> None:
    assert CORPUS is not None
    pages = CORPUS / name / "root"
    pages = pages if pages.is_dir() else CORPUS / "root"
    for path in pages.rglob("*.html"):
        site[f"/{path.relative_to(pages)}"] = path.read_text("utf-8")
    steps = "htmlUnitDefault" if "htmlunit" in name else "jsoupDefault"
    settings = [part for text in (f"default_steps={steps}", "fact_not_found=-") for part in ("--set", text)]
    source, converted = str(CORPUS / name / "defs"), project.folder / "records"
    done = project.run_command("convert", "scoopi", source, "-o", str(converted), *settings)
    assert done.code == 0, done.err
    tables = {each.name: each.axis for each in load(Path(source), steps).definitions.data_defs}
    records = {each.name for each in load(converted).definitions.data_defs if each.axis is None}
    assert records == CONVERTED.get(name, set())
    checked = project.run_command("check", str(converted))
    assert checked.code == 0, checked.err
    where = ["--defs", str(converted), "--data", str(project.data), "--base-url", site.url("")]
    done = project.run_command("run", "--no-ui", *where, *settings, seconds=60)
    assert done.code == 0, done.err
    lines = [line for each, table in tables.items() for line in lines_of(project, each, table)]
    expected = (CORPUS / name / "expected.txt").read_text("utf-8").splitlines()
    assert Counter(DATE.sub("", line) for line in lines) == Counter(DATE.sub("", line) for line in expected if line)


def lines_of(project: Project, data_def: str, table: AxisTable | None) -> Iterator[str]:
    """The rows of an output as lines of Scoopi; a record without `item` has a line for each item."""
    assert table is not None
    if not project.output(f"{data_def}.csv").exists():
        return
    for row in project.rows(data_def):
        if "item" in row:
            yield "|".join(row.values())
            continue
        dims = [row[dim.name] for dim in table.dims]
        for item in table.items:
            value = item.value or (item.match or "").replace("\\", "")
            yield "|".join([row["locator"], row["group"], value, *dims, row[item.name]])
