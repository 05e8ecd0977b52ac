"""Appenders that are databases: what `check` refuses."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.runtime import extras

DEFS = """
locatorGroups: {{books: {{locators: [{{url: "https://shop.example/"}}]}}}}
taskGroups: {{books: {{page: {{dataDef: book}}}}}}
dataDefs: {{book: {{fields: {{title: {{selector: h1}}}}}}}}
appenders: {{server: {appender}}}
"""
URL = "url: 'postgresql://crawler:%{env.PGPASSWORD}@db.example/shop'"


def problems(folder: Path, appender: str) -> list[str]:
    (folder / "defs.yml").write_text(DEFS.format(appender=appender))
    try:
        load(folder / "defs.yml")
    except DefsError as error:
        return [line.partition(" ")[2] for line in str(error).splitlines() if line.startswith("defs.yml:")]
    return []


@pytest.mark.parametrize(
    ("appender", "problem"),
    [
        (f"{{type: postgresql, {URL}, batch: 10, limit: 5, columns: [title]}}", None),
        ("{type: postgresql, url: '%{env.DATABASE_URL}'}", None),
        ("{type: postgresql}", "missing-key `type: postgresql` needs `url`"),
        ("{type: postgresql, url: 'https://db.example/'}", "bad-url must be a postgresql:// URL"),
        ("{type: postgresql, url: 'mysql://db.example/'}", "bad-url `url` must be an absolute http://"),
        (f"{{type: http, {URL}}}", "bad-url a postgresql:// URL needs `type: postgresql`"),
        (f"{{type: postgresql, {URL}, path: x.db}}", "conflict `path` has no effect with `type: postgresql`"),
        (f"{{type: postgresql, {URL}, headers: {{A: b}}}}", "conflict `headers` has no effect"),
        ("{type: duckdb, delimiter: ';'}", "conflict `delimiter` has no effect with `type: duckdb`"),
    ],
)
def test_what_a_database_needs(tmp_path: Path, appender: str, problem: str | None) -> None:
    found = problems(tmp_path, appender)
    assert len(found) == (problem is not None), found
    assert all(text.startswith(problem or "") for text in found), found


@pytest.mark.parametrize(
    ("key", "columns", "problem"),
    [
        ("[title]", "columns: [title]", None),
        ("[title]", "columns: [price]", "title"),
        ("[price]", "flatten: true", "price"),
    ],
)
def test_a_table_needs_the_columns_of_its_key(tmp_path: Path, key: str, columns: str, problem: str | None) -> None:
    fields = "fields: {title: {selector: h1}, price: {selector: b, type: price}}"
    (tmp_path / "defs.yml").write_text(
        DEFS.format(appender=f"{{type: postgresql, {URL}, {columns}}}").replace(
            "fields: {title: {selector: h1}}", f"key: {key}, {fields}"
        )
    )
    if problem is None:
        load(tmp_path)
        return
    with pytest.raises(DefsError, match=f"missing-column the table needs the column '{problem}'"):
        load(tmp_path)


def test_a_missing_library_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    for type_ in ("duckdb", "postgresql"):
        [problem] = problems(tmp_path, f"{{type: {type_}{', ' + URL if type_ == 'postgresql' else ''}}}")
        assert problem == (
            f"missing-library `type: {type_}` needs a library that is not installed; "
            f"install it: pip install 'crawl-console[{type_}]'"
        )
