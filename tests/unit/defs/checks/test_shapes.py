"""A part in the form of other crawlers has one problem, with the form that is right, and hides no other."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from tests.unit.defs.language.test_strictness import load_problems, marked, write_defs

URL = '"https://x.example/"'
START = f"locatorGroups: {{a: {{locators: [{{url: {URL}}}]}}}}\n"
TASK = "taskGroups: {a: {t: {dataDef: d}}}\n"
DATA = "dataDefs: {d: {fields: {x: {selector: h1}}}}\n"
LINKS = "dataDefs: {d: {links: [{selector: a}]}}\n"


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        # where to start
        (START.replace("[", "§").replace("]", "") + TASK + DATA, "`locators: [{url: …}]`"),
        (f"locatorGroups: {{a: {{locators: [§{URL}, {URL}]}}}}\n" + TASK + DATA, "`locators: [{url: …}]`"),
        (f"locatorGroups: {{a: {{locators: §{URL}}}}}\n" + TASK + DATA, "`locators: [{url: …}]`"),
        (f"locatorGroups: {{a: {{§url: {URL}}}}}\n" + TASK + DATA, "`a: {locators: [{url: …}]}`"),
        (f"locatorGroups: {{a: {{§urls: [{URL}], headers: {{b: c}}}}}}\n" + TASK + DATA, "`a: {locators: [{url: …}]}`"),
        (f"locatorGroups: {{a: §[{{url: {URL}}}]}}\n" + TASK + DATA, "`a: {locators: [{url: …}]}`"),
        (f"locatorGroups: {{a: §{URL}}}\n" + TASK + DATA, "`a: {locators: [{url: …}]}`"),
        (f"locatorGroups: §[{{name: a, url: {URL}}}]\n" + TASK + DATA, "`locatorGroups: {NAME: {locators"),
        (START.replace("locators:", "§headers: {b: c}, locators:") + TASK + DATA, "in each of `locators`"),
        (f"locatorGroups: {{a: {{locators: [{{url: §[{URL}]}}]}}}}\n" + TASK + DATA, "`urls: […]`"),
        (f"locatorGroups: {{a: {{locators: [{{urls: §{URL}}}]}}}}\n" + TASK + DATA, "`urls: […]`"),
        # what to do
        (START + "taskGroups: {a: §d}\n" + DATA, "`a: {page: {dataDef: d}}`"),
        (START + "taskGroups: {a: {page: §d}}\n" + DATA, "`page: {dataDef: d}`"),
        (START + "taskGroups: {a: {live: P1D, §dataDef: d}}\n" + DATA, "`page: {dataDef: d}`"),
        (START + "taskGroups: {a: §[{dataDef: d}, {dataDef: d}]}\n" + DATA, "`a: {page: {dataDef: d}}`"),
        (START + "taskGroups: {a: §[d]}\n" + DATA, "`a: {page: {dataDef: d}}`"),
        (START + "taskGroups: §[{name: a, t: {dataDef: d}}]\n" + DATA, "`taskGroups: {NAME: {page: {dataDef: …}}}`"),
        ("locatorGroups: {§a: {locators: [{url: /}]}}\n" + DATA, "`taskGroups: {a: {page: {dataDef: …}}}`"),
        # what to extract
        (START + TASK + "dataDefs:\n  §- {name: d, fields: {x: {selector: h1}}}\n", "`dataDefs: {NAME: {"),
        (START + TASK + "dataDefs: §[{d: {fields: {x: {selector: h1}}}}]\n", "`dataDefs: {NAME: {fields: {title"),
        (START + TASK + "dataDefs: §[d]\n", "`dataDefs: {NAME: {fields: {title"),
        (START + TASK + "dataDefs: §d\n", "`dataDefs: {NAME: {fields: {title"),
        (START + TASK + "dataDefs: {d: {§x: {selector: h1}, y: {selector: h2}, key: [x]}}\n", "`d: {fields: {x: …}}`"),
        (
            START + TASK + "dataDefs: {d: {fields: §[{name: x}], key: [x], filters: [{field: x, pattern: y}]}}\n",
            "`fields: {x: {selector: …}}`",
        ),
        (START + TASK + "dataDefs: {d: {fields: §[{x: {selector: h1}}], key: [x]}}\n", "`fields: {x: {selector: …}}`"),
        (START + TASK + "dataDefs: {d: {fields: {x: §h1}}}\n", "`x: {selector: h1}`"),
        (START + TASK + "dataDefs: {d: {fields: {x: {§css: h1}}}}\n", "write `selector`"),
        (START + TASK + "dataDefs: {d: {fields: {x: {selector: a, replace: §[a, b]}}}}\n", "`[[a, b]]`"),
        (START + TASK + "dataDefs: {d: {§block: .x, fields: {x: {selector: h1}}}}\n", "`query: {block: .x}`"),
        (START + TASK + "dataDefs: {d: {query: §.x, fields: {x: {selector: h1}}}}\n", "`query: {block: .x}`"),
        (START + TASK + DATA.replace("}}}}", "}}, key: §x}}"), "`key: [x]`"),
        (START + TASK + DATA.replace("}}}}", "}}, filters: §{x: y}}}"), "`filters: [{field: …, pattern: …}]`"),
        # which links
        (START + TASK + LINKS.replace("[", "§").replace("]", ""), "`links: [{selector: a}]`"),
        (START + TASK + "dataDefs: {d: {links: §a.next}}\n", "`links: [{selector: a.next}]`"),
        (START + TASK + "dataDefs: {d: {links: [§a.next, a.more]}}\n", "`links: [{selector: a.next}]`"),
        (START + TASK + "dataDefs: {d: {next: §a.next}}\n", "`links: [{selector: a.next}]`"),
        (START + TASK + "dataDefs: {d: {next: §{selector: a.next}}}\n", "`links: [{selector: a.next}]`"),
        (START + TASK + LINKS.replace("a}", "a, allow: §/x/}"), "`allow: [/x/]`"),
        (START + TASK + LINKS.replace("a}", "a, §group: a}"), "write `linkGroup`"),
        # hosts, outputs, settings
        (START + TASK + DATA + "hosts: {x.example: {§user_agent: y/1}}\n", "`headers: {User-Agent: …}`"),
        (START + TASK + DATA + "hosts: {x.example: {§userAgent: y/1}}\n", "`user_agent` is a setting"),
        (START + TASK + DATA + "hosts: §[{name: x.example, delay: 1}]\n", "`hosts: {shop.example: {delay: 1}}`"),
        (START + TASK + DATA + "appenders: §[{type: csv}]\n", "`appenders: {rows: {type: csv}}`"),
        (START + TASK + DATA + "§nodes: 2\n", "`nodes` is a setting: write it in crawl.toml"),
    ],
)  # fmt: skip
def test_another_form_has_one_problem_with_the_right_one(tmp_path: Path, text: str, cure: str) -> None:
    text, (place,) = marked(text)
    problems = [problem for problem in load_problems(write_defs(tmp_path, text)) if not problem.warning]
    assert len(problems) == 1, problems
    assert (problems[0].line, problems[0].column) == place
    assert cure in problems[0].message


def test_what_else_is_wrong_is_found_in_the_part_as_it_was_meant(tmp_path: Path) -> None:
    text = (
        "locatorGroups: {a: {url: 'ftp://x'}}\ntaskGroups: {a: e}\n"
        "dataDefs: {d: {fields: [{name: x, selector: 'h1['}], links: {selector: a, linkGroup: b}}}\n"
    )
    problems = [problem for problem in load_problems(write_defs(tmp_path, text)) if not problem.warning]
    assert [(problem.line, problem.code) for problem in problems] == [
        (1, "unknown-key"), (1, "bad-url"), (2, "wrong-type"), (3, "wrong-type"), (3, "bad-selector"),
        (3, "wrong-type"), (3, "unknown-group"),
    ]  # fmt: skip


def test_no_message_shows_a_secret(tmp_path: Path) -> None:
    for text in (
        "locatorGroups: {a: 'https://me:s3cret@x.example/'}\n", "locatorGroups: {a: {locators: 'u:s3cret@x'}}\n",
        "locatorGroups: {a: {locators: ['u:s3cret@x']}}\n", "locatorGroups: s3cret=1\n", "hosts: [s3cret=1]\n",
        "locatorGroups: {a: {locators: [{urls: 's3cret=x'}]}}\n", "appenders: [{url: 'u:s3cret@x'}]\n",
    ):  # fmt: skip
        with pytest.raises(DefsError) as error:
            load(write_defs(tmp_path, text + TASK + DATA))
        assert "s3cret" not in str(error.value)
