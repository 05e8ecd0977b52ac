"""Plugin classes that cannot be imported are problems, at the line that failed."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load_to_run
from crawl_engine.errors import DefsError, Problem
from crawl_engine.plugins import import_check

DEFS = """
locatorGroups: {g: {locators: [{name: a, url: "http://h/"}]}}
taskGroups:
  g:
    t:
      dataDef: d
      steps: {jsoupDefault: {tidy: {class: shop.Tidy, previous: filter, next: appender}}}
dataDefs: {d: {fields: {n: {selector: h1, convert: prices.Price}}}}
hosts: {h: {middleware: sign.Sign}}
"""
CLASSES = {
    "shop": "class Tidy:\n    def run(self, rows, context):\n        return rows\n",
    "prices": "class Price:\n    def convert(self, value, context):\n        return value\n",
    "sign": "class Sign:\n    async def handle(self, request, send):\n        return await send(request)\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plugins = tmp_path / "defs" / "plugins"
    plugins.mkdir(parents=True)
    (tmp_path / "defs" / "crawl.yml").write_text(DEFS)
    for name, text in CLASSES.items():
        (plugins / f"{name}.py").write_text(text)
    return tmp_path / "defs"


def load_problems(folder: Path) -> list[Problem]:
    with pytest.raises(DefsError) as caught:
        load_to_run(folder)
    return caught.value.problems


def edit(folder: Path, module: str, text: str) -> None:
    (folder / "plugins" / f"{module}.py").write_text(text)


def test_classes_that_can_be_imported_are_no_problem(folder: Path) -> None:
    edit(folder, "shop", "print('noise')\n" + CLASSES["shop"])
    assert load_to_run(folder).warnings == ()


@pytest.mark.parametrize("module", list(CLASSES))
def test_the_line_that_fails_is_named(folder: Path, module: str) -> None:
    edit(folder, module, "import os\nimport nothing_of_that_name\n" + CLASSES[module])
    [problem] = load_problems(folder)
    assert (Path(problem.file).name, problem.line, problem.code) == (f"{module}.py", 2, "bad-import")
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in problem.message


def test_the_line_may_be_in_another_file(folder: Path) -> None:
    edit(folder, "words", "\n\nraise KeyError('TOKEN')\n")
    edit(folder, "shop", "from plugins import words\n" + CLASSES["shop"])
    [problem] = load_problems(folder)
    assert (Path(problem.file).name, problem.line) == ("words.py", 3)


def test_files_that_no_def_names_are_not_imported(folder: Path) -> None:
    edit(folder, "tool", "raise SystemExit('a program')\n")
    load_to_run(folder)


def test_an_import_that_ends_its_process_is_told_where_the_defs_name_it(folder: Path) -> None:
    edit(folder, "prices", "import os\nos._exit(7)\n" + CLASSES["prices"])
    [problem] = load_problems(folder)
    assert (Path(problem.file).name, problem.line) == ("crawl.yml", 8)
    assert "its import ends its process (exit 7)" in problem.message


def test_an_import_that_takes_too_long_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_check, "_LIMIT_SECONDS", 1.0)
    edit(folder, "sign", "import time\ntime.sleep(60)\n" + CLASSES["sign"])
    [warning] = load_to_run(folder).warnings
    assert (warning.code, "takes longer than 1 s" in warning.message) == ("bad-import", True)


def test_nothing_is_imported_in_this_process(folder: Path) -> None:
    edit(folder, "shop", "import os, sys\nassert 'pytest' not in sys.modules\nos.environ['X'] = ''\n" + CLASSES["shop"])
    load_to_run(folder)
    edit(folder, "shop", "class Tidy:\n    pass\n")
    with pytest.raises(DefsError):
        load_to_run(folder)
