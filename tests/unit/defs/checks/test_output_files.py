"""The files and columns of appenders: what is built, and what is reported where."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions
from crawl_engine.supervise.outputs import output_settings

DEFS = """\
locatorGroups: {books: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {books: {page: {dataDef: book}, more: {dataDef: shelf}}}
dataDefs:
  book:
    fields: {title: {selector: h1}, price: {selector: i, type: price}, tags: {selector: b, all: true, join: ";"}}
  shelf: {fields: {title: {selector: h1}}}
appenders:
"""


def loaded(tmp_path: Path, appenders: str, defs: str = DEFS) -> Definitions:
    (tmp_path / "a.yml").write_text(defs + appenders, "utf-8")
    return load(tmp_path).definitions


def test_chosen_and_flattened_columns_have_the_types_and_joins_of_their_fields(tmp_path: Path) -> None:
    defs = loaded(tmp_path, "  x: {dataDefs: [book], columns: [tags, price, title], flatten: true}")
    assert output_settings(defs.data_defs[0], defs.appenders[0]) == {
        "columns": ["tags", "price.amount", "price.currency", "title"],
        "joins": {"tags": ";"},
        "types": {"price.amount": "decimal", "price.currency": "str", "title": "str"},
        "delimiter": ",",
        "paths": {"price.amount": ["price", "amount"], "price.currency": ["price", "currency"]},
    }


def test_one_part_of_a_field_can_be_chosen(tmp_path: Path) -> None:
    defs = loaded(tmp_path, "  x: {dataDefs: [book], columns: [price.amount], flatten: true}")
    assert output_settings(defs.data_defs[0], defs.appenders[0])["columns"] == ["price.amount"]


def test_a_store_whose_library_is_missing_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.runtime.extras.find_spec", lambda _: None)
    assert loaded(tmp_path, '  x: {path: "file:///srv/{dataDef}.csv"}').appenders
    with pytest.raises(DefsError, match=r"install it: pip install 'crawl-console\[objectstore\]'"):
        loaded(tmp_path, '  x: {path: "s3://bucket/{dataDef}.csv"}')


@pytest.mark.parametrize(
    "path", ["s3://bucket/a/{dataDef}.csv", "{dataDef}-{run.date}.csv.gz", "/srv/{run.id}/{dataDef}.csv", '"{dataDef}"']
)
def test_a_path_may_hold_names_and_be_absolute(tmp_path: Path, path: str) -> None:
    quoted = path if path.startswith('"') else f'"{path}"'
    assert loaded(tmp_path, f"  x: {{path: {quoted}}}").appenders[0].path == path.strip('"')


@pytest.mark.parametrize(
    ("appender", "place", "expected"),
    [
        (
            '{path: "{datadef}.csv"}',
            "8:13",
            "bad-path `path`: unknown {datadef} (did you mean '{dataDef}'?); it may hold",
        ),
        ('{path: "{run.day}-{dataDef}.csv"}', "8:13", "unknown {run.day}"),
        ('{path: "{dataDef.csv"}', "8:13", "has a brace without its other one"),
        ('{path: "%{run.date}{dataDef}.csv"}', "8:13", "cannot have `%{…}`; write for example {run.date}"),
        ('{path: "sub/{dataDef}.csv"}', "8:13", "has a path separator; write a file name, or an absolute path"),
        ('{path: "/srv/../{dataDef}.csv"}', "8:13", "cannot have '.' as a name, or contain '..'"),
        ('{path: "/srv/{dataDef}/"}', "8:13", "names a folder; write a file"),
        (f'{{path: "{"x" * 201}{{dataDef}}"}}', "8:13", "a file name in it is longer than 200 bytes"),
        (
            '{path: "ftp://host/{dataDef}.csv"}',
            "8:13",
            "'ftp://' is not a store; write s3://, gs://, az:// or file:///",
        ),
        ('{path: "s3://key:secret@b/{dataDef}.csv"}', "8:13", "cannot have credentials; the environment has them"),
        ('{path: "s3:///{dataDef}.csv"}', "8:13", "names no bucket: s3://BUCKET/…"),
        ('{path: "file://srv/{dataDef}.csv"}', "8:13", "must be absolute, such as file:///srv/books.csv"),
        ('{path: "gs://bucket/{dataDef}/"}', "8:13", "names a folder; write a file"),
        ('{path: "az://box//{dataDef}.csv"}', "8:13", "cannot have an empty name, '.' or '..' in it"),
        (
            "{type: sqlite, path: s3://b/all.db}",
            "8:21",
            "one sqlite file cannot hold several dataDefs",
        ),
        ("{path: {dataDef}.csv}", "8:22", "; quote a path that contains braces"),
        ("{path: /srv/all.csv}", "8:7", "same-file one csv file cannot hold several dataDefs; write {dataDef} in"),
        ('{path: "file:///srv/{dataDef}.csv"}\n  y: {path: "/srv/{dataDef}.csv"}', "9:3", "same-file 'y'"),
        ('{path: "/srv//{dataDef}.csv"}\n  y: {path: "/srv/{dataDef}.csv"}', "9:3", "same-file 'y' and 'x' would both"),
        ("{type: sqlite, path: all.db.gz}", "8:21", "conflict `path`: sqlite files are not compressed; omit the last"),
        (
            "{path: '{dataDef}.parquet'}",
            "8:7",
            "`path` ends as a parquet file, and without `type` it is csv; write `type: p",
        ),
        ("{path: '{dataDef}.JSONL.gz'}", "8:7", "conflict `path` ends as a jsonl file"),
        ("{bom: yes}", "8:12", "wrong-type `bom` must be true or false, not the text 'yes'"),
        ("{quoting: none}", "8:16", "unknown-value `quoting` cannot be the text 'none'"),
        ("{type: jsonl, bom: true}", "8:20", "conflict `bom` has no effect with `type: jsonl`"),
        ("{type: sqlite, quoting: all}", "8:21", "conflict `quoting` has no effect with `type: sqlite`"),
        ("{type: scoopi, flatten: true}", "8:21", "conflict `flatten` has no effect with `type: scoopi`"),
        ("{type: http, url: 'https://x.example', columns: [a]}", "8:45", "conflict `columns` has no effect"),
        ("{columns: [titel]}", "8:17", "unknown-column 'book' has no field 'titel' (did you mean 'title'?)"),
        ("{columns: [price]}", "8:17", "unknown-column 'shelf' has no field 'price'"),
        ("{dataDefs: [book], columns: [price.amount]}", "8:35", "it is a column with `flatten: true`"),
        ("{columns: title}", "8:16", "wrong-type `columns` must be a list"),
        ("{columns: []}", "8:7", "empty-list"),
        ("{dataDefs: [book], columns: [price_currency]}", "8:35", "it is a column with `price: columns`"),
        ("{price: rows}", "8:14", "unknown-value `price` cannot be the text 'rows'"),
        ("{type: scoopi, price: columns}", "8:21", "conflict `price` has no effect with `type: scoopi`"),
        ("{type: jsonl, decimal: ','}", "8:20", "conflict `decimal` has no effect with `type: jsonl`"),
        ("{decimal: ','}", "8:7", "write another one, such as `delimiter: ';'`"),
        ("{decimal: ';', delimiter: ';'}", "8:16", "unknown-value `decimal`"),
        ("{flatten: 1}", "8:16", "wrong-type `flatten` must be true or false"),
    ],
)
def test_a_problem_has_its_place(tmp_path: Path, appender: str, place: str, expected: str) -> None:
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, f"  x: {appender}")
    problems = [str(problem) for problem in raised.value.problems]
    assert any(f":{place}" in problem and expected in problem for problem in problems), problems


def test_an_amount_and_its_currency_are_columns_with_plain_names(tmp_path: Path) -> None:
    defs = loaded(tmp_path, "  x: {dataDefs: [book], price: columns, decimal: ',', delimiter: ';'}")
    assert output_settings(defs.data_defs[0], defs.appenders[0]) == {
        "columns": ["title", "price", "price_currency", "tags"],
        "joins": {"tags": ";"},
        "types": {"title": "str", "price": "decimal", "price_currency": "str"},
        "delimiter": ";",
        "paths": {"price": ["price", "amount"], "price_currency": ["price", "currency"]},
        "decimal": ",",
    }
    for chosen, columns in (("price", ["price", "price_currency"]), ("price_currency", ["price_currency"]),
                            ("price.amount", ["price"])):  # fmt: skip
        defs = loaded(tmp_path, f"  x: {{dataDefs: [book], price: columns, columns: [{chosen}]}}")
        assert output_settings(defs.data_defs[0], defs.appenders[0])["columns"] == columns
    named = DEFS.replace("title: {selector: h1}, price", "price_currency: {selector: h1}, price")
    with pytest.raises(DefsError, match=r"`price`: two columns of 'book' would be named 'price_currency'"):
        loaded(tmp_path, "  x: {dataDefs: [book], price: columns}", named)


def test_two_columns_of_one_name_are_reported(tmp_path: Path) -> None:
    defs = DEFS.replace("title: {selector: h1}, price", "price.amount: {selector: h1}, price")
    with pytest.raises(DefsError, match=r"two columns of 'book' would be named 'price\.amount'; rename the field"):
        loaded(tmp_path, "  x: {dataDefs: [book], flatten: true}", defs)


FILES = DEFS.replace("shelf: {fields: {", "shelf: {fields: {cover: {selector: img, attribute: src, type: file}, ")


@pytest.mark.parametrize(
    ("appender", "expected"),
    [
        ('{type: files, dataDefs: [shelf], fileName: "%{field.nam}"}', "unknown variable `%{field.nam}` for 'shelf'"),
        ('{type: files, dataDefs: [shelf], fileName: "%{download.nme}"}', "did you mean 'download.name'"),
        ("{type: files, dataDefs: [book]}", "'book' has no field of `type: file`"),
        ("{type: files}", "'book' has no field of `type: file`"),
        ("{type: files, dataDefs: [shelf], path: /srv/x.links}", "`path` of `type: files` is a name"),
        ("{type: files, dataDefs: [shelf], path: x.links.gz}", "files files are not compressed"),
        ('{type: csv, fileName: "%{field.title}"}', "`fileName` has no effect with `type: csv`"),
    ],
)
def test_names_of_files_are_checked(tmp_path: Path, appender: str, expected: str) -> None:
    with pytest.raises(DefsError) as raised:
        loaded(tmp_path, f"  x: {appender}", FILES)
    assert any(expected in problem.message for problem in raised.value.problems), raised.value.problems
