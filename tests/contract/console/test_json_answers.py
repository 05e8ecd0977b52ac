"""`--json` of the commands that change a run: one object on one line; and `--base-url` beside `run`."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from crawl_console import client
from crawl_console.cli.main import main
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness, failed
from tests.contract.store.step_reports import publish_steps

DEFS = """\
locatorGroups: {g: {locators: [{url: "/a"}]}}
taskGroups: {g: {list: {dataDef: book}}}
dataDefs: {book: {fields: {title: {selector: h1}}}}
"""


def invoke(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def read_object(text: str) -> Any:
    assert text.count("\n") == 1
    return orjson.loads(text)


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("cancel", {}), ("kill n1", {"node": "n1"}), ("drain n1", {"node": "n1"}), ("restart n1", {"node": "n1"}),
        ("scale 2", {"count": 2}), ("scale 1-4", {"count": 1, "most": 4}), ("pause", {}), ("stop g", {"sequence": "g"}),
        ("resume g", {"sequence": "g"}), ("reload", {}), ("host a --delay 2", {"host": "a", "delay": 2.0}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("done", [True, False])
def test_an_answer_of_the_supervisor(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    arguments: dict[str, Any],
    done: bool,
) -> None:
    sent = []

    def send(_: Path, name: str, given: dict[str, Any]) -> tuple[bool, str]:
        sent.append((name, given))
        return done, "so it is"

    monkeypatch.setattr(client, "send_command", send)
    code, out, error = invoke(capsys, *line.split(), "--json")
    assert (code, read_object(out), error) == (0 if done else 2, {"ok": done, "text": "so it is"}, "")
    assert sent == [(line.split()[0], arguments)]


def test_changes_of_jobs(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> None:
    publish_steps(store)
    store.seed("http://a/1", "http://a/2", "http://a/3")
    store.commit(failed(store.take("http://a/1", free=1)[0]))
    run, data = runs.get(store.db, store.run).id, ("--json", "--data", str(store.folder))
    skip = ("exclude", "--match", "/3", *data)
    assert read_object(invoke(capsys, *skip, "--dry-run")[1]) == {"run": run, "excluded": 1, "dry_run": True}
    assert read_object(invoke(capsys, *skip)[1]) == {"run": run, "excluded": 1, "dry_run": False}
    assert read_object(invoke(capsys, "retry", *data)[1]) == {"run": run, "retried": 1}
    code, out, error = invoke(capsys, "seed", "g", "http://a/9", "http://a/9", "b.example/x", *data)
    assert (code, error) == (1, "`crawl-console run` works them\n")
    assert read_object(out) == {
        "run": run, "group": "g", "created": 1, "known": 1, "unusable": 1,
        "problems": ["argument: no usable URL: b.example/x (http:// missing?)"],
    }  # fmt: skip


def test_the_base_url_of_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "shop.yml").write_text(DEFS)
    assert "warning no-base relative URL '/a'" in invoke(capsys, "check")[2]
    assert invoke(capsys, "check", "--base-url", "http://a/")[2] == ""
    for command in (["check"], ["try", "book", "x.html"], ["plan"]):
        code, out, error = invoke(capsys, *command, "--base-url", "a")
        assert (code, out) == (2, "")
        assert "--base-url: base_url cannot be 'a'" in error
