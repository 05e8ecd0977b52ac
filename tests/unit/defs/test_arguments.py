"""`-a NAME=VALUE` stands in texts of the defs as `%{arg.NAME}`."""

from pathlib import Path

import pytest

from crawl_engine.defs.arguments import UNSET, parse_argument, require_used
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, UsageError
from crawl_engine.model.definition import Definitions

DEFS = """
baseUrl: "%{arg.site}"
locatorGroups:
  shop:
    locators:
      - {name: city, url: "%{arg.site}/c/%{arg.city}?q=%{arg.q}", headers: {X-City: "%{arg.q} %%{arg.q}"}}
      - {name: host, url: "https://%{arg.host}:81/x%{arg.q}", form: {city: "%{arg.q}", url: "%{arg.q}"}}
      - {name: list, from: "%{arg.list}.txt"}
      - {name: json, url: "/s", json: {page: "%{arg.page}"}}
taskGroups: {shop: {list: {dataDef: item}}}
dataDefs:
  item: {fields: {title: {selector: h1}, city: {value: "in %{arg.q}"}}}
hosts:
  "%{arg.host}": {delay: "%{arg.delay}"}
"""
VALUES = {
    "site": "https://a.example", "city": "men/red shoes", "q": "a&b é %{env.HOME}", "host": "b.example", "list": "one",
    "page": "2", "delay": "0.5",
}  # fmt: skip


def load_text(folder: Path, text: str, **arguments: str) -> Definitions:
    (folder / "a.yml").write_text(text)
    return load(folder, arguments=arguments).definitions


def test_values_stand_where_requests_and_constants_name_them(tmp_path: Path) -> None:
    defs = load_text(tmp_path, DEFS, **VALUES)
    city, host, listed, json = defs.locator_groups[0].locators
    encoded = "a%26b%20%C3%A9%20%25%7Benv.HOME%7D"
    assert city.urls == (f"https://a.example/c/men/red%20shoes?q={encoded}",)
    assert city.headers == {"X-City": "a&b é %%{env.HOME} %%{arg.q}"}, "a value is not searched for variables"
    assert host.urls == (f"https://b.example:81/x{encoded}",)
    assert listed.from_file == str(tmp_path / "one.txt")
    assert json.body == '{"page":"2"}', "a text stays a text"
    assert defs.data_defs[0].fields[1].value == "in a&b é %%{env.HOME}"
    assert defs.base_url == "https://a.example"
    assert (defs.hosts[0].name, defs.hosts[0].delay.min if defs.hosts[0].delay else None) == ("b.example", 0.5)


def test_an_argument_without_a_value_is_a_problem_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(DefsError) as caught:
        load_text(tmp_path, DEFS, **{name: value for name, value in VALUES.items() if name != "city"}, ciyt="x")
    (problem,) = caught.value.problems
    assert problem.code == UNSET
    assert (problem.line, problem.column) == (6, 27)
    assert problem.message == "`%{arg.city}` has no value (did you mean 'ciyt'?): give -a city=VALUE"


def test_nothing_else_is_said_of_a_text_without_its_value(tmp_path: Path) -> None:
    with pytest.raises(DefsError) as caught:
        load_text(tmp_path, DEFS, **{name: value for name, value in VALUES.items() if name != "delay"})
    assert [(problem.code, problem.message) for problem in caught.value.problems] == [
        (UNSET, "`%{arg.delay}` has no value: give -a delay=VALUE")
    ]


def test_a_selector_cannot_hold_an_argument(tmp_path: Path) -> None:
    text = DEFS.replace("selector: h1", "selector: '%{arg.q}'")
    with pytest.raises(DefsError, match="not available here; it is in locators, hosts"):
        load_text(tmp_path, text, **VALUES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("city", "-a city: not of the form NAME=VALUE"), ("a b=1", "-a a b=1: 'a b' is not a name"), ("=1", "'' is not")],
)
def test_a_malformed_argument_is_named(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_argument(text)
    assert parse_argument("a=b=c") == ("a", "b=c")
    assert parse_argument("a=") == ("a", "")


def test_an_argument_that_the_defs_do_not_use_is_refused() -> None:
    with pytest.raises(UsageError, match=r"-a ctiy: the defs have no `%\{arg.ctiy\}` \(did you mean 'city'\?\)"):
        require_used({"ctiy": "x"}, frozenset({"city"}))
    require_used({"city": "x"}, frozenset({"city", "other"}))
