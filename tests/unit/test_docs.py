"""The documentation against the code: examples, keys of the def language, links, tests named as proof."""

import re
from typing import get_args

import pytest

from crawl_engine.defs.language.keys import AXES, SECTIONS
from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.model.field_type import FIELD_TYPES
from crawl_engine.model.link import Method
from crawl_engine.model.variables import DOCUMENT_VARIABLES
from crawl_engine.runtime.extras import has_extra
from tests.process.certificates import Authority

from .doc_pages import (
    DEFS,
    PAGES,
    README,
    ROOT,
    blocks,
    prose,
    quoted,
    section,
    table,
    with_chapters,
)

DEMO = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt . && .venv/bin/crawl-console demo --no-ui"


TESTS = (
    "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e '.[dev]' "
    '&& PATH="$PWD/.venv/bin:$PATH" just'
)


EXTENDING = with_chapters("extending.md")
YAML = [*blocks(README, "yaml"), *blocks(DEFS, "yaml"), *blocks(EXTENDING, "yaml")]
PLUGIN = "\n".join(
    [
        *blocks(EXTENDING, "python"),
        *(f"class {name}:\n    def run(self, rows, context): ..." for name in ("Find", "Check")),
    ]
)


@pytest.mark.parametrize("number", range(len(YAML)))
def test_an_example_is_a_complete_set_of_defs(number, tmp_path):
    if re.search(r"\bbrowser\b", YAML[number]) and not has_extra("browser"):
        pytest.skip("needs playwright")
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "shop.yml").write_text(YAML[number], "utf-8")
    (tmp_path / "defs" / "seeds.txt").write_text("https://shop.example/\n")
    (tmp_path / "defs" / "links.csv").write_text("link\nhttps://shop.example/\n")
    (tmp_path / "defs" / "skus.csv").write_text("sku,shop\n1,a\n")
    if "client.pem" in YAML[number]:
        Authority(tmp_path / "defs").write_client()
    (tmp_path / "defs" / "plugins").mkdir()
    (tmp_path / "defs" / "plugins" / "shop.py").write_text(PLUGIN, "utf-8")
    (tmp_path / "defs" / "plugins" / "score.js").touch()
    loaded = load(tmp_path / "defs")
    assert loaded.warnings == ()
    assert loaded.definitions.locator_groups
    assert loaded.definitions.data_defs


def terms():
    """Every mapping of the language, with its keys as they are written."""
    schema = build_json_schema()
    mappings = {"Definitions": schema, **schema["$defs"]}
    return {name: set(mapping["properties"]) for name, mapping in mappings.items()}


def test_there_is_an_example_of_every_key():
    pages = [(ROOT / name).read_text("utf-8") for name in ("docs/appenders.md", "docs/senders.md", "docs/tables.md")]
    examples = "\n".join([*YAML, *(block for page in pages for block in blocks(page, "yaml"))])
    for name, keys in terms().items():
        missing = {key for key in keys if not re.search(rf"(?<![\w.]){re.escape(key)}:", examples)}
        assert missing <= {"persist", "data"}, name  # Scoopi's key has no effect


def test_every_key_is_explained():
    pages = f"{DEFS}\n{(ROOT / 'docs/tables.md').read_text('utf-8')}"
    words = {word for text in quoted(pages) for word in re.findall(r"\w+", text)}
    for name, keys in terms().items():
        assert keys - words == set(), name
    assert set(SECTIONS) <= words


def test_every_refused_key_is_documented():
    tables = (ROOT / "docs/tables.md").read_text("utf-8")
    assert all(f"`{key}`" in tables for key in AXES)


def test_every_type_and_method_is_documented():
    types = {row[0].strip("`") for row in table(DEFS) if row[0].strip("`") in FIELD_TYPES}
    assert types == set(FIELD_TYPES)
    assert {f"`{method}`" for method in get_args(Method)} <= set(re.findall(r"`[A-Z]+`", DEFS))


def test_every_variable_is_documented_and_no_other():
    documented = set(re.findall(r"%\{([\w.]+)\}", section(DEFS, "Variables")))
    assert documented == {
        *DOCUMENT_VARIABLES,
        "document.header.NAME",
        "arg.NAME",
        "seed.NAME",
        "sitemap.NAME",
        "env.NAME",
        "file.PATH",
        "carried.NAME",
        "field.NAME",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    text = prose(page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target}"
        assert file.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", prose(page.read_text("utf-8")), re.MULTILINE)
    return {slug(title) for title in titles}


def slug(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", ["settings.md", "commands/run.md"])
def test_a_link_of_a_setting_or_flag_leads_to_a_section_about_it(page):
    file = ROOT / "docs" / page
    for row in table(file.read_text("utf-8")):
        names = {name.strip("-").replace("-", "_") for name in re.findall(r"`([\w-]+)", row[0])}
        for name, anchor in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", " ".join(row)):
            text = section_at((file.parent / name).resolve() if name else file, anchor)
            assert any(name in text for name in names), f"{page}: {row[0]} leads to #{anchor}"


def section_at(page, anchor):
    """The section that a link leads to, with underscores for dashes."""
    text = re.sub(r"^# ", "", page.read_text("utf-8"), flags=re.MULTILINE)  # titles, and comments of code
    title = next(title for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE) if slug(title) == anchor)
    return section(text, title).replace("-", "_")


def test_the_index_links_every_page_of_the_docs():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"({page.name})" in index or page.name == "README.md"
    assert "(docs/README.md)" in README


def test_the_two_commands_of_the_readme_are_unchanged():
    commands = [line for block in blocks(README, "sh") for line in block.splitlines()]
    assert DEMO in commands
    assert TESTS in commands
    assert (ROOT / "constraints.txt").is_file()


def test_nothing_is_installed_by_a_name_that_no_registry_has():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.yml")]:
        text = page.read_text("utf-8")
        assert not re.search(r"^ *(RUN )?pip install\b.*[ ']crawl-console", text, re.MULTILINE), page


def test_the_constraints_name_versions_and_no_address():
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+(\s*;.*)?|#.*|", line), line


def test_every_test_named_as_proof_exists():
    guarantees = (ROOT / "docs/guarantees.md").read_text("utf-8")
    named = [name for name in quoted(guarantees) if "test_" in name]
    files = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    for name in named:
        file, _, function = name.rpartition("::") if "::" in name else (name, "", "")
        if not file.endswith(".py"):
            file, function = "", name
        matching = [text for path, text in files.items() if not file or path.endswith(f"/{file}")]
        assert matching, name
        assert not function or any(f"def {function}(" in text for text in matching), name


def test_just_runs_a_test_of_each_promise():
    """A quick process test; or a test of another tier, which all run, where the process tests are sweeps alone."""
    promises = (ROOT / "docs/guarantees.md").read_text("utf-8").partition("## Not promised")[0]
    promises = promises.replace(section(promises, "Browsers"), "")  # they need Chromium: `just all` runs them
    above = ""
    for promise, *_, named in table(promises):
        above = f"{above}, {named}" if "the same" in named else named
        marks = [mark for name in quoted(above) for mark in process_tests(*name.split("::"))]
        other_tiers = re.search(r"`\w+/test_\w+\.py", above)
        assert "quick" in marks or (other_tiers and set(marks) <= {"sweep"}), promise


def test_just_all_runs_a_test_of_each_promise_of_browsers():
    promises = section((ROOT / "docs/guarantees.md").read_text("utf-8"), "Browsers")
    for promise, *_, named in table(promises):
        marks = [mark for name in quoted(named) for mark in process_tests(*name.split("::"))]
        assert {"quick", "extended"} & set(marks) or re.search(r"`\w+/\w+/test_\w+\.py", named), promise


def process_tests(file, name=""):
    """The mark of each process test in a file, or of one of them: quick, sweep or none."""
    path = ROOT / "tests/process" / file
    text = path.read_text("utf-8") if file.endswith(".py") and path.is_file() else ""
    tests = re.findall(r"^((?:@.*\n(?:[ )\]].*\n)*)*)def (test_\w+)", text, re.MULTILINE)
    return [
        next((mark for mark in ("quick", "sweep") if f"pytest.mark.{mark}" in above), "extended")
        for above, test in tests
        if name in ("", test)
    ]


def test_every_file_named_for_contributors_exists():
    text = "".join((ROOT / name).read_text("utf-8") for name in ("CONTRIBUTING.md", "docs/develop/adding.md"))
    paths = [name for name in quoted(text) if re.fullmatch(r"(engine|console|tests|docs)/[\w./-]+", name)]
    assert len(paths) > 20
    missing = [path for path in paths if "NAME" not in path and not (ROOT / path).exists()]
    assert missing == []
