"""The file with the token of `serve`."""

import os

import pytest

pytest.importorskip("prometheus_client", reason="the extra serve is missing")

from crawl_console.web.token_file import load_token
from crawl_engine.errors import StorageError, UsageError


def loaded(folders):
    file = load_token(None, folders)
    return file.current(), file.path


def test_no_folder_is_made_for_a_token_which_comes_once_a_run_has_made_it(tmp_path):
    said = []
    data = tmp_path / "data"
    file = load_token(None, [data], said.append)
    assert (file.current(), data.exists()) == ("", False)
    assert said == [f"{data}: no such data directory; nobody gets in until a crawl makes it"]
    data.mkdir()
    token = file.current()
    assert (len(token) >= 32, token) == (True, (data / "serve.token").read_text().strip())
    assert (file.current(), said[1:]) == (token, [f"token: {data / 'serve.token'}"])
    (data / "serve.token").unlink()
    assert file.current() == "", "one that was taken away is not made again"


def test_no_token_is_made_in_a_folder_that_all_users_share(tmp_path):
    said = []
    data = tmp_path / "data"
    file = load_token(None, [data], said.append)
    data.mkdir()
    data.chmod(0o1777)
    assert (file.current(), list(data.iterdir())) == ("", [])
    assert "a folder that all users share" in said[-1]


def test_a_token_is_made_once_for_its_owner_alone(tmp_path):
    (tmp_path / "data").mkdir()
    token, path = loaded([tmp_path / "data"])
    assert path == tmp_path / "data/serve.token"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 32
    assert loaded([tmp_path / "data"]) == (token, path)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["serve.token"]


def test_of_several_data_dirs_the_one_that_has_a_token_counts(tmp_path):
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
    token, _ = loaded([tmp_path / "south"])
    assert loaded([tmp_path / "north", tmp_path / "south"]) == (token, tmp_path / "south/serve.token")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path, mode):
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(mode)
    with pytest.raises(UsageError, match="others may read or change it"):
        load_token(path, [])


@pytest.mark.parametrize("content", ["", "short", "two words are no token at all", "0123456789abcdef\0"])
def test_what_is_no_token_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="no token"):
        load_token(path, [])


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        load_token(tmp_path / "missing", [])


def test_a_link_in_the_place_of_its_draft_leads_nowhere(tmp_path):
    victim, data = tmp_path / "victim", tmp_path / "data"
    victim.write_text("precious")
    data.mkdir()
    (data / f".serve.token-{os.getpid()}").symlink_to(victim)
    token, path = loaded([data])
    assert (victim.read_text(), path.read_text()) == ("precious", f"{token}\n")
    assert [entry.name for entry in data.iterdir()] == ["serve.token"]


def test_the_file_is_read_again_when_it_changes(tmp_path):
    said = []
    path = tmp_path / "token"
    write(path, "0123456789abcdef")
    file = load_token(path, [], said.append)
    assert (file.current(), said) == ("0123456789abcdef", [])
    write(path, "another-token-of-16")
    assert file.current() == "another-token-of-16"
    assert "all logins end" in said[-1]
    for spoil, reason in [
        (lambda: write(path, ""), "no token"), (lambda: write(path, "short"), "no token"),
        (path.unlink, "No such file"), (lambda: write(path, "fedcba9876543210", 0o644), "others may read"),
        (lambda: (path.unlink(), path.mkdir()), "Is a directory"),
    ]:  # fmt: skip
        spoil()
        assert file.current() == ""
        assert said[-1].startswith("nobody gets in: ")
        assert reason in said[-1]
    path.rmdir()
    write(path, "fedcba9876543210")
    assert file.current() == "fedcba9876543210"
    count = len(said)
    assert (file.current(), len(said)) == ("fedcba9876543210", count), "it is told once"


def test_a_folder_that_is_away_takes_no_token_with_it(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "token", "0123456789abcdef")
    file = load_token(folder / "token", [])
    folder.rename(tmp_path / "moved")
    assert file.current() == "0123456789abcdef"
    folder.mkdir()
    assert file.current() == ""
    folder.rmdir()
    (tmp_path / "moved").rename(folder)
    assert file.current() == "0123456789abcdef"


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
