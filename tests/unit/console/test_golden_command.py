"""The command `test`: golden rows of saved pages, their differences, and tests that cannot be read."""

import json
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawl_console.cli.commands.work.demo import demo_defs
from crawl_console.cli.main import main

Output = Callable[..., tuple[int, str, str]]

DEFS = """\
locatorGroups:
  list: {locators: [{name: first, url: "http://shop.example/"}]}
  notes: {locators: [{url: "http://shop.example/notes"}]}
taskGroups:
  list: {page: {dataDef: item}}
  notes: {page: {dataDef: note, steps: {jsoupDefault: {m: {class: mark.Mark, previous: filter, next: appender}}}},
          links: {dataDef: pages}}
dataDefs:
  item:
    query: {block: .item}
    key: [sku]
    fields:
      sku: {attribute: id}
      price: {selector: i, type: decimal}
      specs: {selector: u, attribute: data-specs, type: json}
      seen: {selector: s, type: date, format: any, locale: en}
      from: {value: "%{run.id} %{run.time} %{document.fetchedAt} %{locator.name} %{depth}"}
  note: {query: {block: p}, fields: {text: {}}}
  pages: {links: [{selector: a.next}, {selector: a.item, linkGroup: list}, {selector: form, form: {}}]}
"""
PLUGIN = """\
from crawl_console import StepError

class Mark:
    def run(self, rows, context):
        if rows[0]["text"] == "bad":
            raise StepError("a bad note", "bad")
        return [{"text": row["text"] + "!"} for row in rows]
"""
ITEM = '<p class=item id=s{n}><i>{n}.50</i><u data-specs=\'{{"w": 1.10, "h": [1, 2]}}\'></u><s>2 hours ago</s></p>'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Output:
    """Run the command in a folder with these defs and a page; it may not connect. Returns exit code, stdout, stderr."""

    def refuse(*_: object) -> None:
        raise AssertionError("`test` connects to a host")

    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "shop.yml").write_text(DEFS)
    (tmp_path / "defs" / "plugins").mkdir()
    (tmp_path / "defs" / "plugins" / "mark.py").write_text(PLUGIN)
    save(tmp_path / "page.html", 1, 2, 3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket.socket, "connect", refuse)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["test", *arguments])
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def save(path: Path, *numbers: int) -> None:
    path.write_text("<body>" + "".join(ITEM.format(n=n) for n in numbers))


def record(run: Output, *arguments: str) -> None:
    code, _, err = run("--record", "page.html", "--url", "http://shop.example/1", "--data-def", "item", *arguments)
    assert code == 0, err


def change_defs(old: str, new: str) -> None:
    text = Path("defs/shop.yml").read_text()
    assert old in text
    Path("defs/shop.yml").write_text(text.replace(old, new))


def differences(run: Output) -> list[tuple[int, str | None, Any, Any]]:
    code, out, err = run("--json")
    assert (code, out.count("\n"), err) == (1, 1, "")
    (test,) = json.loads(out)["tests"]
    return [(each["row"], each["field"], each["expected"], each["got"]) for each in test["differences"]]


def test_a_recorded_page_is_equal_until_the_defs_change(run: Output) -> None:
    record(run)
    assert run() == (0, "1 passed\n", "")
    first = json.loads(Path("defs/tests/item/rows.jsonl").read_text().splitlines()[0])
    assert (first["sku"], first["price"]) == ("s1", 1.5)
    assert re.fullmatch(r"try \S+Z \S+Z first 0", first["from"])

    change_defs("selector: i, type", "selector: u, type")
    code, out, _ = run()
    assert code == 1
    assert out == (
        "item (item): failed\n"
        "  row 1, price: expected 1.50, got null\n"
        "  row 2, price: expected 2.50, got null\n"
        "  row 3, price: expected 3.50, got null\n"
        "0 passed, 1 failed\n"
    )
    assert run("--update")[:2] == (
        0,
        out.replace("failed\n  row 1", "updated\n  row 1").replace("1 failed", "1 updated"),
    )
    assert run() == (0, "1 passed\n", "")


def test_rows_are_paired_by_their_key_and_the_clock_is_that_of_the_page(run: Output) -> None:
    record(run)
    page, meta = Path("defs/tests/item/page.html"), Path("defs/tests/item/meta.yml")
    text = re.sub("(?<=fetchedAt: ').*(?=')", "2020-01-01T12:00:00Z", meta.read_text())
    meta.write_text(re.sub("runTime: .*", "depth: 3\nrun: fixed", text).replace("run: try\n", ""))
    assert run("--update")[0] == 0
    rows = [json.loads(line) for line in Path("defs/tests/item/rows.jsonl").read_text().splitlines()]
    assert rows[0]["seen"] == "2020-01-01T10:00:00"
    assert rows[0]["from"] == "fixed 2020-01-01T12:00:00Z 2020-01-01T12:00:00Z first 3"

    save(page, 2, 3, 4)
    assert differences(run) == [(1, None, rows[0], None), (3, None, None, {**rows[0], "sku": "s4", "price": 4.5})]
    save(page, 1, 3, 2)
    assert [(row, field) for row, field, *_ in differences(run)] == [(2, None), (3, None)], "the order counts"
    change_defs("    key: [sku]\n", "")
    save(page, 2, 3)
    assert differences(run) == [(1, None, rows[0], None)]
    save(page, 1, 3)
    assert differences(run) == [(2, None, rows[1], None)]


def test_golden_rows_may_be_written_by_hand(run: Output) -> None:
    record(run)
    golden = Path("defs/tests/item/rows.jsonl")
    spaced = "\n\n".join(json.dumps(json.loads(line), indent=None, separators=(" , ", " : ")) for line in golden.open())
    golden.write_text(
        spaced.replace("1.1", "1.10").replace("1.5 ", "1.50 ").replace("2.5 ", "2.50 ").replace("3.5 ", "3.50 ")
    )
    assert run() == (0, "1 passed\n", "")
    golden.write_text(golden.read_text().replace("1.10", "1.1", 1))
    assert differences(run) == [(1, "specs", {"w": 1.1, "h": [1, 2]}, {"w": 1.1, "h": [1, 2]})], "digits count"


def test_reasons_stand_beside_the_differences(run: Output) -> None:
    record(run)
    change_defs("selector: i, type: decimal", "selector: s, type: decimal")
    code, out, _ = run()
    assert code == 1
    assert "defs/shop.yml:14:7: rejected item.price: '2 hours ago' is not a number (3 records)" in out
    change_defs("block: .item", "block: .itm")
    assert "warning: item: block `.itm` matches nothing on this page" in run()[1]


def test_a_page_that_a_crawl_would_fail_is_a_failed_test(run: Output) -> None:
    record(run)
    record(run, "--name", "other")
    Path("defs/tests/item/page.html").write_bytes(b"\x89PNG\r\n")
    meta = Path("defs/tests/item/meta.yml")
    meta.write_text(meta.read_text().replace("text/html", "image/png"))
    code, out, _ = run("--update")
    assert code == 1
    assert "item (item): failed\n  http://shop.example/1: not a page: image/png" in out
    assert out.endswith("1 passed, 1 failed\n")


def test_steps_of_the_group_run_and_may_fail_the_page(run: Output) -> None:
    note = ("--url", "http://shop.example/notes", "--data-def", "note")
    Path("page.html").write_text("<p>good")
    assert run("--record", "page.html", *note)[0] == 0
    assert Path("defs/tests/note/rows.jsonl").read_text() == '{"text":"good!"}\n'
    assert run() == (0, "1 passed\n", "")
    Path("defs/tests/note/page.html").write_text("<p>bad")
    code, out, _ = run("--update")
    assert code == 1
    assert out.startswith("note (note): failed\n  page/m: a bad note\n")
    Path("page.html").write_text("<p>bad")
    code, _, err = run("--record", "page.html", *note, "--name", "new")
    assert code == 1
    assert "http://shop.example/notes: page/m: a bad note\n  A crawl would fail this page." in err
    Path("page.html").write_text("")
    assert (
        "warning: item: block `.item` matches nothing on this page"
        in run("--record", "page.html", "--data-def", "item")[2]
    )


PAGES = """<a class=next href=/notes?p=2>2</a><a class=item href=/i/2>b</a><a class=item href=/i/1>a</a>
<form method=post action=/find><input name=q value=tea></form>"""


def test_links_are_recorded_and_compared(run: Output) -> None:
    Path("page.html").write_text(PAGES)
    source = ("--record", "page.html", "--url", "http://shop.example/notes", "--data-def", "pages")
    assert run(*source)[1] == "defs/tests/pages: 4 links of pages\n"
    golden = Path("defs/tests/pages/links.jsonl")
    assert [json.loads(line) for line in golden.open()] == [
        {"url": "http://shop.example/notes?p=2", "group": "notes"},
        {"url": "http://shop.example/i/2", "group": "list"},
        {"url": "http://shop.example/i/1", "group": "list"},
        {"url": "http://shop.example/find", "group": "notes", "method": "POST", "body": "q=tea"},
    ]
    golden.write_text("\n".join(reversed(golden.read_text().replace(",", " , ").splitlines())))
    assert run() == (0, "1 passed\n", ""), "order and spaces mean nothing"

    change_defs("a.next", "a.nxt")
    change_defs("linkGroup: list", "linkGroup: notes")
    code, out, _ = run()
    assert code == 1
    assert [line.strip() for line in out.splitlines()] == [
        "pages (pages): failed",
        'link: missing {"group":"list","url":"http://shop.example/i/1"}',
        'link: missing {"group":"list","url":"http://shop.example/i/2"}',
        'link: missing {"group":"notes","url":"http://shop.example/notes?p=2"}',
        'link: extra {"group":"notes","url":"http://shop.example/i/2"}',
        'link: extra {"group":"notes","url":"http://shop.example/i/1"}',
        "no link: `a.nxt` matches no element (defs/shop.yml:19:19)",
        "0 passed, 1 failed",
    ]
    missing = {"group": "notes", "url": "http://shop.example/notes?p=2"}
    assert (None, None, missing, None) in differences(run)
    assert run("--update")[1].endswith("0 passed, 1 updated\n")
    assert run() == (0, "1 passed\n", "")


def test_links_may_be_left_out(run: Output) -> None:
    change_defs("    key: [sku]\n", "    key: [sku]\n    links: [{selector: a}]\n")
    Path("page.html").write_text(ITEM.format(n=1) + "<a href=/1>x</a>")
    record(run)
    record(run, "--name", "rows", "--no-links")
    assert Path("defs/tests/item/links.jsonl").read_text() == '{"url":"http://shop.example/1","group":"list"}\n'
    assert not Path("defs/tests/rows/links.jsonl").exists()
    change_defs("{selector: a}", "{selector: b}")
    assert run()[1].endswith("1 passed, 1 failed\n")
    Path("defs/tests/item/links.jsonl").unlink()
    assert run() == (0, "2 passed\n", "")
    assert run("--update") == (0, "2 passed\n", "")
    assert not Path("defs/tests/item/links.jsonl").exists()


def test_a_test_that_compares_nothing_is_a_mistake(run: Output) -> None:
    source = ("--record", "page.html", "--url", "http://shop.example/notes", "--data-def", "pages")
    code, _, err = run(*source, "--no-links")
    assert (code, err.splitlines()[0]) == (2, "error: pages gives links alone, and none would be compared")
    assert run(*source)[0] == 0
    assert Path("defs/tests/pages/links.jsonl").read_text() == ""
    assert run() == (0, "1 passed\n", "")
    Path("defs/tests/pages/links.jsonl").unlink()
    code, _, err = run()
    assert code == 2
    assert "defs/tests/pages/meta.yml:3:10: missing-file 'pages' has no fields, so that a test without" in err


def test_files_that_cannot_be_read_are_named_with_their_places_all_at_once(run: Output) -> None:
    for name in ("gone", "key", "page", "rows", "time", "yaml"):
        record(run, "--name", name)
    tests = Path("defs/tests")
    meta = (tests / "gone" / "meta.yml").read_text()
    (tests / "gone" / "meta.yml").write_text(meta.replace("item", "itm"))
    (tests / "key" / "meta.yml").write_text(meta + "stauts: 200\n")
    (tests / "page" / "page.json").write_text("{}")
    (tests / "rows" / "rows.jsonl").write_text('{"sku": "s1"}\n{"sku": \n[]\n')
    (tests / "time" / "meta.yml").write_text(
        re.sub("fetchedAt: .*", "fetchedAt: yesterday", meta).replace("list", "notes")
    )
    (tests / "yaml" / "meta.yml").write_text("url: [\n")
    code, out, err = run()
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert [line.partition(" ")[0] for line in lines[:-1]] == [
        "defs/tests/gone/meta.yml:3:10:", "defs/tests/key/meta.yml:10:1:", "defs/tests/page:1:1:",
        "defs/tests/rows/rows.jsonl:2:9:", "defs/tests/rows/rows.jsonl:3:1:", "defs/tests/time/meta.yml:4:12:",
        "defs/tests/yaml/meta.yml:2:1:",
    ]  # fmt: skip
    assert "the defs have no dataDef 'itm' (did you mean 'item'?); write its new name, or delete this test" in err
    assert "unknown key 'stauts' (did you mean 'status'?)" in err
    assert "more than one `page.*`" in err
    assert "`fetchedAt` must be a time in UTC such as 2026-01-31T09:05:00Z, not 'yesterday'" in err
    assert lines[-1].endswith("run `crawl-console test` again.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "defs/tests: no golden tests\n  Record one: `crawl-console test --record URL"),
        (("--record",), "which page?"),
        (("--record", "page.html", "--job", "1"), "which page?"),
        (("--record", "page.html"), "which dataDef?\n  Give --data-def: item, note."),
        (("--no-links",), "go with --record"),
        (("--record", "page.html", "--data-def", "itm"), "did you mean 'item'?"),
        (("--record", "page.html", "--data-def", "item", "--name", "../x"), "cannot name a folder"),
        (("--record", "page.html", "--update"), "--record makes one test"),
        (("--record", "none.html", "--data-def", "item"), "none.html: no such file"),
        (("--record", "--job", "1", "--url", "http://a/"), "--url is the address of a FILE"),
        (("--job", "1", "--update"), "--record makes one test"),
        (("--update", "--watch"), "exclude each other"),
        (("--name", "x"), "go with --record"),
        (("--defs", "nowhere"), "'nowhere' does not exist"),
        (("--defs", "nowhere", "--watch"), "'nowhere' does not exist"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_error(run: Output, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not Path("defs/tests").exists()


def test_a_test_is_neither_replaced_nor_unknown(run: Output) -> None:
    record(run)
    code, _, err = run("--record", "page.html", "--data-def", "item")
    assert (code, err.splitlines()[0]) == (2, "error: defs/tests/item exists")
    code, _, err = run("itm")
    assert (code, err.splitlines()[0]) == (2, "error: defs/tests: no test 'itm' (did you mean 'item'?)")
    change_defs("page: {dataDef: item}", "page: {dataDef: note}")
    assert "defs/tests/item/meta.yml:6:8: unknown-group no task of the group 'list' has the dataDef 'item'" in run()[2]


def test_recording_as_json_has_the_form_of_a_test(run: Output) -> None:
    code, out, _ = run("--record", "page.html", "--data-def", "item", "--json")
    assert code == 0
    assert json.loads(out) == {
        "passed": 0, "updated": 0, "failed": 0,
        "tests": [{"name": "item", "data_def": "item", "state": "recorded", "differences": [], "problem": None}],
    }  # fmt: skip


def test_the_tests_of_the_demo_are_green_and_red_after_a_selector_is_broken(run: Output, tmp_path: Path) -> None:
    shutil.copytree(demo_defs(), tmp_path / "demo")
    assert run("--defs", "demo") == (0, "5 passed\n", "")
    shop = tmp_path / "demo" / "shop.yml"
    shop.write_text(shop.read_text().replace("sku: {selector: .sku", "sku: {selector: h1"))
    code, out, _ = run("--defs", "demo")
    assert code == 1
    assert 'product (product): failed\n  row 1, sku: expected "S-00074", got "Plain Cup 74"\n' in out
    assert out.endswith("4 passed, 1 failed\n")
    assert run("--defs", "demo", "--update")[0] == 0
    assert run("--defs", "demo", "product") == (0, "1 passed\n", "")
