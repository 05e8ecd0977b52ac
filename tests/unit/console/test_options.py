"""The options of commands: wrong values, and a detached supervisor whose command line holds no password."""

from pathlib import Path

import click
import pytest

from console.cli.main import main
from console.cli.options import FilePath, Number, hide_base_url, without_option
from engine.errors import UsageError
from engine.store.db import data_dir

SECRET = "http://us:canary@h/"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--base-url", SECRET, "--set", "nodes=1"],
        ["run", f"--base-url={SECRET}", "--set=nodes=1"],
        ["run", "--set", f"base_url={SECRET}", "--set", "nodes=1"],
        ["run", f"--set= base-url={SECRET}", "--set", "nodes=1"],
    ],
)
def test_a_base_url_with_a_password_moves_to_the_environment(arguments: list[str]) -> None:
    assert hide_base_url(arguments, SECRET) == (["run", "--set", "nodes=1"], {"CRAWL_BASE_URL": SECRET})


@pytest.mark.parametrize("base_url", [None, "http://h/a@b"])
def test_other_arguments_stay(base_url: str | None) -> None:
    arguments = ["run", "--base-url", str(base_url)]
    assert hide_base_url(arguments, base_url) == (arguments, {})


def test_an_option_of_the_console_alone_is_not_passed_on() -> None:
    words = ["run", "--refresh", "0.5", "--nodes", "2", "--refresh=3", "--defs", "x"]
    assert without_option(words, "--refresh") == ["run", "--nodes", "2", "--defs", "x"]


@pytest.mark.parametrize("url", ["postgresql://us:canary@h/db", "s3://bucket/x.csv", "file:///x.csv"])
def test_a_url_is_not_a_local_path_and_its_password_is_not_shown(url: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a local path; the defs name such a target") as refused:
        FilePath().convert(url, None, None)
    assert "canary" not in str(refused.value)


def test_a_number_with_a_unit_is_not_an_integer() -> None:
    with pytest.raises(click.BadParameter, match=r"'5GB' is not a valid integer\."):
        Number().convert("5GB", None, None)


@pytest.mark.parametrize(
    ("words", "toml", "claimed"),
    [
        (["--store", "postgresql:///a", "--project", "shop"], "", ("postgresql:///a", "shop")),
        (
            ["--set", "store=postgresql:///a"],
            'store = "postgresql:///b"\nproject = "toml"',
            ("postgresql:///a", "toml"),
        ),
        ([], 'delay = "x"\nproject = "toml"', (None, "toml")),
        ([], 'user_agent = "a store"', (None, None)),
        ([], "", None),
    ],
)
def test_a_run_claims_the_store_of_its_settings(
    words: list[str], toml: str, claimed: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def claim(folder: Path, url: str | None, project: str | None, *, draws: bool) -> None:
        seen.append((url, project))
        assert (folder, draws) == (Path("data"), True)
        raise UsageError("enough")

    monkeypatch.setattr(data_dir, "claim_store", claim)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "defs").mkdir()
    (tmp_path / "crawl.toml").write_text(toml)
    with pytest.raises(SystemExit):
        main(["run", "--no-ui", *words])
    assert seen == ([] if claimed is None else [claimed])
    with pytest.raises(SystemExit):
        main(["run", "--no-ui", "--defs", "missing", *words])
    assert len(seen) == len([claimed] if claimed else []), "without defs nothing is claimed"
