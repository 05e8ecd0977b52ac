"""What is new across the runs of a data dir: `run --only-new` and `export --since`, whatever happens meanwhile."""

import csv
import os
import signal
from collections.abc import Callable

import pytest

from console.cli.main import main

from .house import Done, House, until
from .library import Library
from .site import Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{shelf: {{keyed: {{dataDef: keyed}}, whole: {{dataDef: whole}}}}}}
dataDefs:
  keyed:
    query: {{block: li}}
    key: [sku]
    fields: {{sku: {{selector: b}}, price: {{selector: i, type: decimal}}}}
  whole:
    query: {{block: li}}
    fields: {{sku: {{selector: b}}, price: {{selector: i, type: decimal}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""


def shelf(**prices: str) -> str:
    return html("".join(f"<li><b>{sku}</b><i>{price}</i></li>" for sku, price in prices.items()))


def told(done: Done) -> list[tuple[str, str]]:
    header, *rows = csv.reader(done.out.splitlines())
    assert header == ["sku", "price"]
    return [(sku, price) for sku, price in rows]


Here = Callable[..., Done]


@pytest.fixture
def here(house: House, capfd: pytest.CaptureFixture[str]) -> Here:
    """A command that only looks, in this process."""

    def looked(*arguments: str, data: str | None = None) -> Done:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--data", data or str(house.data)])
        out, err = capfd.readouterr()
        return Done(int(str(ended.value.code)), out, err, 0.0)

    return looked


def written(house: House, name: str) -> list[tuple[str, str]]:
    return [(row["sku"], row["price"]) for row in house.rows(name)]


def test_only_rows_no_earlier_run_has_reach_the_files(house: House, site: Site, here: Here) -> None:
    house.write(DEFS.format(url=site.url("/")))
    site["/"] = shelf(a="1.50", b="2", c="3")
    first = house.crawl("--only-new").summary["run"]
    assert written(house, "keyed") == written(house, "whole") == [("a", "1.50"), ("b", "2"), ("c", "3")]

    site["/"] = shelf(a="1.60", b="2", d="4")
    done = house.crawl("--only-new")
    assert written(house, "keyed") == [("d", "4")], "a has another price, but its key is known"
    assert written(house, "whole") == [("a", "1.60"), ("d", "4")]
    assert done.summary["rows"] == {"keyed": 3, "whole": 3}, "the truth holds all of them"
    assert {a["name"]: a["rows"] for a in done.summary["appenders"]} == {"rows/keyed": 1, "rows/whole": 2}

    assert told(here("export", "keyed")) == [("a", "1.60"), ("b", "2"), ("d", "4")]
    assert told(here("export", "keyed", "--since", first)) == [("d", "4")]
    assert told(here("export", "whole", "--since", first)) == [("a", "1.60"), ("d", "4")]
    assert told(here("export", "whole", "--since", done.summary["run"])) == []
    unknown = here("export", "whole", "--since", "nope")
    assert unknown.code == 2
    assert first in unknown.err

    site["/"] = shelf(c="3", e="5", f="")
    house.crawl()
    assert written(house, "keyed") == [("c", "3"), ("e", "5"), ("f", "")], "without the flag all rows are written"
    assert told(here("export", "keyed", "--since", first)) == [("e", "5"), ("f", "")]

    listed = here("runs", "--json").summary["runs"]
    assert [(run["state"], run["done"], run["rows"]) for run in listed] == [("DONE", 1, 6)] * 3
    assert listed[2]["run"] == first
    assert len(here("runs", "--limit", "2", "--json").summary["runs"]) == 2
    assert here("runs").out.splitlines()[3].startswith(first)
    shown = here("runs", "show", first, "--json").summary
    assert (shown["run"], shown["rows"]) == (first, {"keyed": 3, "whole": 3})
    assert f"run {first}  DONE" in here("runs", "show", first).out
    assert here("runs", "show", "nope").code == 2
    assert here("runs", "--json", data=str(house.folder / "nowhere")).summary == {"runs": []}

    (house.data / "keys.db").write_bytes(b"no database at all, " * 300)
    site["/"] = shelf(c="3.0", f="", g="7")
    house.crawl("--only-new")
    assert written(house, "keyed") == [("g", "7")]
    assert written(house, "whole") == [("c", "3.0"), ("g", "7")]


def test_another_key_in_the_defs_is_another_question(house: House, site: Site) -> None:
    house.write(DEFS.format(url=site.url("/")))
    site["/"] = shelf(a="1", b="2")
    house.crawl("--only-new")
    site["/"] = shelf(a="1", b="9", c="1")
    house.write(DEFS.format(url=site.url("/")).replace("key: [sku]", "key: [price]"))
    house.crawl("--only-new")
    assert written(house, "keyed") == [("b", "9")]


@pytest.mark.parametrize("victim", ["append", "supervisor"])
def test_a_kill_changes_nothing_of_what_is_new(house: House, site: Site, victim: str) -> None:
    small = Library(site, shelves=2, books=6)
    house.write(small.defs())
    house.crawl()
    site.forget()
    library = Library(site, shelves=8, books=6, delay=0.05)
    running = house.start("--only-new")
    assert until(lambda: running.over or len(site.paths) > library.size / 2)
    if victim == "append":
        for pid in house.children("append"):
            os.kill(pid, signal.SIGKILL)
        assert running.wait().code == 0
    else:
        running.send(signal.SIGKILL)
        running.wait()
        house.assert_nobody_left()
        house.crawl()  # goes on as it was begun: without the flag, too
    assert house.counted("entry", "book") == library.rows() - small.rows()
