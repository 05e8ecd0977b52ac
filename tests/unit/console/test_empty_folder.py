"""Commands in a folder where nothing was crawled: they say so, answer nothing, and leave nothing."""

from pathlib import Path

import pytest

from crawl_console.cli.main import main


def invoke(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["jobs", "events", "logs"])
def test_reading_answers_nothing(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(command) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "start" in captured.err
    assert "crawl-console run" in captured.err


def test_a_run_without_defs_names_init_and_demo_and_leaves_the_folder_empty(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke("run", "--no-ui") == 2
    error = capsys.readouterr().err
    assert "'defs' does not exist" in error
    assert "crawl-console init" in error
    assert "crawl-console demo" in error
    assert list(empty_folder.iterdir()) == []
    assert invoke("init", ".") == 0


@pytest.mark.parametrize("option", ["--data", "--defs", "-o"])
def test_an_empty_path_is_not_the_current_folder(
    option: str, empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke("run", "--no-ui", option, "") == 2
    assert "the path is empty" in capsys.readouterr().err
    assert list(empty_folder.iterdir()) == []


def test_version_and_help_have_their_usual_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("-V") == 0
    version = capsys.readouterr().out
    assert invoke("--version") == 0
    assert capsys.readouterr().out == version
    assert invoke("help") == 0
    assert "Usage: crawl-console [OPTIONS] COMMAND" in capsys.readouterr().out
    assert invoke("help", "jobs") == 0
    assert "Usage: crawl-console jobs" in capsys.readouterr().out
