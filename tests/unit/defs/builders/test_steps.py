"""Chains of steps: sets of sets, overrides, insertions, side branches, plugin classes; and what is refused."""

from pathlib import Path

import pytest

from crawl_engine.defs.builders.steps import RECORD_DEFAULT, default_chain
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, Problem
from crawl_engine.model.definition import Task
from crawl_engine.model.fingerprint import list_units

HEAD = """\
locatorGroups: {g: {locators: [{url: "http://a.example/"}]}}
dataDefs: {d: {fields: {title: {selector: h1}, score: {fromStep: true}}}}
"""
PLUGIN = '''\
class Mark:
    """Marks rows."""
    def __init__(self, a=0, *, b=()):
        pass
    def run(self, rows, context):
        return rows

class Read:
    def parse(self, document, context):
        return []

class Fetch:
    async def load(self, request, context):
        return None

class Upper:
    def convert(self, value, context):
        return value.upper()

class Short:
    def run(self, rows):
        return rows

class Empty:
    pass

class Needy:
    def __init__(self, path):
        pass
    def run(self, rows, context):
        return rows

class Derived(Mark):
    pass
'''
MARK = "{class: shop.Mark, previous: filter, next: appender}"


def write(folder: Path, text: str) -> Path:
    defs = folder / "defs"
    (defs / "plugins").mkdir(parents=True, exist_ok=True)
    (defs / "plugins" / "shop.py").write_text(PLUGIN)
    (defs / "a.yml").write_text(HEAD + text)
    return defs


def task(folder: Path, steps: str, more: str = "") -> Task:
    text = f"taskGroups: {{g: {{t: {{dataDef: d, steps: {steps}}}}}}}\n{more}"
    [group] = load(write(folder, text)).definitions.task_groups
    return group.tasks[0]


def problems(folder: Path, steps: str, more: str = "") -> list[Problem]:
    with pytest.raises(DefsError) as caught:
        task(folder, steps, more)
    return caught.value.problems


def names(chain: Task) -> list[str]:
    steps = chain.chain or default_chain(RECORD_DEFAULT)
    return [step.name for step in steps if not step.previous]


def test_a_built_in_set_compiles_to_the_default_chain(tmp_path: Path) -> None:
    for steps in ("jsoupDefault", "recordDefault", "{jsoupDefault: {}}", "{jsoupDefault: }"):
        default = task(tmp_path, steps)
        assert default.chain == ()
        assert names(default) == ["seeder", "loader", "parser", "filter", "appender"]


def test_a_step_is_inserted_and_others_are_replaced(tmp_path: Path) -> None:
    chain = task(tmp_path, f"{{jsoupDefault: {{mark: {MARK}, parser: {{class: shop.Read}}}}}}")
    assert names(chain) == ["seeder", "loader", "parser", "filter", "mark", "appender"]
    assert [step.kind for step in chain.chain] == ["built-in", "built-in", "parser", "built-in", "step", "built-in"]


def test_steps_between_the_same_neighbours_keep_their_order(tmp_path: Path) -> None:
    more = "{class: shop.Mark, previous: one, next: appender}"
    chain = task(tmp_path, f"{{jsoupDefault: {{three: {more}, one: {MARK}, two: {MARK}}}}}")
    assert names(chain)[4:-1] == ["one", "two", "three"] or names(chain)[4:-1] == ["one", "three", "two"]
    chain = task(tmp_path, f"{{jsoupDefault: {{one: {MARK}, two: {MARK}}}}}")
    assert names(chain)[4:-1] == ["one", "two"]


def test_sets_are_made_of_sets(tmp_path: Path) -> None:
    more = (
        f"steps:\n  inner: {{jsoupDefault: {{one: {MARK}}}}}\n"
        "  outer: {inner: {two: {class: shop.Mark, previous: one, next: appender}}}\n"
    )
    assert names(task(tmp_path, "outer", more))[3:] == ["filter", "one", "two", "appender"]
    last = "{outer: {last: {class: command, run: [cat], previous: two, next: appender}}}"
    assert names(task(tmp_path, last, more))[3:] == ["filter", "one", "two", "last", "appender"]


def test_a_whole_set_follows_its_next_keys(tmp_path: Path) -> None:
    more = """\
steps:
  own:
    appender: {class: DataAppender, previous: mark, next: end}
    seeder: {class: org.codetab.scoopi.step.extract.LocatorSeeder, previous: start, next: loader}
    parser: {class: JsoupParser, previous: loader, next: mark}
    loader: {class: PageLoader, previous: seeder, next: parser}
    mark: {class: shop.Mark, previous: parser, next: appender, options: {a: 1, b: [x]}, limit: 500ms, workers: 3}
    make: {class: LocatorCreator, previous: parser, next: seeder}
"""
    chain = task(tmp_path, "own", more).chain
    assert [(step.name, step.previous) for step in chain] == [
        ("seeder", ""), ("loader", ""), ("parser", ""), ("mark", ""), ("appender", ""), ("make", "parser"),
    ]  # fmt: skip
    mark = chain[3]
    assert (dict(mark.options), mark.limit, mark.workers) == ({"a": 1, "b": ["x"]}, 0.5, 3)


@pytest.mark.parametrize(
    ("steps", "code", "words"),
    [
        (
            "{jsoupDefault: {x: {class: shop.Marc, previous: filter, next: appender}}}",
            "unknown-step-class",
            "shop.Mark",
        ),
        ("{jsoupDefault: {x: {class: shop.Empty, previous: filter, next: appender}}}", "bad-step-class", "`run`"),
        ("{jsoupDefault: {x: {class: shop.Short, previous: filter, next: appender}}}", "bad-step-class", "2 arguments"),
        ("{jsoupDefault: {parser: {class: shop.Mark}}}", "bad-step-class", "`parse`"),
        ("{jsoupDefault: {x: {class: shop.Mark, previous: filtr, next: appender}}}", "unknown-step", "filter"),
        ("{jsoupDefault: {x: {class: shop.Mark, previous: parser, next: appender}}}", "unknown-step", "lies between"),
        ("{jsoupDefault: {x: {class: shop.Mark, previous: appender, next: filter}}}", "unknown-step", "comes before"),
        ("{jsoupDefault: {x: {class: shop.Mark, previous: loader, next: parser}}}", "step-order", "after the parser"),
        ("{jsoupDefault: {x: {class: shop.Mark, previous: appender, next: end}}}", "step-order", "before"),
        ("{jsoupDefault: {x: {class: LocatorCreator, previous: filter, next: appender}}}", "step-order", "side branch"),
        ("{jsoupDefault: {x: {class: command, previous: filter, next: appender}}}", "missing-key", "`run`"),
        ("{jsoupDefault: {x: {class: command, run: [cat], previous: filter, next: seeder}}}", "step-order", "command"),
        (f"{{jsoupDefault: {{x: {MARK[:-1]}, run: [cat]}}}}}}", "conflict", "`run`"),
        (f"{{jsoupDefault: {{x: {MARK[:-1]}, limit: fast}}}}}}", "out-of-range", "500ms"),
        (f"{{jsoupDefault: {{x: {MARK[:-1]}, workers: 0}}}}}}", "out-of-range", "workers"),
        (f"{{jsoupDefault: {{x: {MARK[:-1]}, options: [a]}}}}}}", "wrong-type", "mapping"),
        (
            f"{{jsoupDefault: {{x: {MARK[:-1]}, options: {{c: 1}}}}}}}}",
            "bad-step-class",
            "no option 'c'; it takes a, b",
        ),
        ("{jsoupDefault: {x: {class: shop.Needy, previous: filter, next: appender}}}", "bad-step-class", "'path'"),
        (f"{{jsoupDefault: {{x: {MARK}}}, recordDefault: {{}}}}", "conflict", "one set"),
        ("{jsoupDefalt: {}}", "unknown-steps", "jsoupDefault"),
        (
            "{jsoupDefault: {x: {class: shop.Mark, previous: y, next: appender},"
            " y: {class: shop.Mark, previous: x, next: appender}}}",
            "step-cycle",
            "lead back",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, steps: str, code: str, words: str) -> None:
    [problem, *_] = problems(tmp_path, steps)
    assert problem.code == code
    assert words in problem.message
    assert problem.line > 1


def test_sets_that_are_made_of_each_other_are_refused(tmp_path: Path) -> None:
    codes = [p.code for p in problems(tmp_path, "a", "steps:\n  a: {b: {}}\n  b: {a: {}}\n")]
    assert "step-cycle" in codes


def test_inherited_methods_and_unread_bases_are_trusted(tmp_path: Path) -> None:
    chain = task(tmp_path, "{jsoupDefault: {x: {class: shop.Derived, previous: filter, next: appender}}}")
    assert chain.chain[4].class_name == "shop.Derived"


def test_a_plugin_that_cannot_be_parsed_is_named_with_its_line(tmp_path: Path) -> None:
    defs = write(tmp_path, "taskGroups: {g: {t: {dataDef: d}}}\n")
    (defs / "plugins" / "broken.py").write_text("x = 1\ndef f(:\n")
    with pytest.raises(DefsError) as caught:
        load(defs)
    [problem] = [problem for problem in caught.value.problems if not problem.warning]
    assert (problem.code, problem.line, Path(problem.file).name) == ("bad-python", 2, "broken.py")


def test_the_hash_of_a_unit_is_that_of_its_chain_options_and_code(tmp_path: Path) -> None:
    def unit_hash(steps: str, plugin: str = PLUGIN, helper: str = "", text: str = "") -> str:
        defs = write(tmp_path, f"taskGroups: {{g: {{t: {{dataDef: d, steps: {steps}}}}}}}\n{text}")
        (defs / "plugins" / "shop.py").write_text(plugin)
        (defs / "plugins" / "helper.py").write_text(helper)
        definitions = load(defs).definitions
        return list_units(definitions, definitions.task_groups[0])[0].hash

    mark = f"{{jsoupDefault: {{mark: {MARK}}}}}"
    own = unit_hash(mark)
    assert own != unit_hash("jsoupDefault")
    assert own == unit_hash(mark.replace("appender}", "appender, limit: 3, workers: 2}"))
    assert own != unit_hash(mark.replace("appender}", "appender, options: {a: 1}}"))
    assert own != unit_hash(mark, PLUGIN + "\n# changed\n")
    assert own == unit_hash(mark, helper="# not imported\n")
    imported = "from plugins import helper\n" + PLUGIN
    assert unit_hash(mark, imported) != unit_hash(mark, imported, "# changed\n")
    assert unit_hash("jsoupDefault") == unit_hash("jsoupDefault", PLUGIN + "\n# changed\n")


def test_fields_that_steps_fill_and_converters(tmp_path: Path) -> None:
    def codes(field: str, steps: str = "jsoupDefault") -> list[tuple[str, bool]]:
        text = HEAD.replace("{fromStep: true}", field)
        defs = write(tmp_path, "")
        (defs / "a.yml").write_text(f"{text}taskGroups: {{g: {{t: {{dataDef: d, steps: {steps}}}}}}}\n")
        try:
            return [(p.code, p.warning) for p in load(defs).warnings]
        except DefsError as error:
            return [(p.code, p.warning) for p in error.problems]

    assert codes("{fromStep: true}", f"{{jsoupDefault: {{mark: {MARK}}}}}") == []
    assert codes("{selector: i, convert: shop.Upper}") == []
    assert codes("{selector: i, convert: [shop.Upper, shop.Upper]}") == []
    assert codes("{selector: i, convert: shop.Uper}") == [("unknown-converter", False)]
    assert codes("{selector: i, convert: shop.Mark}") == [("bad-converter", False)]
    assert ("conflict", False) in codes("{selector: i, fromStep: true}", f"{{jsoupDefault: {{mark: {MARK}}}}}")
