"""Files that are made in a data dir: none is written through a link that somebody planted."""

import os
import re
from pathlib import Path

import pytest

from crawl_console.crawl.servers import ServerRow, list_servers, write_server
from crawl_engine.errors import StorageError
from crawl_engine.runtime.private_file import create_draft, create_missing, open_private
from crawl_engine.supervise.lock import Lock, check_private
from tests.unit.doc_pages import ROOT


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


@pytest.fixture
def link(tmp_path: Path, victim: Path) -> Path:
    (tmp_path / "data").mkdir(mode=0o700)
    path = tmp_path / "data/name"
    path.symlink_to(victim)
    return path


def test_a_draft_takes_the_place_of_a_link(link: Path, victim: Path) -> None:
    with os.fdopen(create_draft(link), "wb") as file:
        file.write(b"ours")
    assert (link.read_text(), link.is_symlink(), victim.read_text()) == ("ours", False, "precious")
    assert link.stat().st_mode & 0o777 == 0o600


def test_a_draft_takes_the_place_of_one_that_was_left(tmp_path: Path) -> None:
    (tmp_path / "draft").write_text("left by a killed process")
    os.close(create_draft(tmp_path / "draft"))
    assert (tmp_path / "draft").read_text() == ""


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY | os.O_APPEND])
def test_a_lock_or_log_behind_a_link_is_refused(link: Path, victim: Path, flags: int) -> None:
    with pytest.raises(OSError, match="name is a link: remove it"):
        open_private(link, flags)
    assert victim.read_text() == "precious"


def test_the_lock_of_a_data_dir_says_so(link: Path, victim: Path) -> None:
    link.rename(link.with_name("supervisor.lock"))
    with pytest.raises(StorageError, match=r"supervisor\.lock is a link"):
        Lock.acquire(link.parent)
    assert victim.read_text() == "precious"


def test_a_database_may_be_behind_a_link_of_our_own(link: Path, victim: Path) -> None:
    create_missing(link)
    victim.unlink()
    create_missing(link)
    assert victim.read_bytes() == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of others")
@pytest.mark.parametrize("exists", [True, False])
def test_a_database_behind_a_link_of_another_user_is_refused(link: Path, victim: Path, exists: bool) -> None:
    os.lchown(link, 65534, 65534)
    if not exists:
        victim.unlink()
    with pytest.raises(OSError, match="name is a link: remove it"):
        create_missing(link)
    assert victim.exists() == exists


def test_the_file_of_a_web_server_is_written_beside_planted_links(link: Path, victim: Path) -> None:
    link.rename(link.with_name(f"serve-{os.getpid()}.new"))
    row = ServerRow(os.getpid(), "http://127.0.0.1:1", None, False, [])
    write_server(link.parent, row)
    assert (list_servers(link.parent), victim.read_text()) == ([row], "precious")


def test_a_folder_that_all_users_share_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(StorageError, match="that all users share"):
        check_private(tmp_path)


def test_no_file_is_cut_at_its_opening_through_a_link() -> None:
    """`O_TRUNC` alone follows links; `open_private` does not, and `create_draft` makes a new file."""
    found = [
        str(path.relative_to(ROOT))
        for package in ("engine", "console")
        for path in sorted((ROOT / package).rglob("*.py"))
        if any(re.search("O_TRUNC", line) and not re.search("O_NOFOLLOW|open_private", line) for line in path.open())
    ]
    assert found == []
