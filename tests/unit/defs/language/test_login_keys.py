"""The keys of logins and cookie jars: what is refused, and where the secrets of a login go."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions
from crawl_engine.robots.host_policy import resolve_host_policy
from crawl_engine.settings import Settings

DEFS = """\
locatorGroups: {g: {locators: [{url: "URL"}]}}
taskGroups: {g: {page: {dataDef: d}}}
dataDefs: {d: {fields: {t: {selector: h1}}}}
hosts:
  shop.example: {KEYS}
"""
CASES = [
    ("missing-key", "§login: {url: /login}"),
    ("unknown-value", "cookieJar: §all"),
    ("conflict", "login: {url: /login, form: {user: me}}, §cookieJar: off"),
    ("conflict", "login: {url: /login, form: {user: me}}, §cookieJar: perNode"),
    ("no-fields", "login: {url: /login, §form: {}}"),
    ("bad-form", 'login: {url: /login, form: {user: §"a\\nb"}}'),
    ("unknown-variable", "login: {url: /login, form: {user: §'%{field.x}'}}"),
    ("bad-selector", "login: {url: /login, form: {user: me}, check: §'a['}"),
    ("bad-selector", "login: {url: /login, form: {user: me}, check: §'jmespath: a'}"),
    ("bad-selector", "login: {url: /login, form: {user: me}, selector: §'form['}"),
    ("bad-url", "login: {url: §'ftp://x/', form: {user: me}}"),
    ("bad-url", "login: {url: §'https://me:pw@x.example/', form: {user: me}}"),
    ("bad-url", "login: {url: §'/%{env.X}', form: {user: me}}"),
    ("unknown-value", "login: {url: /login, form: {user: me}, on_lost: §wait}"),
]


def load_text(folder: Path, keys: str, url: str = "https://shop.example/") -> Definitions:
    (folder / "crawl.yml").write_text(DEFS.replace("KEYS", keys).replace("URL", url))
    return load(folder).definitions


@pytest.mark.parametrize(("code", "keys"), CASES)
def test_a_problem_of_a_login_has_its_code_and_place(tmp_path: Path, code: str, keys: str) -> None:
    at = keys.index("§")
    with pytest.raises(DefsError) as caught:
        load_text(tmp_path, keys.replace("§", ""))
    (problem,) = caught.value.problems
    assert (problem.code, problem.line, problem.column) == (code, 5, len("  shop.example: {") + at + 1)


def test_the_jar_is_shared_where_there_is_a_login(tmp_path: Path) -> None:
    login = "login: {url: /login, form: {user: me}}"
    modes = {keys: load_text(tmp_path, keys).hosts[0].jar_mode for keys in ("delay: 1", "cookieJar: off", login)}
    assert list(modes.values()) == ["perNode", "off", "shared"]
    assert load_text(tmp_path, f"{login}, cookieJar: shared").hosts[0].jar_mode == "shared"


@pytest.mark.parametrize(
    "keys", ["login: {form: {password: {a: canary}}, url: /x}", "login: [canary=1]", "login: {url: /, form: canary x}"]
)
def test_no_message_quotes_a_value_of_a_login(tmp_path: Path, keys: str) -> None:
    with pytest.raises(DefsError) as caught:
        load_text(tmp_path, keys)
    assert "canary" not in str([problem.message for problem in caught.value.problems])


@pytest.mark.parametrize(
    ("url", "keys", "host", "logs_in"),
    [
        ("https://shop.example/", "", "shop.example:443", True),
        ("https://shop.example/", "", "shop.example:80", False),
        ("http://shop.example/", "", "shop.example:80", True),
        ("https://shop.example/", "http://shop.example", "shop.example:80", True),
        ("https://shop.example/", "", "shop.example:8080", True),
        ("https://shop.example/", "", "other.example:443", False),
    ],
)
def test_over_plain_http_a_host_is_logged_in_to_only_if_the_defs_say_so(
    tmp_path: Path, url: str, keys: str, host: str, logs_in: bool
) -> None:
    definitions = load_text(tmp_path, f'login: {{url: "{keys}/login", form: {{user: me}}}}', url)
    assert (resolve_host_policy(definitions, Settings(), host).login is not None) == logs_in
