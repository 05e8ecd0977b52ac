"""Every kind of problem is reported with its code, file, line and column, all at once."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, Problem

GOOD = """\
locatorGroups:
  list: {locators: [{name: shop, url: "https://shop.example/1.html"}]}
taskGroups:
  list:
    live: P1D
    items: {dataDef: item}
  detail:
    page: {dataDef: page}
dataDefs:
  item:
    query: {block: "li.item"}
    fields:
      name: {selector: "a", required: true}
      price: {selector: ".price", match: "[0-9.]+", type: decimal}
    filters: [{field: price, pattern: "0"}]
    links:
      - {selector: "a.next"}
      - {selector: "a.more", linkGroup: detail, allow: ["/x"]}
  page:
    key: [url]
    fields:
      url: {value: "%{document.url}"}
hosts:
  shop.example: {delay: 0.5, concurrency: 4}
appenders:
  rows: {type: csv}
"""


def write_defs(folder: Path, text: str, name: str = "shop.yml") -> Path:
    defs = folder / "defs"
    defs.mkdir(exist_ok=True)
    (defs / name).write_text(text, "utf-8")
    return defs


def load_problems(defs: Path) -> list[Problem]:
    with pytest.raises(DefsError) as caught:
        load(defs)
    return caught.value.problems


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its `§` marks, and the line and column of each."""
    places = []
    for number, line in enumerate(text.splitlines(), 1):
        pieces = line.split("§")
        places += [(number, len("".join(pieces[:i])) + 1) for i in range(1, len(pieces))]
    return text.replace("§", ""), places


CASES = [
    # structure
    ("unknown-key", '{selector: "a",', '{§selctor: "a",'),
    ("unknown-key", "hosts:\n", "§host:\n"),
    ("unknown-key", "    live: P1D\n", "    §maxDeph: 3\n"),
    ("unknown-key", "{delay: 0.5,", "{§dely: 0.5,"),
    ("duplicate-key", "    live: P1D\n", "    live: P1D\n    §live: P2D\n"),
    ("duplicate-key", "  detail:\n", "  detail: {page: {dataDef: page}}\n  §detail:\n"),
    ("missing-key", "page: {dataDef: page}", "§page: {persist: {data: true}}"),
    ("missing-key", '{selector: "a.next"}', "§{linkGroup: list}"),
    # kinds and ranges
    ("wrong-type", "delay: 0.5", "delay: §fast"),
    ("wrong-type", "delay: 0.5", "§delay: ~"),
    ("wrong-type", "concurrency: 4", "concurrency: §4.5"),
    ("wrong-type", "concurrency: 4", "concurrency: §010"),
    ("wrong-type", "required: true", "required: §on"),
    ("wrong-type", "required: true", 'required: §"true"'),
    ("wrong-type", 'allow: ["/x"]', 'allow: §"/x"'),
    ("wrong-type", "key: [url]", "key: §url"),
    ("wrong-type", "page: {dataDef: page}", "page: {dataDef: §[page]}"),
    ("wrong-type", 'query: {block: "li.item"}', 'query: §"li.item"'),
    ("wrong-type", 'selector: ".price"', "selector: §true"),
    ("wrong-type", "type: decimal}", "type: decimal, default: §none}"),
    ("wrong-type", "required: true}", "required: true, type: bool, default: §maybe}"),
    ("wrong-type", "required: true}", "required: true, type: int, default: §1.5}"),
    ("out-of-range", "delay: 0.5", "delay: §-1"),
    ("out-of-range", "concurrency: 4", "concurrency: §0"),
    ("out-of-range", "live: P1D", "maxPages: §0"),
    ("out-of-range", "live: P1D", "maxDepth: §-1"),
    ("out-of-range", "live: P1D", "priority: §99999999999"),
    ("out-of-range", "type: csv}", 'delimiter: §";;"}'),
    ("out-of-range", "type: csv}", 'delimiter: §""}'),
    ("out-of-range", "type: csv}", 'type: csv, §delimiter: "\\n"}'),
    ("unknown-value", "type: decimal", "type: §decmal"),
    ("unknown-appender", "type: csv", "type: §xml"),
    ("unknown-value", "{name: shop,", "{name: shop, method: §FETCH,"),
    ("empty-text", 'match: "[0-9.]+"', 'match: §""'),
    # texts with a grammar
    ("bad-selector", 'selector: ".price"', 'selector: §".price["'),
    ("bad-selector", 'selector: ".price"', 'selector: §"xpath: //a["'),
    ("bad-selector", 'selector: ".price"', 'selector: §"xpath: nonsense(.)"'),
    ("bad-selector", 'block: "li.item"', 'block: §"jmespath: a[?"'),
    ("bad-selector", 'block: "li.item"', 'block: §"li:contains(x)"'),
    ("bad-selector", 'selector: "a.next"', 'selector: §"a::attr(href)"'),
    ("bad-pattern", 'match: "[0-9.]+"', 'match: §"[0-9"'),
    ("bad-pattern", 'pattern: "0"', 'pattern: §"(0"'),
    ("bad-pattern", 'allow: ["/x"]', 'allow: [§"*"]'),
    ("bad-pattern", 'allow: ["/x"]', 'deny: ["/y", §"("]'),
    ("bad-duration", "live: P1D", "live: §1D"),
    ("bad-duration", "live: P1D", "live: §P1M"),
    ("bad-duration", "live: P1D", "live: §P1Y"),
    ("bad-duration", "live: P1D", "live: §-P1D"),
    ("bad-duration", "live: P1D", "live: §5"),
    ("unknown-variable", "%{document.url}", "%{document.ulr}"),
    ("unknown-variable", "%{document.url}", "%{env.SECRET}"),
    ("unknown-variable", "https://shop.example/1.html", "https://shop.example/%{document.url}"),
    ("bad-url", "https://shop.example/1.html", "ftp://shop.example/"),
    ("bad-url", "https://shop.example/1.html", "ftp://shop.example/1.html"),
    ("bad-url", "https://shop.example/1.html", "javascript:alert(1)"),
    ("bad-url", "https://shop.example/1.html", "localhost:8000/"),
    ("bad-url", "https://shop.example/1.html", "http://shop example/"),
    ("bad-url", "https://shop.example/1.html", "https://shop.example/{1..1000000}"),
    ("bad-url", "https://shop.example/1.html", "https://shop.example/{a"),
    ("bad-url", "https://shop.example/1.html", "https://shop.example/{a}"),
    ("bad-url", "locatorGroups:\n", "baseUrl: §shop.example\nlocatorGroups:\n"),
    ("bad-url", "locatorGroups:\n", "baseUrl: §ftp://shop.example/\nlocatorGroups:\n"),
    ("bad-header", "delay: 0.5", 'headers: {X: §"a\\nb"}'),
    ("bad-header", "delay: 0.5", "headers: {§X Y: a}"),
    ("bad-host", "shop.example: {", "§https://shop.example/: {"),
    ("bad-host", "shop.example: {", "§shop.example:99999: {"),
    ("bad-host", "shop.example: {", '§"*.*.shop.example": {'),
    ("bad-host", "shop.example: {", '§"*:0": {'),
    ("bad-host", "shop.example: {", '§"[::*]": {'),
    ("bad-host", "shop.example: {", '§"a b*": {'),
    ("duplicate-name", "hosts:\n", 'hosts:\n  "*.a.example": {}\n  §"*.A.example.": {}\n'),
    ("no-effect", "delay: 0.5", "§shared: true"),
    ("conflict", "hosts:\n", 'hosts:\n  "*": {§private: true}\n'),
    ("conflict", "hosts:\n", 'hosts:\n  "*.a.example": {§proxy: "http://proxy.example:3128"}\n'),
    ("conflict", "hosts:\n", 'hosts:\n  "*.a.example": {§auth: {bearer: "%{env.HOME}"}}\n'),
    ("conflict", "hosts:\n", 'hosts:\n  "*.a.example": {§cookies: {a: b}}\n'),
    ("conflict", "hosts:\n", 'hosts:\n  "*.a.example": {§tls: {verify: false}}\n'),
    ("conflict", "hosts:\n", 'hosts:\n  "*.a.example": {headers: {§X-Key: a}}\n'),
    ("conflict", "hosts:\n", 'hosts:\n  "*.a.example": {headers: {§Accept: "%{env.HOME}"}}\n'),
    ("duplicate-name", "hosts:\n", "hosts:\n  a.example: {}\n  §A.example: {}\n"),
    # references
    ("unknown-group", 'selector: "a.next"', 'selector: "a.next", linkGroup: §lst'),
    ("unknown-group", "locatorGroups:\n", "locatorGroups:\n  §lists: {locators: [{url: /x}]}\n"),
    ("unknown-data-def", "items: {dataDef: item}", "items: {dataDef: item}\n    more: {dataDef: §itme}"),
    ("unknown-data-def", "type: csv}", "dataDefs: [item, page, §pages]}"),
    ("unknown-steps", "{dataDef: item}", "{dataDef: item, steps: §jsoupDefalt}"),
    ("unknown-field", "field: price", "field: §prize"),
    ("unknown-field", "key: [url]", "key: [url, §id]"),
    ("unreachable-group", "  detail:\n", "  §island: {page: {dataDef: page}}\n  detail:\n"),
    ("no-tasks", "  detail:\n    page: {dataDef: page}\n", "  §detail:\n    live: PT1S\n"),
    # conflicts
    ("no-url", '{name: shop, url: "https://shop.example/1.html"}', "§{name: shop}"),
    ("no-url", '[{name: shop, url: "https://shop.example/1.html"}]', '[{url: "/a"}, {§urls: []}]'),
    ("conflict", "{name: shop,", "{name: shop, body: x, §form: {a: b},"),
    ("conflict", "{name: shop,", "{name: shop, json: [1], §body: x,"),
    ("conflict", '{value: "%{document.url}"}', '{value: x, §selector: "a"}'),
    ("conflict", "type: decimal", 'type: decimal, §format: "%Y"'),
    ("conflict", "type: csv}", 'type: jsonl, §delimiter: ";"}'),
    ("conflict", "type: csv}", "type: sqlite, §escapeFormulas: true}"),
    ("wrong-type", "type: csv}", 'type: csv, escapeFormulas: §"yes"}'),
    ("conflict", 'name: {selector: "a",', 'name: {selector: "a", §type: int, fields: {x: {}},'),
    ("no-fields", "dataDefs:\n", "dataDefs:\n  §none: {query: {block: a}}\n"),
    (
        "too-deep",
        '{selector: "a", req',
        "{selector: a, fields: {b: {selector: a, fields: {c: {selector: a, §fields: {d: {}}}}}}, req",
    ),
    ("same-file", "  rows: {type: csv}", "  rows: {type: csv}\n  §more: {type: csv}"),
    ("same-file", "  rows: {type: csv}", "  a: {dataDefs: [item], path: X.csv}\n  §b: {dataDefs: [page], path: x.csv}"),
    ("same-file", "type: csv}", "type: csv, §path: all.csv}"),
    ("bad-selector", 'selector: "a",', 'selector: §"jsonld: Product[0]",'),
    ("bad-selector", '{selector: "a.next"}', '{selector: §"jmespath(script)"}'),
    # names
    ("bad-name", "dataDefs:\n", 'dataDefs:\n  §"a/b": {links: [{selector: a}]}\n'),
    ("bad-name", "dataDefs:\n", "dataDefs:\n  §a..b: {links: [{selector: a}]}\n"),
    ("bad-name", "dataDefs:\n", 'dataDefs:\n  §"": {links: [{selector: a}]}\n'),
    ("bad-name", "dataDefs:\n", 'dataDefs:\n  §"a\\u202eb": {links: [{selector: a}]}\n'),
    ("bad-name", "  page:\n    key", "  §ITEM: {links: [{selector: a}]}\n  page:\n    key"),
    ("bad-path", "type: csv}", "dataDefs: [item], path: §../rows.csv}"),
    ("bad-path", "type: csv}", "dataDefs: [item], path: §sub/rows.csv}"),
    ("bad-name", 'name: {selector: "a"', 'name: {}\n      §"a\\0b": {selector: "a"'),
    # YAML
    ("bad-yaml", "hosts:\n", "hosts: §*nowhere\n"),
    ("bad-yaml", "hosts:\n", "§---\nhosts:\n"),
    ("bad-yaml", "hosts:\n", "hosts:\n§\t\n  x:\n"),
    ("bad-yaml", "live: P1D", "live: a§: b"),
    ("bad-yaml", "live: P1D", "live: §!!python/name:os.system P1D"),
    ("bad-yaml", "hosts:\n", "hosts:\n  <<: §text\n"),
    ("bad-yaml", "hosts:\n", "hosts:\n  <<: [{}, §[a]]\n"),
    ("bad-yaml", "hosts:\n", "hosts:\n  <<:§\n"),
    ("bad-yaml", "hosts:\n", "hosts: &h\n  <<: §*h\n"),
    ("duplicate-key", "hosts:\n", "hosts:\n  <<: {}\n  §<<: {}\n"),
    ("duplicate-key", "hosts:\n", "hosts:\n  <<: {a.example: {}}\n  a.example: {}\n  §a.example: {}\n"),
    ("unknown-key", "hosts:\n", "hosts:\n  a.example: &a {§dealy: 1}\n  b.example: {<<: *a, delay: 1}\n"),
    ("wrong-type", "hosts:\n", "hosts:\n  a.example: &a {delay: 1}\n  b.example: {<<: *a, delay: §[x]}\n"),
    ("bad-yaml", "hosts:\n", "hosts:\n  ? §[a]\n  : {}\n"),
    # not implemented
    ("unknown-value", "type: decimal", "type: §files"),
    ("missing-key", "dataDefs:\n", "dataDefs:\n  §x: {query: {block: 'a:contains(x)', selector: b}, items: []}\n"),
]


@pytest.mark.parametrize(("code", "old", "new"), CASES)
def test_a_problem_has_its_code_and_place(tmp_path: Path, code: str, old: str, new: str) -> None:
    assert old in GOOD
    text, places = marked(GOOD.replace(old, new, 1))
    problems = [p for p in load_problems(write_defs(tmp_path, text)) if not p.warning]
    assert [p.code for p in problems] == [code], problems
    assert problems[0].file == "defs/shop.yml"
    where = (problems[0].line, problems[0].column)
    if places:
        assert where == places[0]
    else:
        before = text[: text.index(new)]
        assert problems[0].line == before.count("\n") + 1
        assert text.splitlines()[where[0] - 1][where[1] - 1 :].lstrip('"').startswith(new)
    assert problems[0].message
    assert str(problems[0]).startswith(f"defs/shop.yml:{where[0]}:{where[1]}: {code} ")


def test_the_valid_defs_have_no_warnings(tmp_path: Path) -> None:
    assert load(write_defs(tmp_path, GOOD)).warnings == ()


def test_all_problems_of_all_files_are_reported_in_order(tmp_path: Path) -> None:
    text = GOOD
    for old, new in [
        ('{selector: "a",', '{§selctor: "a",'),
        ('selector: ".price"', 'selector: §".price["'),
        ("live: P1D", "live: §soon"),
        ("field: price", "field: §prize"),
        ("concurrency: 4", "concurrency: §none"),
        ("linkGroup: detail", "linkGroup: §detial"),
        ("    key: [url]", "    key: [url]\n    §key: [url]"),
        ("dataDef: page", "dataDef: §pgae"),
    ]:
        assert old in text
        text = text.replace(old, new, 1)
    text, places = marked(text)
    defs = write_defs(tmp_path, text)
    write_defs(tmp_path, "dataDefs:\n  other: {fields: {a: {selector: '['}}, links: 5}\n", "zoo.yaml")
    problems = [p for p in load_problems(defs) if not p.warning]
    assert [(p.line, p.column) for p in problems if p.file == "defs/shop.yml"] == places
    assert [(p.file, p.code) for p in problems if p.file != "defs/shop.yml"] == [
        ("defs/zoo.yaml", "bad-selector"),
        ("defs/zoo.yaml", "wrong-type"),
    ]


def test_a_nested_field_needs_a_selector(tmp_path: Path) -> None:
    text, places = marked(GOOD.replace("url: {value", "§list: {fields: {x: {}}}\n      url: {value"))
    (problem,) = load_problems(write_defs(tmp_path, text))
    assert (problem.code, (problem.line, problem.column)) == ("missing-key", places[0])


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('{selector: "a",', '{selctor: "a",', "did you mean 'selector'?"),
        ("linkGroup: detail", "linkGroup: detial", "did you mean 'detail'?"),
        ("{dataDef: item}", "{dataDef: itm}", "did you mean 'item'?"),
        ("type: decimal", "type: decmal", "did you mean 'decimal'?"),
        ("    live: P1D\n", "    maxDeph: 3\n", "did you mean 'maxDepth'?"),
        ("field: price", "field: prize", "did you mean 'price'?"),
        ("%{document.url}", "%{document.ulr}", "did you mean 'document.url'?"),
        ("hosts:\n", "host:\n", "did you mean 'hosts'?"),
        ("{dataDef: item}", "{dataDef: item, steps: jsoupDefalt}", "did you mean 'jsoupDefault'?"),
        ('block: "li.item"', 'block: "li::attr(id)"', "attribute: id"),
        ('block: "li.item"', 'block: "li::text"', "attribute"),
        ('block: "li.item"', "block: \"li:contains('x')\"", "xpath:"),
    ],
)
def test_a_similar_name_or_an_alternative_is_suggested(tmp_path: Path, old: str, new: str, hint: str) -> None:
    problems = load_problems(write_defs(tmp_path, GOOD.replace(old, new, 1)))
    assert any(hint in p.message for p in problems), problems


STEPS = """\
steps:
  mine:
    seeder: {class: LocatorSeeder, previous: start, next: loader}
    loader: {class: §PageLoder, previous: seeder, next: parser}
    parser: {class: RecordParser, previous: §lodaer, next: §ended}
    left: {class: DataFilter, previous: parser, next: §right}
    right: {class: DataFilter, previous: left, next: §left}
"""


def test_inconsistent_steps(tmp_path: Path) -> None:
    text, places = marked(STEPS + GOOD)
    problems = load_problems(write_defs(tmp_path, text))
    assert [p.code for p in problems] == [
        "unknown-step-class",
        "unknown-step",
        "unknown-step",
        "step-cycle",
        "step-cycle",
    ]
    assert [(p.line, p.column) for p in problems] == places


@pytest.mark.parametrize(("name", "cycle"), [("LocatorCreator", False), ("DataConverter", True)])
def test_only_a_locator_creator_may_lead_back_to_the_seeder(tmp_path: Path, name: str, cycle: bool) -> None:
    step = f"{{class: {name}, previous: parser, next: seeder}}"
    text = GOOD.replace("{dataDef: item}", f"{{dataDef: item, steps: {{jsoupDefault: {{process: {step}}}}}}}")
    defs = write_defs(tmp_path, text)
    if cycle:
        assert [p.code for p in load_problems(defs)] == ["step-cycle"]
    else:
        load(defs)


@pytest.mark.parametrize("name", ["jsoupDefault", "htmlUnitDefault", "recordDefault"])
def test_built_in_step_sets_may_be_named(tmp_path: Path, name: str) -> None:
    text = GOOD.replace("{dataDef: item}", f"{{dataDef: item, steps: {name}}}")
    group = load(write_defs(tmp_path, text)).definitions.task_group("list")
    assert group is not None
    assert group.tasks[0].steps == name


def test_aliases_are_bounded(tmp_path: Path) -> None:
    bomb = "\n".join(f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))
    (problem,) = load_problems(write_defs(tmp_path, f"dataDefs:\n  a0: &a0 [x]\n{bomb}\n"))
    assert (problem.code, problem.file) == ("bad-yaml", "defs/shop.yml")
    assert "alias" in problem.message


def test_an_alias_inside_its_own_anchor_is_rejected(tmp_path: Path) -> None:
    (problem,) = load_problems(write_defs(tmp_path, "dataDefs: &a\n  x: *a\n"))
    assert (problem.code, problem.line, problem.column) == ("bad-yaml", 2, 6)


@pytest.mark.parametrize("deep", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "a: " + "[" * 60 + "]" * 60])
def test_deep_nesting_is_rejected(tmp_path: Path, deep: str) -> None:
    assert [p.code for p in load_problems(write_defs(tmp_path, deep))] == ["bad-yaml"]


def test_merged_keys_count_as_aliased_ones(tmp_path: Path) -> None:
    bomb = "\n".join(
        f"  a{i}: &a{i} {{k{i}: {{{', '.join(f'b{n}: {{<<: *a{i - 1}}}' for n in range(9))}}}}}" for i in range(1, 9)
    )
    (problem,) = load_problems(write_defs(tmp_path, f"dataDefs:\n  a0: &a0 {{x: y}}\n{bomb}\n"))
    assert (problem.code, "alias" in problem.message) == ("bad-yaml", True)


def test_a_small_alias_is_fine(tmp_path: Path) -> None:
    text = GOOD.replace('"a", required', '&link "a", required').replace('selector: "a.more"', "selector: *link")
    item = load(write_defs(tmp_path, text)).definitions.data_def("item")
    assert item is not None
    assert item.links[1].selector == "a"


def test_a_broken_file_does_not_hide_other_problems_or_cause_false_ones(tmp_path: Path) -> None:
    """Names that a broken file may define are not reported as unknown."""
    defs = write_defs(tmp_path, GOOD.replace("field: price, pattern", "feild: price, pattern"))
    write_defs(tmp_path, "taskGroups:\n  more: [\n", "broken.yml")
    write_defs(tmp_path, "locatorGroups:\n  more: {locators: [{url: /x}]}\n", "more.yml")
    problems = load_problems(defs)
    assert [(p.file, p.code) for p in problems] == [
        ("defs/broken.yml", "bad-yaml"),
        ("defs/shop.yml", "missing-key"),
        ("defs/shop.yml", "unknown-key"),
    ]
