"""Valid defs as `Definitions`, and the problems of files the loader cannot use."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, Problem
from crawl_engine.model.definition import Definitions, definition_hash
from crawl_engine.model.host import DelayRange
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.model.stored_form import SourcePosition

SHOP = Path(__file__).resolve().parents[2] / "data" / "shop"


def write_defs(folder: Path, **files: str) -> Path:
    defs = folder / "defs"
    for name, text in files.items():
        path = defs / f"{name.replace('__', '/')}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return defs


def test_golden_tests_are_no_defs(tmp_path: Path) -> None:
    """Only the folder `tests` of the defs directory itself is left out."""
    defs = write_defs(tmp_path, shop=small(), deeper__tests__hosts="hosts: {a.example: {delay: 1}}")
    files = load(defs).definitions.files
    (defs / "tests" / "tea").mkdir(parents=True)
    (defs / "tests" / "tea" / "meta.yml").write_text("url: http://a.example/\n")
    (defs / "tests" / "note.yml").write_text("[")
    assert load(defs).definitions.files == files
    assert len(files) == 2


def problems(path: Path) -> list[Problem]:
    with pytest.raises(DefsError) as caught:
        load(path)
    return caught.value.problems


def small(extra: str = "", locator: str = "url: /a", field: str = "selector: a") -> str:
    return (
        f"locatorGroups: {{g: {{locators: [{{{locator}}}]}}}}\n"
        "taskGroups: {g: {t: {dataDef: d}}}\n"
        f"dataDefs: {{d: {{fields: {{f: {{{field}}}}}}}}}\n{extra}"
    )


def test_the_sample_project() -> None:
    defs = load(SHOP).definitions
    assert defs.files == ("shop/shop.yml",)
    books = defs.task_group("books")
    assert books is not None
    assert (books.live, books.max_depth, books.max_pages, books.priority) == (86_400, 5, None, 0)
    assert [(t.name, t.data_def, t.steps) for t in books.tasks] == [("list", "book", None)]
    book = defs.data_def("book")
    assert book is not None
    assert book.block == "article.product_pod"
    assert book.columns == ("title", "price", "stock", "tags", "url", "page")
    title, price, stock, tags, url, page = book.fields
    assert (title.attribute, title.required, title.type) == ("title", True, "str")
    assert title.place == SourcePosition("shop/shop.yml", 17, 7)
    assert (price.attribute, price.match, price.type) == ("text", "[0-9.]+", "decimal")
    assert (stock.type, stock.has_default, stock.default) == ("bool", True, False)
    assert (tags.all, tags.join, tags.has_default) == (True, "|", False)
    assert (url.attribute, url.type) == ("href", "url")
    assert (page.value, page.selector) == ("%{document.url}", None)
    assert [(f.field, f.pattern) for f in book.filters] == [("price", r"0\.00")]
    pagination, detail = book.links
    assert (pagination.group, pagination.attribute, pagination.same_host) == ("books", "href", True)
    assert (detail.allow, detail.deny, detail.priority) == (("/catalogue/",), ("/login",), None)
    reviews = defs.data_defs[1].fields[1]
    assert [f.name for f in reviews.fields] == ["by", "stars"]
    rule = defs.host_rule("shop.example:8080")
    assert rule is not None
    assert (rule.delay, rule.concurrency, dict(rule.headers), rule.nofollow) == (
        DelayRange(min=0.5),
        4,
        {"Accept-Language": "en"},
        True,
    )
    assert [(a.name, a.type, a.delimiter) for a in defs.appenders] == [("rows", "csv", ",")]


def test_definitions_round_trip_through_json(tmp_path: Path) -> None:
    rich = small(
        "hosts: {a.example: {cookies: {a: b}, robots: false}}\n",
        locator="urls: [/a, '/{1..3}'], json: {a: [1, 0.5, null, {b: true}]}, headers: {X: 1.50}",
        field="selector: a, all: true, default: [1, 2.5, x]",
    )
    for path in (SHOP, write_defs(tmp_path, rich=rich)):
        defs = load(path).definitions
        assert Definitions.from_json(defs.to_json()) == defs


def test_formatting_comments_and_files_do_not_change_the_hash(tmp_path: Path) -> None:
    first = write_defs(
        tmp_path / "1",
        a="locatorGroups: {g: {locators: [{name: g, url: /a}]}, h: {locators: [{url: /b}]}}\n",
        b="taskGroups:\n  g: {t: {dataDef: d}}\n  h: {t: {dataDef: e}}\n",
        c="dataDefs:\n  d: {fields: {a: {selector: x}, b: {}}}\n  e: {fields: {a: {}}}\nbaseUrl: http://a.example/\n",
    )
    second = write_defs(
        tmp_path / "2",
        a="# e\ndataDefs:\n\n  'e':\n    fields:\n      a: {}\ntaskGroups: {h: {t: {dataDef: \"e\"}}}\n",
        sub__b="baseUrl: 'http://a.example/'\ndataDefs:\n  d:\n    fields:\n"
        "      a:\n        selector: x # here\n      b: {}\n",
        z="taskGroups: {g: {t: {dataDef: d}}}\n"
        "locatorGroups: {h: {locators: [{url: /b}]}, g: {locators: [{url: /a, name: g}]}}\n",
    )
    one, two = load(first).definitions, load(second).definitions
    assert one != two
    assert definition_hash(one) == definition_hash(two)
    assert definition_hash(one.data_def("d")) == definition_hash(two.data_def("d"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"h3 a", attribute: title', '"h3 a", attribute: href'),
        ("required: true", "required: false"),
        ("default: false", "default: true"),
        ("linkGroup: detail", "linkGroup: books"),
        ("      tags:", "      labels:"),
        ('deny: ["/login"]', 'deny: ["/logout"]'),
    ],
)
def test_each_change_of_meaning_changes_the_hash(tmp_path: Path, old: str, new: str) -> None:
    text = (SHOP / "shop.yml").read_text("utf-8")
    before = load(write_defs(tmp_path, shop=text)).definitions
    if new.startswith("linkGroup"):
        text = text.replace("locatorGroups:\n", "locatorGroups:\n  detail: {locators: [{url: /d}]}\n")
    after = load(write_defs(tmp_path, shop=text.replace(old, new))).definitions
    assert definition_hash(before.data_def("book")) != definition_hash(after.data_def("book"))
    assert definition_hash(before.data_def("bookDetail")) == definition_hash(after.data_def("bookDetail"))


def test_fields_keep_their_written_order(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a=small().replace("{f: {selector: a}}", "{z: {}, a: {}, m: {}}"))
    assert load(defs).definitions.data_defs[0].columns == ("z", "a", "m")


def test_a_repeated_name_replaces_with_a_warning(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a=small(), b="dataDefs: {d: {fields: {g: {}}}}\n")
    loaded = load(defs)
    assert loaded.definitions.data_defs[0].columns == ("g",)
    (problem,) = loaded.warnings
    assert (problem.file, problem.line, problem.column, problem.code, problem.warning) == (
        "defs/b.yml",
        1,
        12,
        "replaced",
        True,
    )
    assert "defs/a.yml:3:12" in problem.message


def test_an_unused_data_def_and_no_start_are_warnings(tmp_path: Path) -> None:
    loaded = load(write_defs(tmp_path, a="dataDefs: {d: {fields: {g: {}}}}\n"))
    assert [(w.code, w.line) for w in loaded.warnings] == [("no-start", 1), ("unused", 1)]


def test_texts_are_kept_as_written(tmp_path: Path) -> None:
    for text in ("010", "NO", "on", "12:30", "1.50", "2024-01-02", "0x1F", "1_000", "true"):
        defs = write_defs(tmp_path, a=small(field=f"value: {text}"))
        assert load(defs).definitions.data_defs[0].fields[0].value == text, text


@pytest.mark.parametrize(
    ("kind", "written", "default"),
    [
        ("decimal", "0.10", "0.10"),
        ("str", "007", "007"),
        ("str", "1.50", "1.50"),
        ("int", "7", 7),
        ("float", "1.50", 1.5),
        ("bool", "true", True),
        ("json", "{a: [1]}", {"a": [1]}),
        ("str", "~", None),
    ],
)
def test_defaults(tmp_path: Path, kind: str, written: str, default: object) -> None:
    field = (
        load(write_defs(tmp_path, a=small(field=f"type: {kind}, default: {written}")))
        .definitions.data_defs[0]
        .fields[0]
    )
    assert field.has_default
    assert (field.default, type(field.default)) == (default, type(default))


def test_bodies_become_text_with_a_content_type(tmp_path: Path) -> None:
    def locator(text: str) -> tuple[str, str | None, str | None]:
        one = load(write_defs(tmp_path, a=small(locator=f"url: /a, {text}"))).definitions.locator_groups[0].locators[0]
        return one.method, one.body, one.content_type

    form = "application/x-www-form-urlencoded"
    assert locator("body: 'a b'") == ("POST", "a b", None)
    assert locator("form: {q: 'a b&c', n: [1, 2.50]}") == ("POST", "q=a+b%26c&n=1&n=2.50", form)
    assert locator("form: {p: 'x %{env.PASS}%%{y}'}") == ("POST", "p=x+%{env.PASS}%25%7By%7D", form)
    assert locator("json: {q: [1, 0.5, é]}, method: PUT") == ("PUT", '{"q":[1,0.5,"é"]}', "application/json")
    assert locator("json: null") == ("POST", "null", "application/json")
    assert locator("headers: {}") == ("GET", None, None)


def test_a_locator_defaults_to_its_groups_name_and_keeps_braces(tmp_path: Path) -> None:
    locator = "url: 'https://%{env.HOST}/{1..3}', urls: [/b], sitemap: /map.xml"
    one = load(write_defs(tmp_path, a=small(locator=locator))).definitions.locator_groups[0].locators[0]
    assert (one.name, one.sitemap) == ("g", "/map.xml")
    assert one.urls == ("https://%{env.HOST}/{1..3}", "/b")


def test_seed_files_are_relative_to_their_def_file(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, sub__a=small(locator="from: seeds.txt"))
    loaded = load(defs)
    assert loaded.definitions.locator_groups[0].locators[0].from_file == str(defs / "sub" / "seeds.txt")
    assert [(w.code, w.file) for w in loaded.warnings] == [("missing-file", "defs/sub/a.yml")]
    (defs / "sub" / "seeds.txt").write_text("http://a.example/\n")
    assert load(defs).warnings == ()
    stdin = load(write_defs(tmp_path / "2", a=small(locator="from: '-'")))
    assert stdin.definitions.locator_groups[0].locators[0].from_file == "-"


def test_host_names_are_normalized_as_in_urls(tmp_path: Path) -> None:
    names = {
        "Shop.Example": "shop.example",
        "bücher.example:8080": "xn--bcher-kva.example:8080",
        "[::1]:80": "[::1]:80",
    }
    text = "hosts:\n" + "".join(f"  '{name}': {{delay: 1}}\n" for name in names)
    defs = load(write_defs(tmp_path, a=small(text))).definitions
    assert sorted(rule.name for rule in defs.hosts) == sorted(names.values())


def test_live_and_priority(tmp_path: Path) -> None:
    text = small().replace("{t: {dataDef: d}}", "{live: PT1H30M, priority: -5, t: {dataDef: d}}")
    (group,) = load(write_defs(tmp_path, a=text)).definitions.task_groups
    assert (group.live, group.priority) == (5_400, -5)


def test_without_appenders_there_is_one_csv(tmp_path: Path) -> None:
    for extra in ("", "appenders:\n", "appenders: {}\n"):
        assert load(write_defs(tmp_path, a=small(extra))).definitions.appenders == (AppenderDef(name="rows"),)


def test_one_sqlite_file_holds_many_data_defs(tmp_path: Path) -> None:
    text = small("appenders: {all: {type: sqlite, path: all.db}}\n").replace(
        "dataDefs: {", "dataDefs: {e: {fields: {x: {}}}, "
    )
    assert load(write_defs(tmp_path, a=text)).definitions.appenders[0].path == "all.db"


def test_def_files_are_found_recursively_and_editor_files_are_skipped(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, b=small(), a__x="dataDefs: {}\n", a__y="# nothing\n")
    (defs / "z.yaml").write_text("")
    (defs / "notes.txt").write_text("[")
    (defs / ".#b.yml").symlink_to("nobody@nowhere")
    (defs / ".git").mkdir()
    (defs / ".git" / "x.yml").write_text("[")
    assert load(defs).definitions.files == ("defs/a/x.yml", "defs/a/y.yml", "defs/b.yml", "defs/z.yaml")


def test_a_single_file_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defs = write_defs(tmp_path / "project", a=small())
    assert load(defs / "a.yml").definitions.files == ("a.yml",)
    monkeypatch.chdir(tmp_path)
    assert load(Path("project/defs")).definitions.files == ("project/defs/a.yml",)
    monkeypatch.chdir(defs)
    assert load(Path()).definitions.files == ("a.yml",)


def test_a_missing_or_empty_directory(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path / "nowhere")
    assert (problem.code, problem.file, problem.line, problem.column) == ("no-defs", "nowhere", 1, 1)
    assert "one such file" in problem.message
    (tmp_path / "empty").mkdir()
    (problem,) = problems(tmp_path / "empty")
    assert (problem.code, problem.file) == ("no-defs", "empty")
    (problem,) = problems(write_defs(tmp_path, a="# only a comment\n"))
    assert problem.code == "no-defs"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a=small())
    (defs / "dir.yml").mkdir()
    (defs / "broken.yml").symlink_to("nowhere.yml")
    os.mkfifo(defs / "pipe.yml")
    (defs / "latin.yml").write_bytes(b"# a\nbaseUrl: h\xe9\n")
    with (defs / "large.yml").open("wb") as file:
        file.truncate(5_000_000)
    reported = {p.file: (p.code, p.line, p.column) for p in problems(defs)}
    assert reported == {
        "defs/broken.yml": ("unreadable", 1, 1),
        "defs/dir.yml": ("unreadable", 1, 1),
        "defs/large.yml": ("unreadable", 1, 1),
        "defs/latin.yml": ("not-utf8", 2, 11),
        "defs/pipe.yml": ("unreadable", 1, 1),
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a=small())
    (defs / "a.yml").chmod(0)
    assert [p.code for p in problems(defs)] == ["unreadable"]


def test_a_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a="")
    (defs / "a.yml").write_bytes(b"\xef\xbb\xbf" + small().replace("\n", "\r\n").encode())
    assert load(defs).definitions.data_defs[0].place == SourcePosition("defs/a.yml", 3, 12)


def test_messages_and_file_names_are_printable(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a=small().replace("{f: {", '{"\\e]52;x\\u202e": {'))
    os.rename(defs / "a.yml", os.fsencode(defs) + b"/\x1b[2J\xff.yml")
    reported = problems(defs)
    assert [p.code for p in reported] == ["bad-name"]
    assert all(str(p).isprintable() for p in reported)
    assert reported[0].file == r"defs/\u001b[2J\udcff.yml"


def test_places_count_characters(tmp_path: Path) -> None:
    (problem,) = problems(write_defs(tmp_path, a=small().replace("selector: a", "match: 'é日本', selector: '['")))
    assert (problem.line, problem.column) == (3, 53)


def test_the_schema_contains_the_implemented_keys_only() -> None:
    text = str(build_json_schema())
    for key in ("linkGroup", "maxPages", "sameHost", "baseUrl", "from", "json", "delimiter"):
        assert f"'{key}'" in text
    assert "'default': None" not in text


def test_loading_is_fast_and_imports_only_what_it_needs(tmp_path: Path) -> None:
    defs = write_defs(tmp_path, a=small(field="value: x"))
    code = (
        "import sys; from pathlib import Path; from crawl_engine.defs.loader import load; "
        f"load(Path({str(defs)!r})); "
        "print([m for m in ('lxml', 'jmespath', 'selectolax', 'isoduration', 'sqlite3') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    load(SHOP)
    assert min(load_seconds() for _ in range(5)) < 0.06


def load_seconds() -> float:
    """CPU seconds of one load: other processes of the machine do not count."""
    start = time.process_time()
    load(SHOP)
    return time.process_time() - start
