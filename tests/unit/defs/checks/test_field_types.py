"""What follows from the table of field types: each is tried for every type in it."""

from pathlib import Path

import jsonschema
import pytest

from crawl_engine.defs.language.keys import keys_of
from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.installed import NameTable
from crawl_engine.model.definition import Field
from crawl_engine.model.field_type import FIELD_TYPES, OWN_KEYS, FieldType
from crawl_engine.runtime.extras import find_extra
from tests.unit.defs.language.test_strictness import load_problems, write_defs

VALUES = {"format": "'%d.%m.%Y'", "header": "columns", "locale": "de", "magnitudes": "true", "decimalMark": "','"}
HEAD = """\
locatorGroups: {list: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {list: {items: {dataDef: item}}}
dataDefs:
  item:
    query: {block: li}
    fields:
"""
every_type = pytest.mark.parametrize("type_", FIELD_TYPES.values(), ids=FIELD_TYPES)


def defs_of(*fields: str) -> str:
    """Defs with these fields, one a line from line 7 on."""
    lines = "".join(f"      f{number}: {{{field}}}\n" for number, field in enumerate(fields))
    return HEAD + lines


def write_key(key: str) -> str:
    return f"{key}: {VALUES.get(key, chr(39) + ' ' + chr(39))}"


@every_type
def test_a_type_is_declared_by_names_that_exist(type_: FieldType) -> None:
    assert {key.name for key in type_.keys} | {key.beside[0] for key in type_.keys if key.beside} <= {*keys_of(Field)}
    assert {inner for _, inner in type_.parts} <= {*FIELD_TYPES}
    assert bool(type_.parts) or type_.stored != "object"
    assert not type_.extra or find_extra(type_.extra) is not None
    assert [part.name for part in Field(name="f", type=type_.name).parts] == [name for name, _ in type_.parts]


@every_type
def test_a_key_of_other_types_is_told_and_the_schema_refuses_it(type_: FieldType, tmp_path: Path) -> None:
    fields = [f"selector: b, type: {type_.name}, {write_key(key)}" for key in OWN_KEYS]
    conflicts = {
        problem.line - 7
        for problem in load_problems(write_defs(tmp_path, defs_of(*fields)))
        if "needs" in problem.message
    }
    plain = {key.name for key in type_.keys if key.beside is None}
    assert conflicts == {number for number, key in enumerate(OWN_KEYS) if key not in plain}
    validator = jsonschema.Draft202012Validator(build_json_schema()["$defs"]["Field"])
    for key, rule in build_json_schema()["$defs"]["Field"]["dependentSchemas"].items():
        is_valid = jsonschema.Draft202012Validator(rule).is_valid({"type": type_.name, key: "x"})
        assert is_valid == (key in plain), key
    assert validator.schema["properties"]["type"]["enum"] == [*FIELD_TYPES]


@pytest.mark.parametrize("written", ["+49301234567", "0.10"])
def test_a_default_of_a_text_stays_as_it_is_written(written: str, tmp_path: Path) -> None:
    types = [type_ for type_ in FIELD_TYPES.values() if type_.keeps_written]
    fields = [f"selector: b, type: {type_.name}, default: {written}" for type_ in types]
    data_def = load(write_defs(tmp_path, defs_of(*fields))).definitions.data_def("item")
    assert data_def is not None
    assert {field.default for field in data_def.fields} == {written}
    assert len(types) >= 7


def test_the_package_of_a_type_is_part_of_the_code_of_its_data_def(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_code() -> str:
        data_def = load(write_defs(tmp_path, defs_of("selector: b"))).definitions.data_def("item")
        assert data_def is not None
        return data_def.code

    codes = [load_code()]
    for origin in ("shop 1.0", "shop 1.1"):
        monkeypatch.setattr(NameTable, "origin_of", lambda _table, _name, origin=origin: origin)
        codes.append(load_code())
    assert codes[0] == ""
    assert len(set(codes)) == 3
