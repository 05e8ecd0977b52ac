"""Secrets of requests in the defs: files beside them, variables that cannot be read, literals."""

from pathlib import Path

import pytest

from engine.defs.checks.secrets import require_secrets
from engine.defs.loader import load
from engine.errors import DefsError

DEFS = """\
locatorGroups:
  g: {locators: [{url: 'https://a.example/', HEADERS}]}
taskGroups: {g: {page: {dataDef: d}}}
dataDefs: {d: {fields: {b: {selector: b}}LINKS}}
hosts: {a.example: {delay: 0HOST}}
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
        ("headers: {}", ", proxy: 'http://u:%{env.PW}@p:1'", None),
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
