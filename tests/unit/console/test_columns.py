"""What holds for every column of the console's tables: they are declared alike, and each can be chosen by a key."""

import importlib
import pkgutil

import pytest

import crawl_console
from crawl_console.tui.widgets.line_table import LineTable, PlacedColumn, sort_letters
from crawl_console.words.table import Column, item_row, named_row


def all_tables():
    """Every sequence of columns, by where it stands."""
    for module in pkgutil.walk_packages(crawl_console.__path__, "crawl_console."):
        if ".words." in module.name or ".tui." in module.name or ".web.pages." in module.name:
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, type) and issubclass(value, LineTable):
                    value = value.COLUMNS
                if isinstance(value, tuple | list) and value and all(isinstance(each, Column) for each in value):
                    yield f"{module.name}.{name}", value


TABLES = dict(all_tables())


@pytest.mark.parametrize("table", TABLES)
def test_columns_say_what_they_show(table):
    columns = TABLES[table]
    assert len({column.title for column in columns}) == len(columns)
    for column in columns:
        assert column.help and len(column.help) <= 44, column
        assert len(column.title) <= (column.width or 99), column
    assert sum(not column.width for column in columns) <= 1


def column(title):
    return Column(title, 4, lambda item: (item[title], "text"), lambda item: item[title], "a test")


def test_a_table_of_more_than_26_columns_is_sorted_by_each():
    placed = [PlacedColumn(number, column(f"C{number}"), number * 5, 4) for number in range(70)]
    letters = sort_letters(placed)
    assert len(letters) == 62
    assert [each.place for each in letters.values()] == list(range(62))
    assert "".join(letters) == "cabdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def test_rows_are_made_by_their_columns():
    columns = [column("A"), column("B"), column("C")]
    item = {"A": "1", "B": "2", "C": "3"}
    row = item_row(columns, "k", item, instead={"B": ("two", "dim")})
    assert row.cells == (("1", "text"), ("two", "dim"), ("3", "text"))
    assert row.sort_values == ("1", "2", "3")
    assert named_row(columns, "k", {"A": ("1", "text")}, ("rest", "dim")).cells == (("1", "text"), ("rest", "dim"))
    assert named_row(columns, "k", {"C": ("3", "text")}).cells == (("", "dim"), ("", "dim"), ("3", "text"))
