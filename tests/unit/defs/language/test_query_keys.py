"""The key `drop` of hosts: what it is read as, and each mistake with its place."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions

DEFS = """\
hosts: {shop.example: {delay: 1, %s}, "shop.example:81": {}}
locatorGroups: {shop: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {shop: {page: {dataDef: page}}}
dataDefs: {page: {fields: {title: {selector: h1}}}}
"""


def write(folder: Path, written: str) -> Path:
    (folder / "shop.yml").write_text(DEFS % written, "utf-8")
    return folder / "shop.yml"


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("drop: [utm_*, gclid]", ("utm_*", "gclid")),
        ('drop: ["*"]', ("*",)),
        ("drop: [a?c, 'filter[*]', '*_id', 7, no, größe, a b, 100%]",
         ("a?c", "filter[*]", "*_id", "7", "no", "größe", "a b", "100%")),
        ("robots: false", ()),
    ],
)  # fmt: skip
def test_keys_are_kept_as_written(tmp_path: Path, written: str, keys: tuple[str, ...]) -> None:
    loaded = load(write(tmp_path, written))
    assert loaded.warnings == ()
    rule, ported = loaded.definitions.hosts
    assert (rule.drop, ported.drop) == (keys, ())
    assert Definitions.from_json(loaded.definitions.to_json()) == loaded.definitions


PROBLEMS = [
    ("drop: §utm_*", "wrong-type", "`drop` must be a list, not the text 'utm_*'"),
    ('drop: §"*"', "wrong-type", "must be a list"),
    ("drop: §{utm: a}", "wrong-type", "must be a list"),
    ("drop: §true", "wrong-type", "must be a list"),
    ("§drop: ~", "wrong-type", "must be a list"),
    ("§drop: []", "no-keys", "name keys such as `utm_*`, or remove the key"),
    ("drop: [a, §[b]]", "wrong-type", "must be a text"),
    ("drop: [a, §{b: c}]", "wrong-type", "must be a text"),
    ("drop: [§false]", "wrong-type", "must be a text"),
    ("drop: [a, §~]", "wrong-type", "must be a text"),
    ('drop: [a, §""]', "empty-text", "must not be empty"),
    ('drop: [§"  ", a]', "empty-text", "must not be empty"),
    ("drop: [§utm_source=mail]", "bad-key", "without `=` and `&`"),
    ('drop: [§"a&b"]', "bad-key", "without `=` and `&`"),
    ('drop: [§"a%5B*%5D"]', "bad-key", "write 'a[*]'"),
    ("§drops: [a]", "unknown-key", "did you mean 'drop'?"),
]


@pytest.mark.parametrize(("written", "code", "text"), PROBLEMS)
def test_each_mistake_has_its_place(tmp_path: Path, written: str, code: str, text: str) -> None:
    marked = (DEFS % written).splitlines()[0]
    with pytest.raises(DefsError) as raised:
        load(write(tmp_path, written.replace("§", "")))
    (problem,) = raised.value.problems
    assert (problem.code, problem.line, problem.column) == (code, 1, marked.index("§") + 1), problem
    assert text in problem.message, problem


def test_a_pattern_that_yaml_reads_as_an_alias_is_a_problem_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DefsError) as raised:
        load(write(tmp_path, "drop: [*_id]"))
    assert [(problem.code, problem.line) for problem in raised.value.problems] == [("bad-yaml", 1)]
