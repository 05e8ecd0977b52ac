"""Columns of databases: a value that no narrow type holds makes its column wider."""

import pytest

from crawl_engine.append.formats.typed_table import Ladder, SqlType, TypedTable, encode_moment, encode_text

MOMENTS = Ladder((SqlType("TIMESTAMP", encode_moment), SqlType("VARCHAR", encode_text)))


@pytest.mark.parametrize(
    ("moment", "place", "cell"),
    [
        ("2024-01-31T10:00:00+02:00", 0, "2024-01-31T08:00:00"),
        ("0001-01-01T00:00:00+02:00", 1, "0001-01-01T00:00:00+02:00"),
        ("9999-12-31T23:59:59-02:00", 1, "9999-12-31T23:59:59-02:00"),
    ],
)
def test_a_moment_beyond_the_years_in_utc_is_a_text(moment: str, place: int, cell: str) -> None:
    table = TypedTable("book", {"seen": MOMENTS})
    assert table.encode([(7, f'{{"seen":"{moment}"}}')], [0]) == ([place], [(7, cell)])
