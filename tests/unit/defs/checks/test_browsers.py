"""Checks of browsers: repeated clicks, and lists whose records must be told apart."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.runtime.extras import has_extra

pytestmark = pytest.mark.skipif(not has_extra("browser"), reason="needs playwright")
CLICK, SCROLL = '{click: "#next", until: gone}', "{scroll: {until: end}}"


def problems(tmp_path: Path, browser: str, data_def: str) -> list[str]:
    (tmp_path / "d.yml").write_text(
        f"locatorGroups: {{g: {{locators: [{{url: 'http://shop.example/'}}]}}}}\n"
        f"taskGroups: {{g: {{loader: {{browser: {{{browser}}}}}, page: {{dataDef: d}}}}}}\n"
        f"dataDefs: {{d: {{{data_def}}}}}\n",
        "utf-8",
    )
    try:
        load(tmp_path / "d.yml")
    except DefsError as error:
        return [str(problem).removeprefix("d.yml:") for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("browser", "data_def", "expected"),
    [
        (f"collect: true, actions: [{CLICK}]", "query: {block: li}, fields: {a: {}}", "3:23: no-key `collect` needs"),
        (f"collect: true, actions: [{SCROLL}]", "query: {table: table}, fields: {a: {}}", "3:23: no-key `collect`"),
        ("collect: true", "fields: {a: {}}", "2:37: no-effect `collect` keeps what the page shows between its actions"),
        ("actions: [{press: Enter, until: gone}]", "fields: {a: {}}", "2:62: bad-action `until` beside an action"),
        ("actions: [{press: Enter, frame: iframe}]", "fields: {a: {}}", "2:62: bad-action `frame` is of click, fill"),
        ("actions: [{wait: idle, frame: iframe}]", "fields: {a: {}}", "2:60: no-effect `frame` has no effect beside"),
        ('actions: [{click: "text: "}]', "fields: {a: {}}", "2:55: bad-selector `click`: write the text behind"),
        ("actions: [{until: gone}]", "fields: {a: {}}", "2:47: bad-action an action has one of click"),
    ],
)
def test_each_problem_names_its_place_and_its_cure(
    tmp_path: Path, browser: str, data_def: str, expected: str
) -> None:  # fmt: skip
    found = problems(tmp_path, browser, data_def)
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    "data_def",
    ["query: {block: li}, key: [a], fields: {a: {}}", "fields: {a: {selector: h1}}", "links: [{selector: a}]"],
)
def test_records_that_can_be_told_apart_are_collected(tmp_path: Path, data_def: str) -> None:
    assert problems(tmp_path, f"collect: true, actions: [{CLICK}]", data_def) == []


@pytest.mark.parametrize("loader", ["browser", "{browser: {timezone: Europe/London}}"])
def test_pages_that_come_without_a_signature_are_told(tmp_path: Path, loader: str) -> None:
    defs = "locatorGroups: {g: {locators: [{url: 'http://shop.example/'}]}}\n"
    defs += f"taskGroups: {{g: {{loader: {loader}, page: {{dataDef: d}}}}}}\ndataDefs: {{d: {{fields: {{a: {{}}}}}}}}\n"
    rule = 'sign: {key: "%{env.BOT_KEY}", agent: "https://bot.example"}'
    (tmp_path / "d.yml").write_text(f"{defs}hosts: {{shop.example: {{{rule}}}}}\n", "utf-8")
    told = [str(warning) for warning in load(tmp_path / "d.yml").warnings]
    text = "the requests of the browser are not signed: the pages of 'g' come without `sign`"
    assert [one for one in told if "not-signed" in one] == [f"d.yml:2:18: warning not-signed {text}"]
