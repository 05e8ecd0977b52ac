"""The key for shared cookies: random, readable by its user alone, one for all programs that start at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.runtime.jar_key import key_path, read_or_create_key


def test_the_key_is_created_once_and_is_private(tmp_path: Path) -> None:
    path = key_path({"XDG_STATE_HOME": str(tmp_path / "state")})
    key = read_or_create_key(path)
    assert len(bytes.fromhex(key)) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert read_or_create_key(path) == key
    assert [file.name for file in path.parent.iterdir()] == ["cookies.key"]
    assert read_or_create_key(tmp_path / "other" / "cookies.key") != key


def test_programs_that_start_at_once_get_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("os.getpid", threading.get_ident)  # each thread stands for a process
    path = tmp_path / "state" / "cookies.key"
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(read_or_create_key, [path] * 16))
    assert len(keys) == 1


@pytest.mark.parametrize("content", ["", "short", "g" * 64])
def test_a_file_without_a_key_is_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cookies.key"
    path.write_text(content)
    assert len(read_or_create_key(path)) == 64
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("0" * 64)
    (tmp_path / "cookies.key").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        read_or_create_key(tmp_path / "cookies.key")
