"""A likely mistake in the defs has one message, which says what to write instead."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from tests.unit.defs.language.test_strictness import write_defs

START = 'locatorGroups: {a: {locators: [{url: "https://x.example/"}]}}\n'
TASK = "taskGroups: {a: {t: {dataDef: d}}}\n"
FIELD = "dataDefs: {d: {fields: {x: {selector: h1}}}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (START + TASK + "dataDefs: {d: {fields: {x: {selector: a, type: date, format: 'YYYY-MM-DD'}}}}", "%Y-%m-%d"),
        (START + TASK + "dataDefs: {d: {fields: {x: {selector: a, type: date, format: iso}}}}", "for example %d %B %Y"),
        (START + TASK + "dataDefs: {d: {query: {block: li}, fields: {x: {selector: 'jmespath: a'}}}}", "reads JSON"),
        (START + TASK + "dataDefs: {d: {fields: {x: {selector: a, join: '|'}}}}", "no effect without `all: true`"),
        (START.replace("example/", "example/a b") + TASK + FIELD, "sent as %20"),
        (START + TASK + 'dataDefs: {d: {fields: {x: {selector: a, match: "\\d+"}}}}', "two backslashes"),
        (START.replace('"https://x.example/"', "https://x.example/{1..3}") + TASK + FIELD, "quote a URL"),
        (START + TASK + "dataDefs:\n  d: {fields: {x: {selector: h1}}\n\n", "that begins in line 4"),
        (
            START.replace("]}}", ", {url: 'https://x.example/login', method: POST, form: {user: me}}]}}")
            + TASK
            + FIELD,
            "use `login` of its host instead",
        ),
        (START + TASK + "dataDefs: {d: {fields: {x: h1}}}", "write `x: {selector: h1}`"),
        (START + "taskGroups: {a: {dataDef: d}}\n" + FIELD, "write `page: {dataDef: d}`"),
        (START + "taskGroups: {aa: {t: {dataDef: d}}}\n" + FIELD, "did you mean 'aa'?"),
        (START + TASK + "dataDefs:\n  d: {fields: {x: {selector: #id}}}\n  e: 1\n", "quote the text: '#id'"),
        (START + TASK + "dataDefs:\n  d: {fields: {x: {selector: #id}}}\n\n#\n", "quote the text: '#id'"),
        (START + TASK + "dataDefs:\n  d:\n    fields:\n      x:\n        selector: #id\n", "quote '#id'"),
        (START + TASK + "dataDefs:\n  d:\n    fields:\n      x:\n        selector: a #id\n", "before the comment #id"),
        (START + TASK + "dataDefs: {d: {fields: {x: {selector: a[href]}}}}", "quote a text that contains ["),
        (START + TASK + "dataDefs: {d: {query: {block: *}, fields: {x: {selector: h1}}}}", "quote it: '*'"),
        (START + TASK + "dataDefs:\n  d:\n    fields:\n      x:\n        selector: h1\n       all: true\n", "7 spaces"),
        (
            START + TASK + "dataDefs:\n  d:\n    fields:\n      x:\n        selector: h1\n         all: true\n",
            "9 spaces",
        ),
        (
            START + TASK + "dataDefs:\n  d:\n    fields:\n      x: {selector: h1}\n         y: {selector: h2}\n",
            "9 spaces",
        ),
        (START + TASK + FIELD + "hosts: {x.example: {delay: 500ms}}\n", "write 0.5, in seconds"),
        (START + TASK + FIELD.replace("h1", "'response.css(\"li\").get()'"), "write the selector alone"),
        (START.replace("}]}}", ", json: '{a: 1}'}]}}") + TASK + FIELD, "is a text, and is sent with quotes"),
        ("locatorGroups: {a: {locators: []}}\n" + TASK + FIELD, "write `locators: [{url: …}]`"),
        (START + "taskGroups: {a: }\n" + "dataDefs: {}\n", "`a` is empty; write `a: {page: {dataDef: …}}`"),
        (START + TASK + "dataDefs: {d: {fields: [x, y]}}", "write `fields: {title: {selector: …}}`"),
        (START + TASK + "dataDefs: {d: {fields: [{selector: h1}]}}", "write `fields: {title: {selector: …}}`"),
        (START + TASK + "dataDefs: {d: {fields: [{x: h1}]}}", "write `fields: {x: {selector: …}}`"),
        (f"start_urls: [a]\n{START}{TASK}{FIELD}", "write start URLs as `locatorGroups: {NAME: {locators"),
        (START + TASK + "dataDefs: {d: {fields: {x: {selector: h1}}, follow: a}}", "write the links to follow as"),
    ],
)
def test_a_likely_mistake_has_one_message_with_its_cure(tmp_path: Path, text: str, words: str) -> None:
    defs = write_defs(tmp_path, text)
    try:
        problems = list(load(defs).warnings)
    except DefsError as error:
        problems = [p for p in error.problems if p.code != "unused"]
    assert len(problems) == 1, problems
    assert words in problems[0].message


def test_a_step_set_that_changes_a_built_in_one_is_no_step(tmp_path: Path) -> None:
    mark = "mark: {class: DataFilter, previous: filter, next: appender}"
    defs = write_defs(tmp_path, START + TASK + FIELD + f"steps: {{mine: {{jsoupDefault: {{{mark}}}}}}}\n")
    load(defs)
    defs = write_defs(
        tmp_path, START + TASK + FIELD + f"steps: {{mine: {{jsoupDefault: {{{mark.replace('er, n', ', n')}}}}}}}\n"
    )
    with pytest.raises(DefsError) as caught:
        load(defs)
    assert "unknown step 'filt'" in str(caught.value)
