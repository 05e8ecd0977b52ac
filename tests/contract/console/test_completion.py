"""Completion in a shell: commands, flags and the names of a data dir, in a real bash; it never fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import click
import pytest

from crawl_console.cli.completion import list_names
from crawl_console.cli.main import crawl_console, main
from crawl_engine.store.read.known_names import NameKind
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness

BIN = Path(sys.executable).parent
ASK = """
eval "$(crawl-console completion bash)"
complete -p crawl-console
compopt() { :; }
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [ "${line: -1}" = " " ] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _crawl_console_completion crawl-console
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def filled(store: StoreHarness) -> StoreHarness:
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    store.commit(store.done(job, data=['{"title":"x"}']))
    return store


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_bash_completes(filled: StoreHarness, tmp_path: Path) -> None:
    run = runs.get(filled.db, filled.run).id
    data = f"--data {filled.folder}"
    expected = {
        "crawl-console st": "state status steps stop store",
        "crawl-console --no": "--nodes --no-ui",
        "crawl-console --fresh --prog": "--progress",
        "crawl-console jobs --state f": "failed",
        "crawl-console help que": "query",
        "crawl-console completion z": "zsh",
        "crawl-console config host": "host_clock host_concurrency",
        f"crawl-console export {data} ": "book",
        f"crawl-console export {data} --run ": run,
        f"crawl-console runs {data} show {run[:2]}": run,
        f"crawl-console pause {data} ": "g g@a:80",
        f"crawl-console host {data} ": "a:80",
        f"crawl-console kill {data} ": "n1",
        f"crawl-console seed {data} ": "g",
        f"crawl-console try {data} nope": "",
        f"crawl-console export --data {tmp_path}/nothing ": "",
        "crawl-console nope ": "",
        "crawl-console job 'torn ": "",
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK], input="\n".join(expected) + "\n", text=True, capture_output=True, check=True,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}, cwd=tmp_path,
    )  # fmt: skip
    registered, *answers = done.stdout.splitlines()
    assert registered == "complete -o nosort -F _crawl_console_completion crawl-console"
    assert dict(zip(expected, answers, strict=True)) == expected
    assert done.stderr == ""


def test_every_kind_of_name_is_listed_and_chosen_by_its_start(filled: StoreHarness) -> None:
    for kind in get_args(NameKind):
        names = list_names(kind, filled.folder, "")
        assert names, kind
        assert list_names(kind, filled.folder, names[0]) == [names[0]] or kind == "sequence"
        assert list_names(kind, filled.folder, "%") == []


def test_a_data_dir_that_cannot_be_read_has_no_names(tmp_path: Path) -> None:
    other, damaged, file = tmp_path / "other", tmp_path / "damaged", tmp_path / "file"
    other.mkdir()
    damaged.mkdir()
    (other / "crawl.db").write_bytes(b"SQLite format 3\0" + bytes(4096))
    (damaged / "crawl.db").write_bytes(b"nothing")
    file.touch()
    for folder in (other, damaged, file, tmp_path / "nothing", Path("\udcff"), Path("a\0b")):
        assert list_names("run", folder, "") == []


def test_a_locked_database_is_not_waited_for(filled: StoreHarness) -> None:
    with filled.db.transaction():
        runs.create(filled.db, None, 2.0)
        assert list_names("run", filled.folder, "") == [runs.get(filled.db, filled.run).id]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_another_shell_asks_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    assert f"_CRAWL_CONSOLE_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize("asked", ["", "bash", "bash_source", "nope_complete", "bash_complete"])
def test_a_question_that_is_no_question_prints_nothing(
    asked: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CRAWL_CONSOLE_COMPLETE", asked)
    monkeypatch.setenv("COMP_CWORD", "x")
    with pytest.raises(SystemExit) as ended:
        main(["jobs"])
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", "")


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_every_parameter_for_a_name_completes_it(filled: StoreHarness) -> None:
    names = {"data_def", "run_id", "run_ids", "since", "sequence", "node", "host", "group"}
    context = click.Context(crawl_console)
    for name in crawl_console.list_commands(context):
        command = crawl_console.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            if parameter.name in names:
                inner = click.Context(command)
                inner.params["data"] = filled.folder
                assert parameter.shell_complete(inner, ""), f"{name} {parameter.name}"
