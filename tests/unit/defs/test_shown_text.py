"""The text of def files on a screen: no secret stands in it, whatever the file is."""

import pytest

from crawl_engine.defs.shown_text import shown_lines

DEFS = """\
# the password is KNRYbasic
baseUrl: "http://bu:KNRYbase@h.example/"
locatorGroups:
  g:
    locators:
      - {name: a, url: "http://me:KNRYuser@h.example/a", headers: {X-K: KNRYh, Accept: t/h}, cookies: {s: KNRYc}}
      - {name: two, url: /b, headers: {X-Api-Key: "%{env.KEY}"}}
hosts:
  h.example:
    auth:
      basic: "bob:KNRYbasic"
    headers:
      X-H: 'KNRYhost'
      X-I: &i KNRYanchor
      X-J: *i
    proxy: ["http://u:KNRYproxy@127.0.0.1:1", "socks5h://u:KNRYsocks@127.0.0.1"]
    login:
      url: /login
      form: {user: KNRYwho, password: KNRYword}
taskGroups: {g: {t: {dataDef: p}}}
dataDefs:
  p: {fields: {t: {selector: title}}}
"""


def test_secrets_are_hidden_and_the_rest_is_shown() -> None:
    lines = shown_lines(DEFS)
    assert "KNRY" not in "\n".join(lines)
    assert len(lines) == len(DEFS.splitlines())
    shown = """{name: a, url: "http://•••@h.example/a", headers: {X-K: •••, Accept: t/h}, cookies: {s: •••}}"""
    assert lines[5] == f"      - {shown}"
    assert lines[6:9] == DEFS.splitlines()[6:9], "variables are no secrets"
    assert lines[10:15] == [
        '      basic: "•••"',
        "    headers:",
        "      X-H: '•••'",
        "      X-I: &i •••",
        "      X-J: *i",
    ]
    assert lines[-1] == DEFS.splitlines()[-1]


@pytest.mark.parametrize("password", ["selector", "dataDefs", "login: url", "the remark"])
def test_a_secret_that_is_a_word_of_the_file_is_not_told_by_its_absence(password: str) -> None:
    written = DEFS.replace("KNRYbasic", password).replace("title}}}", "title}}} # the remark of a selector")
    shown, other = shown_lines(written), shown_lines(DEFS.replace("KNRYbasic", "KNRYother"))
    assert shown[1:-1] == other[1:-1]
    assert shown[0] == "# •••"
    assert shown[-1].startswith("  p: {fields: {t: {selector: title}}} # ")


@pytest.mark.parametrize(
    "broken",
    [
        DEFS + "\n  ]: [",
        DEFS.replace('"bob:KNRYbasic"', ">-\n        bob:KNRYbasic\n        KNRYmore"),
        DEFS.replace('"bob:KNRYbasic"', '"bob:KNRY\\x62asic"'),
        DEFS.replace('"bob:KNRYbasic"', '"bob:KNRYbasic'),
    ],
    ids=["no YAML", "folded", "escaped", "an open quote"],
)
def test_what_cannot_be_located_is_hidden_with_its_section(broken: str) -> None:
    lines = [line for line in shown_lines(broken) if not line.startswith("#")]
    assert "KNRY" not in "\n".join(lines)
    assert len(lines) == len(broken.splitlines()) - 1
