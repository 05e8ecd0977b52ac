"""Reads the type `table`: the rows of an HTML table, each an object by heading."""

from typing import Any

from crawl_engine.extract.fields.convert import Converter, StepCheck, TypeReader
from crawl_engine.extract.fields.step_values import objects_of
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.extract.select.table_grid import find_table, read_table, read_table_columns
from crawl_engine.model.definition import Field


class TableFieldReader(TypeReader):
    """Reads tables out of the elements that match."""

    reads_elements = True

    def converter(self, _field: Field) -> Converter:
        """Only a default is a text, and that of a step may be JSON."""
        from crawl_engine.extract.fields.types.json import read_json  # a text is rare

        return read_json

    def read_elements(self, field: Field, selector: Selector, scope: Scope, reading: PageReading) -> Any:
        """The rows of the first table, or of each one."""
        nodes = selector.all(scope) if field.all else [selector.first(scope)]
        elements = [Scope(scope.page, node).html for node in nodes if node is not None]
        read = read_table if field.header is None else read_table_columns
        tables = [read(table, reading) for table in map(find_table, elements) if table is not None]
        return tables if field.all else next(iter(tables), [])

    def step_check(self, _field: Field) -> StepCheck:
        """A list of objects."""
        return lambda value, _page: objects_of(value)


READER = TableFieldReader()
