"""Plugin classes as the types of appenders: what is found, and what is reported where."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions
from crawl_engine.supervise.outputs import output_settings

PLUGIN = '''
class Crm:
    """Sends rows."""
    def __init__(self, token="", size=1): ...
    def append(self, rows): ...

class Xml:
    suffix = ".xml"
    def header(self, columns): ...
    def encode(self, rows): ...

class Plain(Xml):
    suffix: str = "txt"

class Bare:
    def header(self, columns): ...
    def encode(self, rows): ...

class Both(Crm, Xml): ...
class Headless:
    def encode(self, rows): ...
class Thin:
    def append(self): ...
class Footed(Xml):
    def footer(self, rows): ...
class Slash(Xml):
    suffix = "../x"
class Mark:
    def run(self, rows, context): ...
class Foreign(SomethingElse): ...
'''
DEFS = """\
locatorGroups: {books: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {books: {page: {dataDef: book}, more: {dataDef: shelf}}}
dataDefs:
  book: {fields: {title: {selector: h1}, price: {selector: i}, sizes: {selector: b, all: true, type: int}}}
  shelf: {fields: {name: {selector: h1}}}
appenders:
"""


def loaded(tmp_path: Path, appenders: str) -> Definitions:
    (tmp_path / "plugins").mkdir(exist_ok=True)
    (tmp_path / "plugins" / "out.py").write_text(PLUGIN, "utf-8")
    (tmp_path / "a.yml").write_text(DEFS + appenders, "utf-8")
    return load(tmp_path).definitions


def problems(tmp_path: Path, appenders: str) -> list[str]:
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, appenders)
    return [str(problem) for problem in raised.value.problems]


def test_a_class_is_a_type(tmp_path: Path) -> None:
    definitions = loaded(
        tmp_path,
        "  crm: {type: out.Crm, options: {token: a, size: 3}, dataDefs: [book], limit: 500ms}\n"
        "  xml: {type: out.Xml}\n  txt: {type: out.Plain}\n  bare: {type: out.Bare, dataDefs: [book], path: b.bin}\n",
    )
    bare, crm, txt, xml = definitions.appenders
    assert (crm.kind, crm.options, crm.limit, crm.suffix) == ("appender", {"token": "a", "size": 3}, 0.5, "")
    assert [(a.kind, a.suffix) for a in (xml, txt, bare)] == [
        ("encoder", "xml"),
        ("encoder", "txt"),
        ("encoder", "out"),
    ]
    assert crm.code
    assert Definitions.from_json(definitions.to_json()) == definitions
    book = definitions.data_def("book")
    assert book is not None
    settings = output_settings(book, crm)
    assert settings["item_types"] == {"sizes": "int"}
    assert settings["options"] == {"token": "a", "size": 3}
    assert set(output_settings(book)) == {"columns", "joins", "types", "delimiter"}


def test_the_code_of_a_class_is_part_of_its_appender_alone(tmp_path: Path) -> None:
    before = loaded(tmp_path, "  crm: {type: out.Crm}\n  rows: {type: csv}\n")
    global PLUGIN
    text, PLUGIN = PLUGIN, PLUGIN.replace("Sends rows", "Sends all rows")
    try:
        after = loaded(tmp_path, "  crm: {type: out.Crm}\n  rows: {type: csv}\n")
    finally:
        PLUGIN = text
    changed = [a.name for a, b in zip(before.appenders, after.appenders, strict=True) if a.code != b.code]
    assert changed == ["crm"]


def test_a_type_whose_library_is_missing_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.runtime.extras.find_spec", lambda _: None)
    assert problems(tmp_path, "  x: {type: parquet}\n") == [
        f"{tmp_path.name}/a.yml:7:13: missing-library `type: parquet` needs a library that is not installed;"
        " install it: pip install 'crawl-console[parquet]'"
    ]


@pytest.mark.parametrize(
    ("appenders", "place", "expected"),
    [
        ("{type: out.Cmr}", "7:13", "unknown-appender unknown appender 'out.Cmr' (did you mean 'out.Crm'?)"),
        ("{type: cvs}", "7:13", "unknown-appender unknown appender 'cvs' (did you mean 'csv'?)"),
        ("{type: out.Mark}", "7:13", "bad-appender 'out.Mark' (plugins/out.py:28): it has neither"),
        ("{type: out.Both}", "7:13", "it must define one of `encode` or `append` itself, and not both"),
        ("{type: out.Foreign}", "7:13", "it must define one of `encode` or `append` itself, and not both"),
        ("{type: out.Headless}", "7:13", "it has no method `header`, which an encoder needs"),
        ("{type: out.Thin}", "7:13", "its method `append` must take 1 argument besides `self`"),
        ("{type: out.Footed}", "7:13", "its method `footer` must take no argument besides `self`"),
        ("{type: out.Slash}", "7:13", "its `suffix` cannot be './x'"),
        ("{type: out.Crm, path: x}", "7:22", "conflict `path` has no effect with `type: out.Crm`"),
        ("{type: out.Crm, delimiter: ;}", "7:22", "conflict `delimiter` has no effect with `type: out.Crm`"),
        ("{type: out.Xml, escapeFormulas: true}", "7:22", "conflict `escapeFormulas` has no effect"),
        ("{type: csv, options: {a: 1}}", "7:18", "conflict `options` has no effect with `type: csv`"),
        ("{limit: 5}", "7:7", "conflict `limit` has no effect with `type: csv`"),
        ("{type: out.Crm, limit: never}", "7:29", "out-of-range `limit` must be a time from 1 ms to 1 hour"),
        ("{type: out.Crm, options: {a-b: 1}}", "7:32", "bad-name 'a-b' cannot be an option"),
        ("{type: out.Xml, path: all.xml}", "7:22", "same-file one out.Xml file cannot hold several dataDefs"),
        ("{type: out.Xml}\n  y: {type: out.Xml}", "8:3", "same-file 'y' and 'x' would both write 'book.xml'"),
    ],
)  # fmt: skip
def test_a_problem_has_its_place(tmp_path: Path, appenders: str, place: str, expected: str) -> None:
    reported = problems(tmp_path, f"  x: {appenders}\n")
    assert any(line.startswith(f"{tmp_path.name}/a.yml:{place}: ") and expected in line for line in reported), reported
    assert len(reported) == 1


def test_two_appenders_without_a_file_do_not_conflict(tmp_path: Path) -> None:
    assert len(loaded(tmp_path, "  x: {type: out.Crm}\n  y: {type: out.Crm}\n").appenders) == 2
