"""Seeds of CSV files: each line fills URLs, headers and bodies, and its page carries its values."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, UsageError
from crawl_engine.model.locator import Locator, LocatorGroup, SeedColumns
from crawl_engine.store.tables.run import runs

from .seeding_harness import SeedingHarness, fix_batch_size

COMMAS = SeedColumns()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SeedingHarness]:
    harness = SeedingHarness(tmp_path)
    yield harness
    harness.db.close()


def table(harness: SeedingHarness, content: str | bytes, columns: SeedColumns = COMMAS, **more: object) -> LocatorGroup:
    """A group whose locator reads this CSV file."""
    file = harness.folder / "seeds.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    locator = Locator(name="l", from_file=str(file), seed_columns=columns, **more)  # type: ignore[arg-type]
    return LocatorGroup(name="g", locators=(locator,))


def carried(harness: SeedingHarness) -> list[dict[str, str]]:
    return [orjson.loads(text)[0] for (text,) in harness.db.all("SELECT carried FROM jobs ORDER BY id")]


def told(harness: SeedingHarness) -> list[str]:
    texts = [text for (text,) in harness.db.all("SELECT text FROM events WHERE kind = 'seed' ORDER BY id")]
    return [text.removeprefix(f"{harness.folder}/") for text in texts]


def test_the_column_url_is_the_url_and_all_columns_are_carried(harness: SeedingHarness) -> None:
    harness.seed(
        table(harness, '\ufeffsku, url ,,note\r\n7,http://a/7,x,"two\nlines, and ""quotes"""\r\n\r\n8,http://a/8,,\r\n')
    )
    assert harness.urls() == ["http://a/7", "http://a/8"]
    assert carried(harness) == [
        {"seed.sku": "7", "seed.url": "http://a/7", "seed.note": 'two\nlines, and "quotes"'},
        {"seed.sku": "8", "seed.url": "http://a/8", "seed.note": ""},
    ]
    assert told(harness) == []


def test_values_fill_urls_headers_and_bodies_and_are_encoded_there(harness: SeedingHarness) -> None:
    group = table(
        harness, "host;sku;city\nb.example:81;a/b &c;%{env.HOME} é\n", SeedColumns(delimiter=";", columns=("sku",)),
        urls=("http://%{seed.host}/{1,2}/%{seed.sku}",), method="POST", headers={"X": "%{seed.city} %{env.K}"},
        body="q=%{seed.sku}&c=%{seed.city}", content_type="application/x-www-form-urlencoded",
    )  # fmt: skip
    harness.seed(group)
    assert harness.urls() == [f"http://b.example:81/{number}/a%2Fb%20%26c" for number in (1, 2)]
    assert carried(harness) == [{"seed.sku": "a/b &c"}] * 2
    [(text,)] = harness.db.all("SELECT request FROM locators")
    request = orjson.loads(text)
    assert request["headers"] == [["X", "%%{env.HOME} é %{env.K}"]], "a value is not searched for variables"
    assert request["body"] == "q=a%2Fb+%26c&c=%25%7Benv.HOME%7D+%C3%A9"


def test_an_interrupted_file_is_read_on_and_a_url_keeps_the_values_of_its_first_line(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 2)
    lines = [f'"{number}\n",http://a/{number}\n' for number in range(7)]
    group = table(harness, "sku,url\n" + "".join(lines) + "late,http://a/0\n")
    made = harness.seeding(group)
    for _ in range(3):
        made.step()
    assert len(harness.urls()) == 4
    harness.seed(group)
    assert harness.urls() == [f"http://a/{number}" for number in range(7)]
    assert [values["seed.sku"] for values in carried(harness)] == [f"{number}\n" for number in range(7)]


def test_pages_do_not_know_the_password_of_their_url(harness: SeedingHarness) -> None:
    harness.seed(table(harness, "sku,url,note\n1,http://u:canary@a/,x:y@z\n"))
    assert harness.urls() == ["http://a/"]
    assert carried(harness) == [{"seed.sku": "1", "seed.url": "http://a/", "seed.note": "x:y@z"}]
    [(request,)] = harness.db.all("SELECT request FROM locators")
    assert orjson.loads(request)["userinfo"] == "u:canary"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1", "1 column, and the header has 2"),
        ("1,http://a/x,3", "3 columns, and the header has 2"),
        ('1,"http://a/x', "a quote is not closed"),
        ('1,"http://a/"x', "the line is torn: ',' expected after '\"'"),
        ("1,http://a/x\r2,http://a/y", "a carriage return stands outside quotes; end lines with a line feed"),
        ("1,", "the column 'url' is empty"),
        ("1,nothing", "no usable URL: nothing (a relative URL, and no base is set)"),
        (b"1,http://a/\xe9", "the line is not UTF-8"),
        (f"{'x' * 5000},http://a/", "its values take more than 4,096 bytes; choose some with `columns`"),
    ],
)
def test_a_line_that_cannot_be_used_is_told_with_its_place(
    harness: SeedingHarness, line: str | bytes, problem: str
) -> None:
    torn = line if isinstance(line, bytes) else line.encode()
    harness.seed(table(harness, b"sku,url\n0,http://a/0\n" + torn + b"\n2,http://a/2\n"))
    assert told(harness) == [f"seeds.csv:3: {problem}"]
    assert harness.urls() == ["http://a/0", "http://a/2"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "seeds.csv:1: the file is empty"),
        ("sku,url,sku\n", "seeds.csv:1: two columns have the name 'sku'"),
        (",\n", "seeds.csv:1: no column has a name"),
        ("sku,url\n".encode("utf-16"), "seeds.csv:1: the file is in UTF-16"),
        (b"s\xe9,url\n", "seeds.csv:1: the line is not UTF-8"),
        ('"sku,url\n', "seeds.csv:1: a quote is not closed"),
    ],
)
def test_a_header_that_cannot_be_used_is_named(harness: SeedingHarness, content: str | bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        harness.seed(table(harness, content))


def test_a_hundred_columns_of_bad_lines_are_counted(harness: SeedingHarness) -> None:
    header = ",".join(f"c{number}" for number in range(99)) + ",url\n"
    harness.seed(table(harness, header + "x\n" * 30_000 + "," * 99 + "http://a/\n"))
    assert harness.urls() == ["http://a/"]
    assert len(told(harness)) == 11
    assert told(harness)[-1] == "seeds.csv: 30,000 seeds give no job; events tell the first 10"


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("part", ["cookies", "headers"])
def test_a_line_that_asks_for_a_url_in_another_way_has_a_warning_and_changes_no_job(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch, part: str, size: int
) -> None:
    fix_batch_size(monkeypatch, size)
    lines = "store,url\nnorth,http://a/list\nnorth,http://a/other\nsouth,http://a/list\nsouth,http://a/list\n"
    harness.seed(table(harness, lines, **{part: {"store": "%{seed.store}"}}))
    assert harness.urls() == ["http://a/list", "http://a/other"]
    sent = harness.db.column("SELECT l.request FROM jobs j JOIN locators l ON l.id = j.locator ORDER BY j.id")
    assert [orjson.loads(text)[part] for text in sent] == [[["store", "north"]]] * 2
    assert [values["seed.store"] for values in carried(harness)] == ["north", "north"], "as it is asked for"
    [(code, text, subject)] = runs.list_found(harness.db, harness.run)["seeds of l"]
    assert (code, subject) == ("shared-url", "http://a/list")
    assert text.startswith(f"seeds of the locator l ask for http://a/list with other {part}, but it was asked for once")
    assert text.endswith("`cookieScope: group` keeps them apart") is (part == "cookies")


def test_lines_with_the_same_request_have_no_warning(harness: SeedingHarness) -> None:
    lines = "store,sku,url\nnorth,1,http://a/list\nnorth,2,http://a/list\n"
    harness.seed(table(harness, lines, cookies={"store": "%{seed.store}"}))
    harness.seed(table(harness, lines, cookies={"store": "%{seed.store}", "new": "1"}))
    assert runs.list_found(harness.db, harness.run) == {}
    scoped = table(harness, lines.replace("north,2", "south,2"), cookies={"s": "%{seed.store}"}, cookie_scope="group")
    harness.seed(scoped)
    assert runs.list_found(harness.db, harness.run) == {}


DEFS = """
locatorGroups: {{g: {{locators: [{locator}]}}}}
taskGroups: {{g: {{t: {{dataDef: d}}}}}}
dataDefs: {{d: {{fields: {{title: {{selector: h1}}, sku: {{value: "{value}"}}}}}}}}
"""


@pytest.mark.parametrize(
    ("locator", "value", "problem"),
    [
        (
            "{from: {file: s.csv, url: link}}",
            "%{seed.skuu}",
            "no CSV file of seeds has the column 'skuu' (did you mean 'sku'?)",
        ),
        ("{from: {file: s.csv, url: lnk}}", "x", "s.csv has no column 'lnk' (did you mean 'link'?); name it with"),
        (
            "{from: {file: s.csv}}",
            "x",
            "s.csv has no column 'url' (choose from link, sku); name it with `url:` in `from`",
        ),
        ("{from: {file: s.csv, url: link, columns: [shop]}}", "x", "s.csv has no column 'shop'"),
        ('{from: {file: s.csv}, url: "http://a/%{seed.x}"}', "x", "s.csv has no column 'x'"),
        ('{url: "http://a/%{seed.sku}"}', "x", "`%{seed.sku}` needs a CSV file of seeds: write `from: {file: seeds"),
        ("{url: http://a/}", "%{seed.sku}", "`%{seed.sku}` needs a CSV file of seeds"),
        ("{from: {file: s.csv, delimiter: ab, url: link}}", "x", "`delimiter` must be one character"),
        ("{from: {file: '-', url: link}}", "x", "a CSV file of seeds cannot be stdin"),
        ("{from: {file: s.csv, url: link}, sitemap: http://a/s}", "x", "cannot stand beside `sitemap`"),
        ("{from: {file: bad.csv}}", "x", "bad.csv:1: two columns have the name 'a'"),
    ],
)
def test_defs_that_name_no_column_are_a_problem(tmp_path: Path, locator: str, value: str, problem: str) -> None:
    (tmp_path / "s.csv").write_text("sku,link\n1,http://a/1\n")
    (tmp_path / "bad.csv").write_text("a,a\n")
    (tmp_path / "a.yml").write_text(DEFS.format(locator=locator, value=value))
    with pytest.raises(DefsError) as caught:
        load(tmp_path)
    assert problem in caught.value.problems[0].message
    assert caught.value.problems[0].line > 1


def test_a_file_that_comes_later_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(DEFS.format(locator="{from: {file: later.csv}}", value="%{seed.sku}"))
    loaded = load(tmp_path)
    assert [problem.code for problem in loaded.warnings] == ["missing-file"]
    assert loaded.definitions.locator_groups[0].locators[0].seed_columns == SeedColumns()
