"""Each type of the table has a reader, which reads texts of pages, defaults, values of `map` and those of steps."""

import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from crawl_engine.extract.fields.convert import LateReader, TypeReader, reader_of
from crawl_engine.extract.fields.fields import FieldReader
from crawl_engine.extract.select.css import Speed
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import FIELD_TYPES
from tests.unit.extract.pages import URL, value

STORED: dict[str, type | tuple[type, ...]] = {
    "text": str, "int": int, "float": float, "decimal": Decimal, "bool": bool, "json": object, "rows": list,
    "object": dict,
}  # fmt: skip
TEXTS = ("1", "2024-05-01")
"""One of them is a text of each type."""
PAGE = SimpleNamespace(base=URL, fetched_at=0.0)


def read_first(read: Any) -> Any:
    for text in TEXTS:
        try:
            return read(text)
        except (ValueError, AssertionError):
            pass
    raise AssertionError("no text fits")


@pytest.mark.parametrize("name", FIELD_TYPES)
def test_each_type_reads_texts_defaults_and_what_steps_give(name: str) -> None:
    reader, field, stored = reader_of(name), Field(name="f", type=name), FIELD_TYPES[name].stored
    assert isinstance(reader, TypeReader)
    for converter in (reader.converter(field), reader.default_converter(field)):
        assert isinstance(
            read_first(lambda text, convert=converter: convert("[{}]" if stored == "rows" else text, URL)),
            STORED[stored],
        )
    given = {
        "int": 1,
        "float": 1.0,
        "bool": True,
        "rows": [{}],
        "text": read_first(lambda t: reader.converter(field)(t, URL)),
    }
    assert isinstance(reader.step_check(field)(given.get(stored, 1), PAGE), STORED[stored])
    with pytest.raises(ValueError, match="it must be"):
        reader.step_check(field)(object(), PAGE)


@pytest.mark.parametrize("name", [name for name, one in FIELD_TYPES.items() if not one.extra])
def test_each_type_is_read_from_a_page_and_has_its_default(name: str) -> None:
    markup = "<table><tr><td>1</td></tr></table>" if name == "table" else "<b>{}</b>"
    found = read_first(lambda text: value(markup.format(text), selector=markup[1:].partition(">")[0], type=name))
    assert isinstance(found, STORED[FIELD_TYPES[name].stored])
    default = [{}] if name == "table" else "2024-05-01" if name == "date" else "1"
    missing = value("<p></p>", selector="u", type=name, has_default=True, default=default)
    assert isinstance(missing, STORED[FIELD_TYPES[name].stored])


def test_a_type_that_is_not_installed_rejects_the_record_and_is_read_in_a_process_of_its_own() -> None:
    reader = reader_of("nothing")
    assert isinstance(reader, LateReader)
    with pytest.raises(ValueError, match="`type: nothing`: no installed package adds it"):
        reader.converter(Field(name="f", type="nothing"))("x", URL)
    assert FieldReader(Field(name="f", type="nothing")).speed is Speed.SLOW
    assert {name for name in FIELD_TYPES if FieldReader(Field(name="f", type=name)).speed is Speed.SLOW} == {"markdown"}


def test_readers_are_loaded_when_a_field_has_their_type() -> None:
    code = (
        "import sys\nfrom crawl_engine.extract.fields.fields import FieldReader\n"
        "from crawl_engine.model.definition import Field\nFieldReader(Field(name='f'))\n"
        "print(sorted(name.rpartition('.')[2] for name in sys.modules if '.fields.types.' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['str']\n"
