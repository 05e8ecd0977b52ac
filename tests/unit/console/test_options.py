"""The options of commands: wrong values, and a detached supervisor whose command line holds no password."""

from pathlib import Path

import click
import pytest

from crawl_console.cli.main import main
from crawl_console.cli.options import FilePath, Number, hide_passwords, without_option
from crawl_engine.errors import UsageError
from crawl_engine.store.db import data_dir

SECRET = "http://us:canary@h/"


@pytest.mark.parametrize(
    ("flag", "setting", "url"),
    [
        ("base-url", "base_url", SECRET),
        ("store", "store", "postgresql://us:canary@h/db"),
        ("store", "store", "postgresql://h/db?%70assword=canary"),
        ("notify", "notify", '["json://h/canary"]'),
    ],
)
@pytest.mark.parametrize(
    "form", [["--{flag}", "{url}"], ["--{flag}={url}"], ["--set", "{setting}={url}"], ["--set= {flag}={url}"]]
)
def test_a_url_with_a_password_moves_to_the_environment(form: list[str], flag: str, setting: str, url: str) -> None:
    words = [word.format(flag=flag, setting=setting, url=url) for word in form]
    kept = ["--project", "shop", "--set", "nodes=1"]
    hidden = hide_passwords(["run", *words, *kept], {"base_url": None, "store": None, setting: url})
    assert hidden == (["run", *kept], {f"CRAWL_{setting.upper()}": url})


@pytest.mark.parametrize("url", [None, "http://h/a@b", "postgresql://h/db?sslmode=require"])
def test_other_arguments_stay(url: str | None) -> None:
    arguments = ["run", "--base-url", str(url), "--store", str(url)]
    assert hide_passwords(arguments, {"base_url": url, "store": url}) == (arguments, {})


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
