"""The JSON Schema accepts valid defs and rejects common mistakes, as `check` does."""

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError

ROOT = Path(__file__).resolve().parents[4]
SCHEMA = build_json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


class Core(yaml.SafeLoader):
    """Reads scalars as editors and the language do: yes, no, on, 010 and 12:30 are texts, unlike in YAML 1.1."""


Core.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not re.search(":(bool|int|float|timestamp|merge)$", tag)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Core.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))
Core.add_implicit_resolver("tag:yaml.org,2002:int", re.compile("^-?(0|[1-9][0-9]*)$"), list("-0123456789"))
Core.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^-?[0-9]+\.[0-9]+$"), list("-0123456789"))


def blocks(path: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)


EXAMPLES = [
    *(path.read_text("utf-8") for path in sorted((ROOT / "defs").glob("*.yml"))),
    *blocks(ROOT / "README.md"),
    *(block for page in [ROOT / "docs" / "defs.md", *(ROOT / "docs" / "defs").glob("*.md")] for block in blocks(page)),
]

GOOD = """\
locatorGroups: {books: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {books: {live: P1D, list: {dataDef: book}}}
dataDefs:
  book:
    query: {block: li}
    fields: {title: {selector: h3, type: str}, at: {selector: time, type: date, format: "%Y"}}
    links: [{selector: a, linkGroup: books}]
hosts: {shop.example: {delay: 0.5}}
appenders: {rows: {type: csv}}
"""

MISTAKES = [
    ("dataDefs:", "datadefs:"),
    ("locators:", "locator:"),
    ('{url: "https://shop.example/"}', "{name: x}"),
    ('{url: "https://shop.example/"}', "https://shop.example/"),
    ('url: "https://shop.example/"', 'url: "/", body: a, form: {b: c}'),
    ('url: "https://shop.example/"', 'url: "/", method: FETCH'),
    ("{dataDef: book}", "{datadef: book}"),
    ("{dataDef: book}", "book"),
    ("{dataDef: book}", "{}"),
    ("live: P1D", "maxDepth: deep"),
    ("live: P1D", "maxPages: 0"),
    ("block: li", "blok: li"),
    ("type: str", "type: string"),
    ("type: str", "all: 'yes'"),
    ("type: str", "required: yes"),
    ("type: str", "value: x"),
    ("type: date, ", ""),
    ('format: "%Y"', "format: any"),
    ('format: "%Y"', 'format: "%Y", locale: de'),
    ('format: "%Y"', "locale: de"),
    ("selector: h3, type: str", "fields: {x: {selector: a}}"),
    ("type: str", "scope: block"),
    ("selector: h3, type: str", "scope: page"),
    ("type: str", "value: x, scope: page"),
    ("type: str", "whitespace: trim"),
    ("type: str", "replace: [a, b]"),
    ("type: str", "replace: [[a, b, c]]"),
    ("type: str", "split: [a]"),
    ("type: str", "split: ''"),
    ("type: str", "decimalMark: ','"),
    ("type: str", "type: decimal, decimalMark: ',,'"),
    ("type: str", "type: date, groupMark: ','"),
    ("type: str", "split: ',', fields: {x: {}}"),
    ("{selector: a, linkGroup: books}", "{linkGroup: books}"),
    ("{selector: a, linkGroup: books}", "a"),
    ("linkGroup: books", "allow: /p/"),
    ("delay: 0.5", "delay: -1"),
    ("delay: 0.5", "delay: slow"),
    ("type: csv", "type: [csv]"),
    ("type: csv", "dataDefs: book"),
]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_passes(number: int) -> None:
    VALIDATOR.validate(yaml.load(EXAMPLES[number], Core))


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    VALIDATOR.validate(yaml.load(GOOD, Core))


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_common_mistake_fails_in_the_schema_and_in_check(number: int, tmp_path: Path) -> None:
    right, wrong = MISTAKES[number]
    assert right in GOOD
    text = GOOD.replace(right, wrong, 1)
    assert not VALIDATOR.is_valid(yaml.load(text, Core)), wrong
    (tmp_path / "a.yml").write_text(text, "utf-8")
    with pytest.raises(DefsError):
        load(tmp_path)


def keys() -> list[tuple[str, str, dict[str, object]]]:
    terms = {**SCHEMA["$defs"], "Defs": SCHEMA}
    return [(term, key, schema) for term, part in terms.items() for key, schema in part.get("properties", {}).items()]


def test_every_key_is_described_in_a_sentence() -> None:
    for term, key, schema in keys():
        assert re.fullmatch(r"[A-Z].+\.", str(schema.get("description"))), f"{term}.{key}"
        assert "title" not in schema, f"{term}.{key}"
    assert all(re.fullmatch(r"[A-Z].+\.", part["description"]) for part in SCHEMA["$defs"].values())


def test_an_example_of_a_key_is_valid() -> None:
    examples = [(term, key, value, part) for term, key, part in keys() for value in part.get("examples", [])]
    assert len(examples) > 50
    for term, key, value, part in examples:
        key_schema = {"$schema": SCHEMA["$schema"], "$defs": SCHEMA["$defs"], **part}
        assert Draft202012Validator(key_schema).is_valid(value), f"{term}.{key}: {value!r}"
