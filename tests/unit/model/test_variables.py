"""Secrets that variables name."""

import os
from pathlib import Path

import pytest

from crawl_engine.model.variables import UnusableVariable, read_secret


@pytest.mark.timeout(10)
def test_only_a_regular_file_is_read_since_another_may_never_end(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("abc\n")
    assert read_secret(f"file.{file}", {}) == "abc"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnusableVariable, match="not a regular file"):
        read_secret(f"file.{tmp_path / 'pipe'}", {})
    with pytest.raises(UnusableVariable, match="cannot be read"):
        read_secret(f"file.{tmp_path}", {})
    with pytest.raises(UnusableVariable, match="cannot be read"):
        read_secret(f"file.{tmp_path / 'missing'}", {})
