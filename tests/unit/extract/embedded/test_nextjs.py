"""The data of Next.js: whole, and as flight data that is cut anywhere."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.documents.json_value import MISSING
from crawl_engine.extract.embedded.nextjs import read_page_data
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import TextSource
from tests.unit.extract.pages import CONTEXT, page

LONG = "Größe: 5 <b>\n1:no row</b> 😀"
FLIGHT = (
    '0:["$","div",null,{"id":"root","at":"$D2024-01-31T00:00:00.000Z","n":"$n123","u":"$undefined","p":"$$5"}]\n'
    '1:I[123,["static/a.js"],""]\n:HL["/a.css","style"]\n'
    f"a:T{len(LONG.encode()):x},{LONG}"
    '5:["$","$L1",null,{"products":[{"id":1,"name":"café \\"x\\"","text":"$a"},{"id":2,"price":1.10}]}]\n'
    '6:E{"digest":"1"}\nf:null\n'
)


def scripts(*parts: str) -> list[str]:
    start = "(self.__next_f=self.__next_f||[]).push([0])"
    return [start, *(f"self.__next_f.push([1,{json.dumps(part)}])" for part in parts)]


@pytest.mark.parametrize("size", [1, 2, 7, 95, 10_000])
def test_flight_data_is_joined_and_given_by_ids(size: int) -> None:
    parts = [FLIGHT[at : at + size] for at in range(0, len(FLIGHT), size)]
    data, fault = read_page_data(scripts(*parts))
    assert fault == ""
    assert data["5"][3]["products"][0] == {"id": 1, "name": 'café "x"', "text": LONG}
    assert data["0"][3] == {"id": "root", "at": "2024-01-31T00:00:00.000Z", "n": "123", "u": None, "p": "$5"}
    assert data["a"] == LONG
    assert data["f"] is None


def test_a_gap_is_said_and_the_other_rows_are_read() -> None:
    first, second, third = FLIGHT[:20], FLIGHT[20:60], FLIGHT[60:]
    data, fault = read_page_data(scripts(first, third))
    assert fault.startswith("has a gap: its row at byte 0 cannot be read")
    assert data["5"][3]["products"][1]["id"] == 2
    assert second
    _, fault = read_page_data(scripts(f"1:T{100:x},short"))
    assert "gap" in fault


def test_whole_data_and_none() -> None:
    assert read_page_data(["x()", '{"props":{"a":1}}'])[0] == {"props": {"a": 1}}
    assert read_page_data(["x()", '{"a":1}'])[0] is MISSING


@pytest.mark.parametrize("text", ["1:T", "1:Tffffffff,", ":" * 10_000, "1:[" * 5_000, "\n" * 10_000, "1:T5,ab"])
def test_hostile_flight_data_ends(text: str) -> None:
    read_page_data(scripts(text))


def test_rows_of_both_forms() -> None:
    fields = (Field(name="id", selector="jmespath: id", type="int"),)
    flight = "".join(f"<script>{text}</script>" for text in scripts(FLIGHT[:30], FLIGHT[30:]))
    data = '<script id="__NEXT_DATA__">{"props":{"products":[{"id":1},{"id":2}]}}</script>'
    for html, block in ((flight, "jmespath: *[3].products[]"), (data, "jmespath: props.products")):
        data_def = DataDef(name="d", sources=(TextSource(format="nextjs"),), block=block, fields=fields)
        extraction = RecordExtractor(data_def).extract(page(f"<p>x</p>{html}"), CONTEXT)
        assert extraction.rows == ({"id": 1}, {"id": 2})


@given(st.lists(st.integers(0, len(FLIGHT)), max_size=8))
def test_it_may_be_cut_anywhere(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(FLIGHT)]
    parts = [FLIGHT[start:end] for start, end in itertools.pairwise(places)]
    assert read_page_data(scripts(*parts)) == read_page_data(scripts(FLIGHT))


@given(st.text('0123abcf:TIH$[]{}",\n', max_size=60))
def test_any_flight_data_is_read_or_has_a_gap(text: str) -> None:
    data, _ = read_page_data(scripts(text))
    assert isinstance(data, dict)
