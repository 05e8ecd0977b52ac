"""The options of CSV: byte order mark, quoting, delimiter."""

import codecs
import csv
import io
from typing import Any

import pytest

from crawl_engine.append.formats.writer import create_encoder

ROWS = ['{"a":1.50,"b":"x;y","c":true,"d":[1,2]}', '{"a":"7","b":null,"d":["p","q"]}']


def encoded(**options: Any) -> bytes:
    encoder = create_encoder("csv", {"columns": ["a", "b", "c", "d"], **options})
    return encoder.header() + encoder.rows(ROWS[:1]) + encoder.rows(ROWS[1:])


@pytest.mark.parametrize(
    ("quoting", "lines"),
    [
        ("minimal", ["a,b,c,d", "1.50,x;y,true,1|2", "7,,,p|q"]),
        ("all", ['"a","b","c","d"', '"1.50","x;y","true","1|2"', '"7","","","p|q"']),
        ("nonnumeric", ['"a","b","c","d"', '1.50,"x;y","true","1|2"', '"7","","","p|q"']),
    ],
)
def test_quoting(quoting: str, lines: list[str]) -> None:
    assert encoded(quoting=quoting).decode() == "".join(f"{line}\r\n" for line in lines)


def test_the_byte_order_mark_is_only_at_the_start() -> None:
    data = encoded(bom=True)
    assert data.startswith(codecs.BOM_UTF8 + b"a,b,c,d\r\n")
    assert data.count(codecs.BOM_UTF8) == 1
    assert data.removeprefix(codecs.BOM_UTF8) == encoded()


def test_numbers_have_the_decimal_mark_and_nothing_else_does() -> None:
    columns = ["n", "i", "e", "t", "l", "o", "b", "f", "m"]
    encoder = create_encoder("csv", {"columns": columns, "decimal": ",", "delimiter": ";", "escape_formulas": True})
    row = '{"n":-1116.90,"i":7,"e":1.5e3,"t":"1.5","l":[1.5,2],"o":{"amount":1.5},"b":true,"f":"=1.5","m":[{"n":1.5}]}'
    assert encoder.rows([row]).decode() == (
        '-1116,90;7;1,5e3;1.5;1,5|2;"{""amount"":1.5}";true;\'=1.5;"[{""n"":1.5}]"\r\n'
    )
    quoted = create_encoder("csv", {"columns": ["n", "t"], "decimal": ",", "delimiter": ";", "quoting": "nonnumeric"})
    assert quoted.rows(['{"n":-1116.90,"t":"1.5"}']).decode() == '-1116,90;"1.5"\r\n'


def test_quoted_numbers_keep_their_digits_and_formulas_are_escaped() -> None:
    digits = "123456789012345678901234567890.10"
    encoder = create_encoder(
        "csv", {"columns": ["n", "f"], "quoting": "nonnumeric", "escape_formulas": True, "delimiter": "\t"}
    )
    assert encoder.rows([f'{{"n":-{digits},"f":"=1"}}']).decode() == f'-{digits}\t"\'=1"\r\n'
    read = csv.reader(io.StringIO(f'-{digits}\t"x"\r\n', newline=""), delimiter="\t", quoting=csv.QUOTE_NONNUMERIC)
    assert next(read) == [float(f"-{digits}"), "x"]
