"""What docs/develop/adding.md says of a change is true: each is made in a copy of the tree, and works there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import changes
from tests.process.change import Change, Edit
from tests.process.changes_of_limits import CHANGES_OF_LIMITS
from tests.process.changes_of_pages import CHANGES_OF_PAGES

ROOT = Path(__file__).resolve().parents[2]
ADDING = (ROOT / "docs/develop/adding.md").read_text("utf-8")
COPIED = ("engine", "console", "defs", "docs", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md")
CHANGES = {**changes.CHANGES, **CHANGES_OF_LIMITS, **CHANGES_OF_PAGES}
PLACEHOLDER = r"[\\w-]+"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tree."""
    folder = tmp_path / "tree"
    folder.mkdir()
    ignored = shutil.ignore_patterns("golden", "*.svg")  # compiled modules stay valid
    for name in COPIED:
        source = ROOT / name
        shutil.copytree(source, folder / name, ignore=ignored) if source.is_dir() else shutil.copy(source, folder)
    return folder


def section_of(change: Change) -> tuple[str, str]:
    """The heading and the text of the section about a kind of change."""
    found = [part for part in ADDING.split("\n## ") if part.startswith(f"{change.section}:")]
    assert len(found) == 1, change.section
    heading, _, text = found[0].partition("\n")
    return heading, text


def write(file: Path, edit: Edit) -> None:
    if not edit.old:
        assert not file.exists(), file
        file.write_text(edit.new, "utf-8")
        return
    text = file.read_text("utf-8")
    assert text.count(edit.old) == 1, f"{file.name} has {edit.old!r} {text.count(edit.old)} times"
    file.write_text(text.replace(edit.old, edit.new), "utf-8")


def changed_files(copy: Path) -> set[str]:
    """The files of the program that differ from those of the tree."""
    files = [file for name in ("engine", "console") for file in (copy / name).rglob("*") if file.suffix != ".pyc"]
    return {
        str(file.relative_to(copy))
        for file in files
        if file.is_file()
        and not ((own := ROOT / file.relative_to(copy)).is_file() and own.read_bytes() == file.read_bytes())
    }


@pytest.mark.parametrize("section", CHANGES)
def test_the_page_names_the_files_of_a_change(section: str) -> None:
    change = CHANGES[section]
    heading, text = section_of(change)
    assert sum(map(int, re.findall(r"\b(\d+) files?\b", heading))) == len(change.code), heading
    named = [re.sub("NAME|ROOM", PLACEHOLDER, re.escape(path)) for path in re.findall(r"`([\w./-]+\.py)`", text)]
    for path in change.code:
        assert any(re.fullmatch(pattern, path) for pattern in named), f"{path} is not among {named}"


@pytest.mark.extended
@pytest.mark.timeout(300)
@pytest.mark.parametrize("section", CHANGES)
def test_a_change_needs_these_files_and_works(section: str, copy: Path, tmp_path: Path) -> None:
    change = CHANGES[section]
    for path, edits in {**change.code, **change.beside}.items():
        for edit in edits:
            write(copy / path, edit)
    assert changed_files(copy) == set(change.code)
    paths = os.pathsep.join(str(copy / name) for name in ("engine", "console", ""))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    work = tmp_path / "work"
    work.mkdir()
    commands = (
        ["-m", "ruff", "check", "--no-cache", *(str(copy / path) for path in change.code)],
        ["-m", "ruff", "format", "--no-cache", "--check", *(str(copy / path) for path in change.code)],
        ["-c", change.check],
        ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not sweep", *change.tests],
    )
    for command in commands:
        folder = copy if "pytest" in command or "ruff" in command else work
        ended = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
