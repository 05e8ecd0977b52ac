"""The URLs of files in rows, and the files in their places."""

from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.file import fill_row, list_file_fields, number_urls

DATA_DEF = DataDef(
    name="d",
    fields=(
        Field(name="title"),
        Field(name="file", type="file"),
        Field(name="all", type="file", all=True),
        Field(name="parts", selector="p", fields=(Field(name="n"), Field(name="scan", type="file", all=True))),
    ),
)
PATHS = (("file",), ("all",), ("parts", "scan"))
ROW = '{"title":1.50,"file":"u1","all":["u2","u3"],"parts":[{"n":"x","scan":["u1"]},{"n":"y","scan":[]}]}'


def test_file_fields_are_listed_with_nested_ones() -> None:
    assert list_file_fields(DATA_DEF) == PATHS
    assert list_file_fields(DataDef(name="e", fields=(Field(name="x", type="url"),))) == ()


def numbers_of(row: str, *without: str) -> tuple[str, list[tuple[object, int]]]:
    known = dict[str, int]()

    def number_of(url: str) -> int | None:
        return None if url in without else known.setdefault(url, len(known))

    row, numbers = number_urls(row, PATHS, number_of)
    return row, [(place, number) for place, number in numbers]


def test_urls_are_numbered_with_their_places() -> None:
    assert numbers_of(ROW) == (
        ROW, [(("file",), 0), (("all", 0), 1), (("all", 1), 2), (("parts", 0, "scan", 0), 0)],
    )  # fmt: skip
    empty = '{"title":null,"file":null,"all":[],"parts":null}'
    assert numbers_of(empty) == (empty, [])


def test_a_url_without_a_number_becomes_null() -> None:
    row = '{"title":1.50,"file":null,"all":["u2","u3"],"parts":[{"n":"x","scan":[null]},{"n":"y","scan":[]}]}'
    assert numbers_of(ROW, "u1") == (row, [(("all", 0), 0), (("all", 1), 1)])


def test_files_take_their_places_and_all_else_stays_as_written() -> None:
    filled = fill_row(ROW, {("file",): {"path": "é"}, ("all", 1): None, ("parts", 0, "scan", 0): 7})
    assert filled == (
        '{"title":1.50,"file":{"path":"é"},"all":["u2",null],"parts":[{"n":"x","scan":[7]},{"n":"y","scan":[]}]}'
    )


def test_numbers_keep_their_digits() -> None:
    row = '{"a":1116.90,"b":123456789012345678901234567890,"c":1e400,"d":-0.0,"e":"\\u0000\\n","file":"u"}'
    assert fill_row(row, {("file",): None}) == row.replace('"u"', "null")
