"""Secrets of requests in the defs: files beside them, variables that cannot be read, literals."""

from pathlib import Path

import pytest

from crawl_engine.defs.checks.secrets import require_secrets
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError

DEFS = """\
locatorGroups:
  g: {locators: [{url: 'https://a.example/', HEADERS}]}
taskGroups: {g: {page: {dataDef: d}}}
dataDefs: {d: {fields: {b: {selector: b}}LINKS}}
hosts: {a.example: {delay: 0HOST}}
"""
DATABASE = """\
locatorGroups: {g: {locators: [{url: 'https://a.example/'}]}}
taskGroups: {g: {page: {dataDef: d}}}
dataDefs: {d: {fields: {b: {selector: b}}}}
appenders: {a: {type: postgresql, url: 'URL'}}
"""


def write(folder: Path, headers: str = "headers: {}", host: str = "", links: str = "") -> Path:
    (folder / "crawl.yml").write_text(DEFS.replace("HEADERS", headers).replace("HOST", host).replace("LINKS", links))
    return folder


@pytest.mark.parametrize(
    ("headers", "host", "expected"),
    [
        ("headers: {}", ", auth: {basic: 'u:pw'}", "5:45"),
        ("headers: {}", ", auth: {basic: 'u:%{env.PW}'}", None),
        ("headers: {}", ", login: {url: /, form: {user: me, password: pw}}", "5:53"),
        ("headers: {}", ", login: {url: /, form: {user: me, password: '%{file.pw}'}}", None),
        ("headers: {}", ", proxy: 'http://u:pw@p:1'", "5:38"),
        ("headers: {}", ", proxy: 'socks5h://u:pw@p:1'", "5:38"),
        ("headers: {}", ", proxy: 'http://u:%{env.PW}@p:1'", None),
        ("headers: {}", ", proxy: 'socks5://u:%{env.PW}@p:1'", None),
        ("headers: {X-Api-Key: pw, Accept-Language: de}", "", "2:67"),
        ("headers: {Authorization: 'Bearer %{env.T}', Referer: 'https://b.example/'}", "", None),
        ("cookies: {lang: de}", "", None),
        ("cookies: {PHPSESSID: pw}", "", "2:67"),
    ],
)
def test_check_warns_of_literals_where_secrets_stand(
    tmp_path: Path, headers: str, host: str, expected: str | None
) -> None:
    warnings = [w for w in load(write(tmp_path, headers, host)).warnings if w.code == "literal-secret"]
    assert [f"{w.line}:{w.column}" for w in warnings] == ([] if expected is None else [expected])
    assert "pw" not in str([w.message for w in warnings])


@pytest.mark.parametrize(
    ("url", "is_literal"),
    [
        ("postgresql://u:pw@db.example:5432/shop", True),
        ("postgresql://u@db.example/shop?sslmode=require&password=pw", True),
        ("postgresql://u:%{env.PW}@db.example/shop", False),
        ("postgresql://u@db.example/shop?password=%{file./run/pw}", False),
        ("postgresql://u@db.example:5432/shop", False),
        ("%{env.DATABASE_URL}", False),
    ],
)
def test_check_warns_of_the_password_of_a_database(tmp_path: Path, url: str, *, is_literal: bool) -> None:
    (tmp_path / "crawl.yml").write_text(DATABASE.replace("URL", url))
    codes = [warning.code for warning in load(tmp_path).warnings]
    assert codes == ["literal-secret"] * is_literal


def test_a_file_is_beside_the_defs_and_a_problem_has_the_place_of_its_variable(tmp_path: Path) -> None:
    loaded = load(
        write(tmp_path, "headers: {X-A: '%{file.key}'}", links=", links: [{url: /x, form: {a: '%{env.NO_A}'}}]")
    )
    (locator,) = loaded.definitions.locator_groups[0].locators
    assert locator.headers["X-A"] == f"%{{file.{tmp_path / 'key'}}}"
    with pytest.raises(DefsError) as caught:
        require_secrets(loaded.root, loaded.definitions.files)
    assert [(p.line, p.code) for p in caught.value.problems] == [(2, "unset-variable"), (4, "unset-variable")]
    assert "NO_A is not set" in caught.value.problems[1].message


BROKEN = """\
locatorGroups:
  g: {locators: [{url: 'http://u:PW@a.example/', headers: {X-Key: 'PW'}}, {urls: ['htp://u:PW@b.example/{1..']}]}
taskGroups: {g: {page: {dataDef: d, check: PW.Check}}, x: {page: {link: nowhere}}}
dataDefs: {d: {fields: {b: {selector: 'a['}}, links: [{form: {a: 'PW'}}]}}
hosts: {a.example: {auth: {basic: 'u:PW', login: 1}}, 'u:PW@b.example': {delay: -1}}
"""


@pytest.mark.parametrize("password", ["page", "check", "url", "dataDef", "hosts", "is", "a"])
def test_no_message_depends_on_a_password(tmp_path: Path, password: str) -> None:
    """Masking by search and replace would take the word out of the program's own sentences."""

    def messages(word: str) -> list[str]:
        (tmp_path / "crawl.yml").write_text(BROKEN.replace("PW.", "step.").replace("PW", word))
        with pytest.raises(DefsError) as caught:
            load(tmp_path)
        return [f"{problem.line} {problem.code} {problem.message}" for problem in caught.value.problems]

    assert messages(password) == messages("KNRY7")
    assert "KNRY7" not in "".join(messages("KNRY7"))


@pytest.mark.parametrize("path", ["htp:/u:KNRY@h/x", "u:KNRY@h", "data:/u:KN/RY@h", "//u:KNRY@h/", "ftp://u:KNRY@h"])
def test_a_list_that_is_a_mistyped_url_shows_no_password(tmp_path: Path, path: str) -> None:
    write(tmp_path)
    text = (tmp_path / "crawl.yml").read_text().replace("url: 'https://a.example/', headers: {}", f"from: '{path}'")
    (tmp_path / "crawl.yml").write_text(text)
    try:
        problems = load(tmp_path).warnings
    except DefsError as error:
        problems = tuple(error.problems)
    shown = "".join(problem.message for problem in problems)
    assert "from" in shown or "does not exist yet" in shown
    assert "KN" not in shown
    assert "RY" not in shown
