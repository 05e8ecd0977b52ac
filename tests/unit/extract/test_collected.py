"""The rows and links of a page that was read in several states: one set, by the key of the dataDef."""

from itertools import pairwise
from typing import Any

from crawl_engine.extract.documents.page_states import find_difference, write_states
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field, FilterRule, Link
from crawl_engine.model.record import Extraction
from crawl_engine.node.extraction.page_extraction import parse_page
from tests.unit.extract.pages import CONTEXT, URL

FIELDS = (Field(name="id", selector="b"), Field(name="price", selector="i", type="decimal", required=True))
ROWS = DataDef(name="item", block="li", fields=FIELDS, key=("id",))


def row(number: int, price: str) -> str:
    return f"<li><b>{number}</b><i>{price}</i><a href='/p/{number}'>more</a></li>"


def extract(data_def: DataDef, *states: str) -> Extraction:
    documents = [f"<ul>{state}</ul>".encode() for state in states]
    body = write_states(documents[-1], len(documents[-1]), [find_difference(*pair) for pair in pairwise(documents)])
    page = parse_page(body, "text/html; charset=utf-8", url=URL, status=200, fetched_at=0.0)
    assert page.utf8 == documents[-1], "selectors see the last state"
    return RecordExtractor(data_def).extract(page, CONTEXT)


def rows_of(extraction: Extraction) -> list[tuple[str, str]]:
    return [(found["id"], str(found["price"])) for found in extraction.rows]


def test_a_record_of_several_states_is_one_row_as_the_last_one_has_it() -> None:
    windows = [row(1, "1") + row(2, "2"), row(2, "2.5") + row(3, "3"), row(3, "3") + row(4, "4")]
    extraction = extract(ROWS, *windows)
    assert rows_of(extraction) == [("1", "1"), ("2", "2.5"), ("3", "3"), ("4", "4")]
    assert (extraction.counts.records, extraction.counts.rejected) == (4, 0)


def test_a_place_that_is_filled_later_is_no_rejected_record() -> None:
    empty, late = "<li><b></b></li>" * 3, "<li><b>2</b><i></i></li>"
    extraction = extract(ROWS, empty, row(1, "1") + late, row(2, "2") + row(3, "x"), row(4, "4"))
    assert rows_of(extraction) == [("1", "1"), ("2", "2"), ("4", "4")]
    assert [rejection.field for rejection in extraction.rejected] == ["price"]
    assert dict(extraction.counts.missing)["price"] == 0
    last = extract(ROWS, row(1, "1"), empty)
    assert (len(last.rows), len(last.rejected)) == (1, 3), "what the last state lacks is told"


def with_links(link: Link, **more: Any) -> DataDef:
    return DataDef(name="item", block="li", fields=FIELDS, key=("id",), links=(link,), **more)


def test_filters_and_links_see_each_state() -> None:
    filters: Any = (FilterRule(field="price", pattern="2"),)
    windows = row(1, "1") + row(2, "2"), row(2, "2") + row(3, "2"), row(3, "3")
    extraction = extract(with_links(Link(selector="a"), filters=filters), *windows)
    assert rows_of(extraction) == [("1", "1"), ("3", "3")]
    assert extraction.counts.filtered == 1
    assert [link.url[-4:] for link in extraction.links] == ["/p/1", "/p/2", "/p/3"]


def test_carried_values_of_a_record_that_has_left_the_page_go_along() -> None:
    links = (Link(selector="a", in_block=True, carry=("price",)),)
    extraction = extract(
        DataDef(name="item", block="li", fields=FIELDS, key=("id",), links=links), row(1, "1"), row(2, "2")
    )
    assert [(link.url[-4:], link.details and link.details.carried) for link in extraction.links] == [
        ("/p/1", '[{"price":"1"},""]'),
        ("/p/2", '[{"price":"2"},""]'),
    ]


def test_without_a_key_the_last_state_is_the_page() -> None:
    page = DataDef(name="page", fields=(Field(name="id", selector="b"), Field(name="price", selector="i")))
    assert rows_of(extract(page, row(1, "1"), row(2, "2"))) == [("2", "2")]
