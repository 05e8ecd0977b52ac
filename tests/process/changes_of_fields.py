"""Changes of what fields and links of the defs can say, for `changes.py`."""

from tests.process.change import Change, Edit, before

PHONE_READER = r'''"""Reads the type `phone`: digits, behind an optional `+`."""

import re

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.convert import Converter, TypeReader
from crawl_engine.model.definition import Field


class PhoneReader(TypeReader):
    """Reads phone numbers."""

    def converter(self, _field: Field) -> Converter:
        """Digits, behind an optional `+`."""
        return _read


def _read(text: str, _base: str) -> str:
    number = re.sub(r"[ ()/.-]", "", text)
    if re.fullmatch(r"\+?[0-9]+", number) is None:
        raise ValueError(f"{quote_text(text)} is not a phone number")
    return number


READER = PhoneReader()
'''
FIELD_TYPE = Change(
    section="a type of field",
    code={
        "engine/crawl_engine/model/field_type.py": [
            before('            FieldType(name="bool"', '            FieldType(name="phone"),\n')
        ],
        "engine/crawl_engine/extract/fields/types/phone.py": [Edit(PHONE_READER)],
    },
    check='''
from pathlib import Path

from crawl_engine.append.formats.column_types import column_types
from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.errors import CrawlError
from tests.unit.extract.pages import extract

DEFS = """
locatorGroups: {g: {locators: [{url: "https://a.example/"}]}}
taskGroups: {g: {list: {dataDef: entry}}}
dataDefs:
  entry: {query: {block: li}, fields: {phone: {selector: b, type: phone, default: DEFAULT}}}
"""

def loaded(default):
    Path("defs.yml").write_text(DEFS.replace("DEFAULT", default))
    return load(Path("defs.yml")).definitions.data_def("entry")

found = extract(loaded("+49301"), "<li><b>+49 30 123</b></li><li></li><li><b>none</b></li>")
assert [row["phone"] for row in found.rows] == ["+4930123", "+49301"]
assert "not a phone number" in found.rejected[0].reason
assert column_types({"phone": loaded("+49301").fields[0]}) == {"phone": "str"}
assert "phone" in str(build_json_schema())
try:
    loaded("none")
except CrawlError as error:
    assert "valid for `type: phone`" in str(vars(error))
else:
    raise AssertionError
''',
    beside={
        "docs/defs/records.md": [
            before("| `markdown` |", "| `phone` | digits, spaces | digits behind an optional `+` |\n")
        ]
    },
    tests=[
        "tests/unit/defs/checks/test_field_types.py",
        "tests/unit/extract/fields/test_type_readers.py",
        "tests/unit/append/formats/test_type_columns.py",
        "tests/unit/test_docs.py::test_every_type_and_method_is_documented",
    ],
)

DEF_KEY = Change(
    section="a key of the def language",
    code={
        "engine/crawl_engine/model/link.py": [
            before(
                "    max_depth: Annotated[\n",
                "    same_scheme: Annotated["
                'bool, OMIT_DEFAULT, DefKey("Stay on the scheme; default false.")] = False\n',
            ),
        ],
        "engine/crawl_engine/extract/links/links.py": [
            before(
                "        if self._allow and not any(",
                '        if self.link.same_scheme and url.partition(":")[0] != reading.page.url.partition(":")[0]:\n'
                '            return "another scheme"\n',
            )
        ],
    },
    check='''
from pathlib import Path

from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.errors import CrawlError
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.supervise.reload.diff import describe_changes
from tests.unit.extract.pages import extract

DEFS = """
locatorGroups: {g: {locators: [{url: "https://a.example/"}]}}
taskGroups: {g: {list: {dataDef: entry}}}
dataDefs:
  entry:
    fields: {title: {selector: h1}}
    links:
      - {selector: a, sameHost: false}
"""

def prepared(keys):
    Path("defs.yml").write_text(DEFS.replace("sameHost: false", keys))
    return PreparedDefs.from_definitions(load(Path("defs.yml")).definitions)

plain, keyed = prepared("sameHost: false"), prepared("sameHost: false, sameScheme: true")
assert plain.hash != keyed.hash, "a reload publishes it"
assert plain.hash == prepared("sameHost: false, sameScheme: false").hash, "its default is left out"
assert "links changed" in describe_changes(plain, keyed, 0)
(schema,) = [m for m in build_json_schema()["$defs"].values() if "sameHost" in m["properties"]]
assert schema["properties"]["sameScheme"]["type"] == "boolean"
page = '<a href="http://b.example/">b</a><a href="/c">c</a>'
found = [[link.url for link in extract(each.definitions.data_defs[0], page).links] for each in (plain, keyed)]
assert found == [["http://b.example/", "https://shop.example/c"], ["https://shop.example/c"]]
try:
    prepared("sameHost: false, sameScheme: 7")
except CrawlError as error:
    assert "defs.yml:8:" in str(error) and "sameScheme" in str(error), str(error)
else:
    raise AssertionError("7 was accepted")
''',
    beside={
        "docs/defs/links.md": [
            Edit("sameHost: false, sameScheme: true, maxDepth: 1}", "sameHost: false, maxDepth: 1}"),
            before("| `maxDepth` |", "| `sameScheme` | stay on the scheme of the page; default `false` |\n"),
        ]
    },
    tests=[
        "tests/unit/test_docs.py::test_there_is_an_example_of_every_key",
        "tests/unit/test_docs.py::test_every_key_is_explained",
        "tests/unit/model/test_stable_hashes.py",
    ],
)
