"""Each key of a field: each wrong type, contradicting keys, what has no effect; each with its place and what to do."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.model.definition import Field
from tests.unit.defs.language.test_strictness import load_problems, marked, write_defs

DEFS = """\
locatorGroups: {list: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {list: {items: {dataDef: item}}}
dataDefs:
  item:
    query: {block: li}
    fields:
      f: FIELD
"""

PROBLEMS = [
    ("unknown-value", "{selector: h1, scope: §block}", ""),
    ("unknown-value", "{selector: h1, scope: §true}", ""),
    ("unknown-value", "{selector: h1, scope: §[page]}", ""),
    ("unknown-value", "{selector: h1, scope: §~}", ""),
    ("missing-key", "{§scope: page}", "needs a `selector`"),
    ("conflict", "{§scope: page, value: x}", "keep one"),
    ("conflict", "{selector: a, §scope: page, fields: {x: {}}}", "keep one"),
    ("conflict", "{selector: a, fields: {x: {selector: b, §scope: page}}}", "beside the outer one"),
    ("unknown-value", "{whitespace: §trim}", ""),
    ("unknown-value", "{whitespace: §{a: b}}", ""),
    ("conflict", "{selector: a, §whitespace: keep, fields: {x: {}}}", "keep one"),
    ("wrong-type", "{replace: §x}", "a list"),
    ("wrong-type", "{replace: [§x]}", "[['€', '']]"),
    ("wrong-type", "{replace: [§[a]]}", "pairs"),
    ("wrong-type", "{replace: [[a, b], §[a, b, c]]}", "pairs"),
    ("wrong-type", "{replace: [§{a: b}]}", "pairs"),
    ("wrong-type", "{replace: [[a, §[b]]]}", "a text"),
    ("wrong-type", "{replace: [[a, §true]]}", "a text"),
    ("empty-text", "{replace: [[§'', b]]}", ""),
    ("bad-pattern", "{replace: [[a, b], [§'(', b]]}", "not a regular expression"),
    ("bad-pattern", "{replace: [§[a, '\\1']]}", "group 1"),
    ("bad-pattern", "{replace: [§[(a), '\\g<b>']]}", "not a replacement"),
    ("bad-pattern", "{replace: [§[(a), 'x\\']]}", "not a replacement"),
    ("conflict", "{selector: a, §replace: [[a, b]], fields: {x: {}}}", "keep one"),
    ("wrong-type", "{split: §[a]}", "a text"),
    ("wrong-type", "{split: §true}", "a text"),
    ("empty-text", "{split: §''}", "a comma"),
    ("conflict", '{split: §"\\n"}', "whitespace: keep"),
    ("conflict", '{split: §"  "}', "whitespace: keep"),
    ("conflict", "{§split: '/', type: json}", "keep it, or"),
    ("conflict", "{§split: '/', type: bool, match: x}", "keep it, or"),
    ("conflict", "{selector: a, §split: '/', fields: {x: {}}}", "keep one"),
    ("conflict", "{attribute: src, §largest: true}", "needs `attribute: srcset`"),
    ("conflict", "{selector: a, type: markdown, §split: ','}", "`split` would cut the HTML"),
    ("wrong-type", "{type: int, default: §' '}", "valid for `type: int`"),
    ("wrong-type", "{type: price, default: §''}", "valid for `type: price`"),
    ("wrong-type", "{type: int, all: true, default: [1, §x]}", "valid for `type: int`"),
    ("conflict", "{selector: table, type: table, §match: x}", "no effect with `type: table`"),
    ("conflict", "{selector: table, §header: columns}", "`header` of a field needs `type: table`"),
    ("conflict", "{selector: table, type: table, §attribute: href}", "no effect with `type: table`"),
    ("wrong-type", "{selector: table, type: table, default: §x}", "valid for `type: table`"),
    ("bad-mark", "{type: decimal, decimalMark: §',,'}", "one character"),
    ("bad-mark", "{type: decimal, decimalMark: §''}", "one character"),
    ("bad-mark", "{type: decimal, decimalMark: §1}", "other than a digit"),
    ("bad-mark", "{type: decimal, groupMark: §'-'}", "sign"),
    ("wrong-type", "{type: decimal, groupMark: §[',']}", "a text"),
    ("conflict", "{§decimalMark: ','}", "needs the type `float`"),
    ("conflict", "{§decimalMark: ',', type: int}", "needs the type `float`"),
    ("conflict", "{§groupMark: ',', type: date}", "needs the type `int`, `float`"),
    ("conflict", "{§magnitudes: true}", "needs the type `int`, `float` or `decimal`"),
    ("conflict", "{§magnitudes: true, type: price}", "needs the type `int`, `float` or `decimal`"),
    ("wrong-type", "{type: int, magnitudes: §k}", "true or false"),
    ("conflict", "{type: int, magnitudes: true, groupMark: §'.'}", "write `decimalMark` too"),
    ("conflict", "{§decimalMark: ',', type: int, magnitudes: false}", "needs the type `float`"),
    ("conflict", "{type: int, §locale: de}", "`magnitudes: true`"),
    ("unknown-locale", "{type: price, locale: §xx}", "such as `de`"),
    ("conflict", "{selector: table, type: table, §magnitudes: true}", "needs the type"),
    ("conflict", "{selector: a, §magnitudes: true, fields: {x: {}}}", "keep one"),
    ("conflict", "{type: decimal, groupMark: §'.'}", "write `decimalMark` too"),
    ("conflict", "{type: float, decimalMark: ',', groupMark: §','}", "two different"),
    ("bad-mark", '{type: price, decimalMark: §"\'"}', 'must be "," or "."'),
    ("conflict", "{type: price, groupMark: §.}", "write `decimalMark` too"),
    ("wrong-type", "{type: price, default: §none}", "must be valid"),
    ("wrong-type", "{type: price, default: §2 m}", "must be valid"),
    ("wrong-type", "{type: price, default: §50 mil €}", "must be valid"),
    ("wrong-type", "{type: int, magnitudes: true, default: §15.5k}", "must be valid"),
    ("wrong-type", "{type: price, default: §{amount: 1}}", "must be valid"),
    ("unknown-value", "{type: §prices}", "did you mean 'price'"),
    ("conflict", "{selector: a, §type: price, fields: {x: {}}}", "keep one"),
    ("conflict", "{§format: '%Y', type: price}", "`type: date`"),
    ("missing-key", "{type: date, §format: any}", "needs a `locale`"),
    ("conflict", "{type: date, §locale: de}", "`format: any`"),
    ("conflict", "{type: date, format: '%Y', §locale: de}", "`format: any`"),
    ("conflict", "{§format: any, locale: de}", "`type: date`"),
    ("bad-format", "{type: date, format: §anything}", "`any` with a `locale`"),
    (
        "bad-format",
        "{type: date, format: §'%s'}",
        "'%s'; for seconds since 1970 write `format: unix`",
    ),
    ("bad-format", "{type: date, format: §'/Date(%s)/'}", "knows no directive '%s'"),
    ("bad-format", "{type: date, format: §'%d.%m.%'}", "knows no directive '%'"),
    ("bad-format", "{type: date, format: §'%F'}", "knows no directive '%F'"),
    ("unknown-locale", "{type: date, format: any, locale: §xx}", "such as `de`"),
    ("unknown-locale", "{type: date, format: any, locale: §en-GGG}", "did you mean"),
    ("unknown-locale", "{type: date, format: any, locale: §NO-such}", "such as `de`"),
    ("wrong-type", "{type: date, format: any, locale: [de, §[fr]]}", "a text"),
    ("unknown-locale", "{type: date, format: any, locale: [de, §xx]}", "such as `de`"),
    ("missing-key", "{type: date, §format: any, locale: []}", "needs a `locale`"),
    ("wrong-type", "{type: date, format: any, locale: §true}", "a text"),
    ("conflict", "{selector: a, §locale: de, fields: {x: {}}}", "keep one"),
    ("wrong-type", "{type: decimal, decimalMark: ',', default: §'1,5'}", "must be valid"),
    ("bad-selector", "{§selector: []}", "write one"),
    ("wrong-type", "{selector: [a, §[b]]}", "a text"),
    ("wrong-type", "{selector: [a, §~]}", "a text"),
    ("empty-text", "{selector: [a, §'']}", ""),
    ("bad-selector", "{selector: [a, §'[']}", "not a CSS selector"),
    ("conflict", "{selector: [a, §'jmespath: x']}", "reads JSON"),
    ("bad-name", "{selector: [a, b]}\n      §f[1]: {selector: c}", "rename the field"),
    ("no-values", "{§map: {}}", "is empty"),
    ("wrong-type", "{map: §[a]}", "a mapping"),
    ("wrong-type", "{map: {a: §[b]}}", "a text"),
    ("wrong-type", "{map: {a: b, §c: ~}}", "a text"),
    ("wrong-type", "{type: int, map: {a: 1, §b: 1.5}}", "valid for `type: int`"),
    ("wrong-type", "{type: bool, map: {§a: maybe}}", "valid for `type: bool`"),
    ("wrong-type", "{type: price, map: {§a: none}}", "valid for `type: price`"),
    ("wrong-type", "{type: date, map: {§a: soon}}", "valid for `type: date`"),
    ("conflict", "{selector: a, §map: {a: b}, fields: {x: {}}}", "keep one"),
    ("conflict", "{§map: {a: b}, type: json}", "keep one"),
    ("unknown-value", "{decode: §base46}", "did you mean 'base64'"),
    ("unknown-value", "{decode: §[url, html]}", ""),
    ("conflict", "{selector: a, §decode: url, fields: {x: {}}}", "keep one"),
    ("unknown-field", "{value: §'%{field.g}'}", "unknown field 'g'"),
    ("later-field", "{value: §'%{field.f}'}", "before this field"),
    ("later-field", "{value: §'%{field.g}'}\n      g: {selector: a}", "write 'g' before this field"),
    ("unknown-field", "{selector: a}\n      g: {value: §'%{field.f.x}'}", "write `%{field.f}`"),
    ("unknown-field", "{type: price}\n      g: {value: §'%{field.f.amout}'}", "did you mean 'amount'"),
    ("unknown-field", "{selector: a, fields: {x: {value: §'%{field.x}'}}}", "unknown field 'x'"),
    ("later-field", "{selector: a, fields: {x: {value: §'%{field.f}'}}}", "before this field"),
    ("conflict", "{fromStep: true}\n      g: {value: §'%{field.f}'}", "a step fills 'f' later"),
    ("conflict", "{fromStep: true, type: date, format: any, §locale: 'xpath: string(/html/@lang)'}", "a step fills"),
    ("unknown-locale", "{type: date, format: any, locale: §'xpath: string(/html/@lang'}", "not an XPath"),
    ("unknown-locale", "{type: date, format: any, locale: ['xpath: string(/html/@lang)', §xx]}", "such as `de`"),
    *[
        ("conflict", "{fromStep: true, §" + key + "}", "keep one")
        for key in ("scope: page", "whitespace: keep", "replace: [[a, b]]", "split: ','", "map: {a: b}", "decode: url")
    ],
]


@pytest.mark.parametrize(("code", "field", "advice"), PROBLEMS)
def test_a_wrong_key_has_its_place(tmp_path: Path, code: str, field: str, advice: str) -> None:
    text, places = marked(DEFS.replace("FIELD", field))
    problems = [p for p in load_problems(write_defs(tmp_path, text)) if not p.warning]
    problem = next(p for p in problems if p.code == code)
    assert (problem.line, problem.column) == places[0], problems
    assert advice in problem.message


@pytest.mark.parametrize(
    ("field", "advice"),
    [
        ("{selector: a, §join: ';'}", "`split`"),
        ("{§whitespace: keep, type: int}", "remove it"),
        ("{§replace: []}", "remove it"),
        ("{selector: [a, b, §' a']}", "stands in the list before"),
        ("{selector: img, attribute: srcset, §split: ', '}", "write `all: true`"),
    ],
)
def test_a_key_without_effect_is_a_warning(tmp_path: Path, field: str, advice: str) -> None:
    text, places = marked(DEFS.replace("FIELD", field))
    (problem,) = load(write_defs(tmp_path, text)).warnings
    assert (problem.code, problem.line, problem.column) == ("no-effect", *places[0])
    assert advice in problem.message


def test_scope_without_a_block_is_a_warning(tmp_path: Path) -> None:
    text, places = marked(
        DEFS.replace("FIELD", "{selector: h1, §scope: page}").replace("query: {block: li}", "key: [f]")
    )
    (problem,) = load(write_defs(tmp_path, text)).warnings
    assert (problem.code, problem.line, problem.column) == ("no-effect", *places[0])


def load_field(folder: Path, field: str) -> Field:
    data_def = load(write_defs(folder, DEFS.replace("FIELD", field))).definitions.data_def("item")
    assert data_def is not None
    return data_def.fields[0]


def test_the_keys_are_read(tmp_path: Path) -> None:
    field = load_field(
        tmp_path,
        "{selector: h1, scope: page, whitespace: keep, replace: [[a, b], [1, '']], split: ', ', join: ';', "
        "type: decimal, decimalMark: ',', groupMark: ' '}",
    )
    assert (field.scope, field.whitespace, field.split, field.is_list) == ("page", "keep", ", ", True)
    assert field.replace == (("a", "b"), ("1", ""))
    assert (field.decimal_mark, field.group_mark) == (",", " ")


def test_selectors_and_maps_are_kept_as_written(tmp_path: Path) -> None:
    field = load_field(tmp_path, "{selector: [b, i], type: decimal, map: {In stock: 1.10, 2: '3', true: 0, '*': 7}}")
    assert (field.selector, field.fallbacks) == ("b", ("i",))
    assert field.map == {"In stock": "1.10", "2": "3", "true": "0", "*": "7"}
    assert load_field(tmp_path, "{type: bool, map: {In stock: true, '*': false}}").map["*"] == "false"


def test_a_list_may_be_the_default_of_split_parts(tmp_path: Path) -> None:
    assert load_field(tmp_path, "{split: ',', type: int, default: [1, 2]}").default == [1, 2]


def test_a_list_of_defaults_keeps_what_is_written(tmp_path: Path) -> None:
    """A list whose numbers read back as written is stored as numbers, as ever: its defs keep their hash."""
    assert load_field(tmp_path, "{all: true, default: [+49301234567, 0.10, ~, a]}").default == [
        "+49301234567", "0.10", None, "a",
    ]  # fmt: skip
    assert load_field(tmp_path, "{all: true, default: [1, 2.5]}").default == [1, 2.5]
