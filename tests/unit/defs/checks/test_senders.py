"""Appenders that send rows: what is read, what is reported where, and that secrets are sealed."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.output_type import AppenderDef

DEFS = """\
locatorGroups: {g: {locators: [{url: "http://shop.example/"}]}}
taskGroups: {g: {t: {dataDef: book}}}
dataDefs: {book: {fields: {a: {selector: a}}}}
appenders:
  x: """


def loaded(tmp_path: Path, sender: str) -> AppenderDef:
    (tmp_path / "a.yml").write_text(DEFS + sender + "\n", "utf-8")
    [appender] = load(tmp_path).definitions.appenders
    return appender


def test_the_keys_are_read(tmp_path: Path) -> None:
    http = loaded(
        tmp_path,
        "{type: http, url: 'https://a.example/%{env.P}', headers: {X-A: b}, batch: 7, limit: 2m, dataDefs: [book]}",
    )
    assert (http.kind, http.url, dict(http.headers)) == ("sender", "https://a.example/%{env.P}", {"X-A": "b"})
    assert (http.batch, http.limit, http.data_defs) == (7, 120.0, ("book",))
    command = loaded(tmp_path, "{type: command, run: [cat, -u]}")
    assert (command.kind, command.run, command.batch) == ("sender", ("cat", "-u"), None)


@pytest.mark.parametrize(
    ("sender", "place", "expected"),
    [
        ("{type: http}", "5:7", "missing-key `type: http` needs `url`"),
        ("{type: htttp, url: 'http://a.b/'}", "5:13", "unknown-appender unknown appender 'htttp' (did you"),
        ("{type: http, url: /rows}", "5:24", "bad-url `url` must be an absolute http:// or https:// URL"),
        ("{type: http, url: 'ftp://a.example/'}", "5:24", "bad-url `url` must be an absolute"),
        ("{type: http, url: 'http://%{run.id}/'}", "5:24", "unknown-variable `url`: `%{run.id}` is not available here"),
        ("{type: http, url: 'http://a.b/', path: a.json}", "5:39", "conflict `path` has no effect with `type: http`"),
        ("{type: http, url: 'http://a.b/', run: [cat]}", "5:39", "conflict `run` has no effect with `type: http`"),
        ("{type: http, url: 'http://a.b/', batch: 0}", "5:46", "out-of-range"),
        ("{type: http, url: 'http://a.b/', batch: many}", "5:46", "wrong-type"),
        ("{type: http, url: 'http://a.b/', limit: 2h}", "5:46", "out-of-range `limit` must be a time"),
        ("{type: http, url: 'http://a.b/', headers: {'X Y': a}}", "5:49", "bad-header 'X…' is not a valid name"),
        ("{type: http, url: 'http://a.b/', headers: {Host: a}}", "5:49", "fixed-header"),
        ('{type: http, url: "http://a.b/", headers: {X: "a\\r\\nB: c"}}', "5:52", "bad-header `X`: contains"),
        ("{type: command}", "5:6", "missing-key `type: command` needs `run`"),
        ("{type: command, run: []}", "5:22", "missing-key `type: command` needs `run`"),
        ("{type: command, run: [python3, plugins/no.py]}", "5:37", "missing-file no file 'plugins/no.py'"),
        ("{type: command, run: [cat], url: 'http://a.b/'}", "5:34", "conflict `url` has no effect"),
        ("{type: csv, batch: 5}", "5:18", "conflict `batch` has no effect with `type: csv`"),
        ("{url: 'http://a.b/'}", "5:7", "conflict `url` has no effect with `type: csv`"),
    ],
)  # fmt: skip
def test_a_problem_has_its_place(tmp_path: Path, sender: str, place: str, expected: str) -> None:
    with pytest.raises(DefsError) as caught:
        loaded(tmp_path, sender)
    texts = [f"{p.line}:{p.column}: {p.code} {p.message}" for p in caught.value.problems]
    assert [text for text in texts if text.startswith(f"{place}: {expected}")], texts


def test_no_message_shows_a_secret(tmp_path: Path) -> None:
    for sender in (
        "{type: http, url: 'htp://user:pa55word@a.example/'}",
        "{type: http, url: 'http://a.b/', headers: {Authorization: [pa55word]}}",
        "{type: http, url: {pa55word: 1}}",
    ):
        with pytest.raises(DefsError) as caught:
            loaded(tmp_path, sender)
        assert "pa55word" not in str([p.message for p in caught.value.problems])
