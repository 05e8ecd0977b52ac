"""Definitions with one table, converted; and the rows of a page before and after."""

from pathlib import Path
from typing import Any

from engine.defs.conversion.convert import Conversion, convert
from engine.defs.loader import load
from engine.defs.table_settings import complete_tables
from engine.extract.context import Context
from engine.extract.page import Page
from engine.extract.records import RecordExtractor
from engine.model.definition import Definitions
from engine.model.record import to_text
from engine.settings import Settings

CSS, XPATH = "jsoupDefault", "htmlUnitDefault"
LINKS = "{jsoupDefault: {go: {class: LocatorCreator, previous: parser, next: seeder}}}"
SETTINGS = Settings(fact_not_found="-")
_DEFS = """\
locatorGroups: {{g: {{locators: [{{name: n, url: "/list/1.html"}}]}}}}
taskGroups:
  g: {{t: {{dataDef: d, steps: {steps}}}}}
  h: {{t: {{dataDef: e}}}}
dataDefs:
  e: {{fields: {{x: {{selector: b}}}}}}
  d: {table}
"""


class Converted:
    """Definitions before and after."""

    def __init__(self, folder: Path, text: str, settings: Settings = SETTINGS) -> None:
        source = folder / "source"
        source.mkdir(exist_ok=True)
        (source / "job.yml").write_text(text, "utf-8")
        loaded = load(source)
        self.before = complete_tables(loaded.definitions, settings)
        self.conversion: Conversion = convert(loaded.root, self.before)
        (folder / "job.yml").write_text(self.conversion.text(), "utf-8")
        self.after = complete_tables(load(folder / "job.yml").definitions, settings)

    @property
    def yaml(self) -> str:
        return self.conversion.text().partition("  d:\n")[2]

    def notes(self, kind: str) -> list[str]:
        return [note.text for note in self.conversion.notes if note.kind == kind]

    def rows(self, html: str) -> tuple[list[list[str]], list[list[str]]]:
        """The rows of a page as texts, before and after."""
        return _rows(self.before, html), _rows(self.after, html)


def converted(folder: Path, table: str, steps: str = CSS, settings: Settings = SETTINGS) -> Converted:
    """The definitions with a table in flow style."""
    return Converted(folder, _DEFS.format(table=table, steps=steps), settings)


def _rows(definitions: Definitions, html: str) -> list[list[str]]:
    data_def = definitions.data_def("d")
    assert data_def is not None
    page = Page(url="http://a.b/x", text=html, kind="html", status=200, fetched_at=1e9)
    context = Context(group="g", locator="n", locator_url="http://a.b/x", depth=0, run="1", run_time="")
    extraction = RecordExtractor(data_def).extract(page, context)
    assert not extraction.rejected
    return [[_text(value) for value in row.values()] for row in extraction.rows]


def _text(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else to_text(value)
