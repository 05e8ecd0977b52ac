"""The structure of the code: no import circles, small files, SQL in one place, unique class names.

The import contracts in pyproject.toml say which package may import which; these tests check what contracts cannot say.
"""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from crawl_console.cli.commands import COMMANDS, EXAMPLES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("engine", "console")
"""Each has the package `crawl_FOLDER`."""
MAX_LINES, MIN_LINES, MAX_MODULES, MAX_FIRST_LINE = 500, 60, 20, 100

SHARED_CLASS_NAMES: dict[str, str] = {}
"""Class names that may occur more than once in the product, each with the reason."""


@cache
def sources() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of the product by its dotted name; a package has the name of its folder."""
    modules = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            modules[name] = path, ast.parse(path.read_text("utf-8"))
    return modules


@cache
def imports_of(name: str) -> set[str]:
    """Modules of the product that a module imports anywhere: at the top, in functions, under TYPE_CHECKING."""
    path, tree = sources()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:  # `from package import module` imports the module, not the package's namespace
                child = f"{base}.{alias.name}"
                imported.add(child if child in sources() else base)
    return (imported & set(sources())) - {name}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of two or more modules (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                components.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return components


def test_circles_are_detected():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"d"}}
    assert circles(graph) == [["a", "b", "c"]]
    assert circles({**graph, "c": {"d"}}) == []


def test_imports_in_functions_and_for_types_are_counted():
    assert "crawl_engine.store.db.connector" in imports_of("crawl_engine.store.db.schema")
    every = {name for module in sources() for name in imports_of(module)}
    assert {"crawl_console.tui.app", "crawl_engine.model.job"} <= every


def test_no_import_circle():
    assert circles({name: imports_of(name) for name in sources()}) == []


@pytest.mark.parametrize("folder", ["engine", "console", "tests"])
def test_no_module_is_longer_than_500_lines(folder):
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def modules_of_product() -> dict[str, Path]:
    """Modules by dotted name, without the files of packages and entry points."""
    return {name: path for name, (path, _) in sources().items() if path.name not in ("__init__.py", "__main__.py")}


def test_no_folder_has_more_than_20_modules():
    """`cli/commands`, a module for each noun, may become longer."""
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in modules_of_product().values())
    assert {folder: count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_no_module_is_a_crumb():
    """A short module that only one module of its folder imports is a part of that one."""
    importers = defaultdict(set)
    for name in sources():
        for imported in imports_of(name):
            importers[imported].add(name)
    crumbs = {
        name: importers[name]
        for name, path in modules_of_product().items()
        if len(path.read_text("utf-8").splitlines()) < MIN_LINES
        and len(importers[name]) == 1
        and {other.rpartition(".")[0] for other in importers[name]} == {name.rpartition(".")[0]}
    }
    assert crumbs == {}


def test_no_three_modules_share_a_name():
    """Commands apart: their modules have the names that users type."""
    names = Counter(path.name for name, path in modules_of_product().items() if ".cli.commands." not in name)
    assert {name for name, count in names.items() if count > 2} == set()


def test_the_first_line_of_a_module_says_what_it_does_in_100_characters():
    long = {}
    for name, (path, tree) in sources().items():
        first = (ast.get_docstring(tree) or "").partition("\n")[0]
        if len(first) > MAX_FIRST_LINE or (not first and path.name != "__init__.py"):
            long[name] = first
    assert long == {}


@pytest.mark.parametrize(("folder", "most"), [("console/crawl_console", 8), ("engine/crawl_engine/store", 4)])
def test_few_modules_lie_directly_in_a_package(folder, most):
    modules = sorted(path.name for path in (ROOT / folder).glob("*.py"))
    assert len(modules) <= most, modules


SQL = re.compile(
    r"^\s*(SELECT\s+\S.*\sFROM\s|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|REPLACE\s+INTO\s"
    r"|CREATE\s+(TEMP\s+)?(TABLE|INDEX|TRIGGER|VIEW)\s|DROP\s+(TABLE|INDEX)\s|PRAGMA\s+\w|BEGIN\s+IMMEDIATE|WITH\s+\w+\s+AS\s)",
    re.DOTALL,
)
SQL_OWNERS = (
    "crawl_engine.store.",
    "crawl_engine.append.formats.sqlite",
    "crawl_engine.append.formats.duckdb",
    "crawl_engine.append.formats.typed_table",
    "crawl_engine.append.send.postgres",
    "crawl_engine.queue",
)
"""The store; outputs that are databases; `queue.db`, which is Huey's own file."""


def texts(tree: ast.Module) -> list[str]:
    """String literals of a module, without docstrings; an f-string is joined from its constant parts."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.append(node.value)
    return found


def test_sql_is_recognized():
    assert all(
        map(SQL.match, ["SELECT a FROM b", "\n  UPDATE runs SET x = 1", "PRAGMA user_version", "DELETE FROM jobs"])
    )
    assert not any(map(SQL.match, ["Select a page", "UPDATE", "from here", "Delete from the list"]))


def test_sql_is_only_in_the_store_and_in_outputs_that_are_databases():
    elsewhere = {
        name: [text for text in texts(tree) if SQL.match(text)]
        for name, (_, tree) in sources().items()
        if not name.startswith(SQL_OWNERS)
    }
    assert {name: sql for name, sql in elsewhere.items() if sql} == {}


def test_no_query_is_compiled_again_for_its_limit():
    plain = re.compile(r"LIMIT [?:]")
    compiled = {name: [text for text in texts(tree) if plain.search(text)] for name, (_, tree) in sources().items()}
    assert {name: sql for name, sql in compiled.items() if sql} == {}


def test_class_names_are_unique():
    modules = defaultdict(list)
    for name, (_, tree) in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(name)
    doubled = {name: places for name, places in modules.items() if len(places) > 1}
    assert {name: places for name, places in doubled.items() if name not in SHARED_CLASS_NAMES} == {}
    assert set(SHARED_CLASS_NAMES) <= set(doubled), "remove names that are unique again"


def test_every_command_has_examples():
    assert list(EXAMPLES) == list(COMMANDS)
