"""The files that `init` writes, and the folders it refuses."""

import re
import tomllib
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from msgspec.structs import fields

from crawl_console.cli.commands.defs.init import create_project
from crawl_console.cli.main import crawl_console, main
from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.errors import UsageError
from crawl_engine.settings import Settings
from crawl_engine.settings import load_settings as load_settings


def test_a_new_project_can_be_used_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "shop"
    assert create_project(folder) == 0
    loaded = load(folder / "defs")
    assert loaded.warnings == ()
    assert [d.name for d in loaded.definitions.data_defs] == ["book", "bookDetail"]
    assert load_settings({}, environment={}, folder=folder) == load_settings({}, environment={}, folder=tmp_path)
    first = (folder / "defs" / "books.yml").read_text("utf-8").splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(.+)", first)
    assert match
    assert orjson.loads((folder / "defs" / match.group(1)).read_bytes()) == build_json_schema()
    assert (folder / ".gitignore").read_text() == "/data/\n"


def test_the_files_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path / "shop"), "--json"])
    answer = orjson.loads(capsys.readouterr().out)
    assert (ended.value.code, answer["folder"]) == (0, str(tmp_path / "shop"))
    assert all((tmp_path / "shop" / name).is_file() for name in answer["files"])


def test_the_commented_settings_exist_and_are_the_defaults(tmp_path: Path) -> None:
    create_project(tmp_path)
    lines = (tmp_path / "crawl.toml").read_text("utf-8").splitlines()
    settings = tomllib.loads("\n".join(line[2:] for line in lines if re.match(r"# ([a-z_]+ = |\[)", line)))
    defaults = {field.name: field.default for field in fields(Settings)}
    assert set(settings) <= set(defaults)
    for name in set(settings) - {"nodes", "user_agent", "on_start", "on_end", "on_alarm", "notify", "helpers"}:
        assert settings[name] == defaults[name], name
    load_settings(settings, environment={}, folder=tmp_path / "none")


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"not empty, it holds mine\.txt"):
        create_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(UsageError):
        create_project(tmp_path / "mine.txt")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    assert create_project(tmp_path / "repo") == 0


def test_the_commands_print_the_next_step_and_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = CliRunner().invoke(crawl_console, ["init", str(tmp_path / "new")])
    assert done.exit_code == 0
    assert "crawl-console check" in done.output
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path / "new")])
    assert ended.value.code == 2
    assert "nothing was changed" in capsys.readouterr().err
    done = CliRunner().invoke(crawl_console, ["schema"])
    assert orjson.loads(done.output) == build_json_schema()
