"""Two runs in a real database: which rows differ, and when a missing row vanished."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.append.change_lines import ChangeEncoder
from crawl_engine.append.run_changes import ComparedDef, compare_rows, read_changes
from crawl_engine.model.content_digest import Digests, row_digests
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.job import link_key, locator_key
from crawl_engine.model.link import Link
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.read.run_comparison import find_earlier_run, has_all_rows
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.row_entries import RowEntries
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import runs, versions

FIELDS = ("sku", "price")
HOST = "shop.example:443"
ITEMS = TaskGroup(name="list", tasks=(Task(name="items", data_def="item"),))
DETAIL = TaskGroup(name="detail", tasks=(Task(name="page", data_def="product"),))
NOTES = TaskGroup(name="notes", tasks=(Task(name="note", data_def="note"),))


def data_defs(fields: Sequence[str] = FIELDS, key: Sequence[str] = ("sku",)) -> tuple[DataDef, ...]:
    with_fields = {"fields": tuple(Field(name=name) for name in fields), "key": tuple(key)}
    return (
        DataDef(name="item", block="li", links=(Link(selector="a", group="detail"),), **with_fields),
        DataDef(name="product", **with_fields),
        DataDef(name="note", **with_fields),
    )


class TwoRuns:
    """Runs that are DONE, with their jobs and rows as they are given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        open_databases(folder).close()
        self.db = connect(folder / CRAWL, durable=False)
        self.run = 0
        self.defs = Definitions()

    def begin(self, **shape: Any) -> int:
        groups = shape.pop("groups", (ITEMS, DETAIL, NOTES))
        self.defs = Definitions(task_groups=groups, data_defs=data_defs(**shape))
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0).seq
            self.version = versions.publish(self.db, self.defs, 0.0)
            self.db.execute(
                "UPDATE runs SET defs_version = :v, seeded_version = :v, state = 'DONE' WHERE seq = :run",
                {"v": self.version, "run": self.run},
            )
        return self.run

    def page(
        self, path: str, data: Sequence[Mapping[str, Any] | str] = (), *, group: str = "list", host: str = HOST,
        state: str = "DONE", code: str | None = None, kind: str = "page", data_def: str = "", located: bool = False,
        rejected: int = 0, document: int | None = None, digests: bool = True,
    ) -> int:  # fmt: skip
        """A job with its rows."""
        url = f"https://{host.rpartition(':')[0]}{path}"
        data_def = data_def or {"list": "item", "detail": "product", "notes": "note"}[group]
        identity, page_key = link_key(group, url), None
        if located:
            identity, page_key = locator_key(group, "l", url, "GET", None), identity
        with self.db.transaction():
            job = self.db.value(
                "INSERT INTO jobs (run, sequence, state, origin, url, identity, page_key, defs, reason_code, document)"
                " VALUES (?, ?, 'READY', 'link', ?, ?, ?, ?, ?, ?) RETURNING id",
                (self.run, self._sequence(group, host, kind), url, identity, page_key, self.version, code, document),
            )
            if state != "READY":
                leased = "lease = 1," if state == "TAKEN" else ""
                self.db.execute(f"UPDATE jobs SET {leased} state = ? WHERE id = ?", (state, job))
            if rejected:
                rows.add_counts(self.db, self.run, data_def, rejected=rejected)
            texts = [row if isinstance(row, str) else json.dumps(row) for row in data]
            (unit,) = [
                id_ for id_, name in self.db.all(
                    "SELECT d.id, d.name FROM page_defs p, json_each(p.data_defs) u JOIN data_defs d ON d.id = u.value"
                    " WHERE p.version = ? AND p.grp = ?", (self.version, group),
                ) if name == data_def
            ] or [0]  # fmt: skip
            if texts:
                made = row_digests(data_def, texts) if digests else Digests()
                rows.add(self.db, self.run, [(job, NewRows(data_def, unit, texts, made))])
                rows.add_counts(self.db, self.run, data_def, rows=len(texts))
        return int(job)

    def _sequence(self, group: str, host: str, kind: str) -> int:
        self.db.execute(
            "INSERT INTO hosts (run, key, origin, delay, concurrency, robots) VALUES (?, ?, ?, 0, 8, 'OFF')"
            " ON CONFLICT DO NOTHING",
            (self.run, host, f"https://{host}"),
        )
        host_id = self.db.value("SELECT id FROM hosts WHERE run = ? AND key = ?", (self.run, host))
        place = (self.run, host_id, kind, group)
        self.db.execute(
            "INSERT INTO sequences (run, host, kind, grp) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", place
        )
        sequence = self.db.value("SELECT id FROM sequences WHERE run = ? AND host = ? AND kind = ? AND grp = ?", place)
        return int(sequence)

    def compare(
        self, data_def: str = "item", *, old_columns: Sequence[str] | None = None, format_: str = "jsonl"
    ) -> tuple[list[str], int]:
        """The lines of the changes between the last two runs, and how many missing rows are undecided."""
        new = self.defs.data_def(data_def)
        assert new is not None
        compared = ComparedDef(
            name=data_def, key=new.key, old_columns=tuple(old_columns or new.columns), new_columns=new.columns
        )
        path = self.folder / "entries.db"
        path.unlink(missing_ok=True)
        earlier = find_earlier_run(self.db, self.run, data_def)
        assert earlier is not None
        is_decided = has_all_rows(self.db, self.run, earlier, data_def)
        with closing(RowEntries(path)) as entries:
            compare_rows(self.db, entries, compared, old=earlier, new=self.run)
            encoder = ChangeEncoder(format_, compared, {"escape_formulas": True})
            changes = read_changes(self.db, entries, with_missing=is_decided)
            lines = b"".join([encoder.header(), *map(encoder.lines, changes)])
            return lines.decode().splitlines(), 0 if is_decided else entries.count_missing()

    def changes(self, data_def: str = "item", **more: Any) -> list[tuple[str, Any]]:
        """Kind and key of each change."""
        found = [json.loads(line) for line in self.compare(data_def, **more)[0]]
        return [(one["change"], one["key"].get("sku")) for one in found]


def item(sku: Any, price: Any = 1) -> dict[str, Any]:
    return {"sku": sku, "price": price}


@pytest.fixture
def two(tmp_path: Path) -> TwoRuns:
    return TwoRuns(tmp_path)


def test_rows_of_one_key_are_paired_and_a_key_in_both_runs_is_neither_added_nor_vanished(two: TwoRuns) -> None:
    two.begin()
    two.page("/1", [item("a", 1), item("a", 2), item("b", 1), item("c", 1), item("c", 2)])
    two.begin()
    two.page("/1", [item("a", 2), item("a", 3), item("a", 4), item("b", 1), item("b", 1), item("c", 2)])
    found, undecided = two.compare()
    assert list(map(json.loads, found)) == [
        {"change": "changed", "key": {"sku": "a"}, "fields": {"price": {"old": 1, "new": 3}}}
    ]
    assert undecided == 0


def test_a_row_without_key_is_compared_as_a_whole_and_numbers_equal_their_text(two: TwoRuns) -> None:
    two.begin(key=("sku", "price"))
    two.page("/1", [item(None, None), {"sku": None}, item("x", None), item(7, 1), item("t", True)])
    two.begin(key=("sku", "price"))
    two.page("/1", [item(None, None), item("x", None), item("7", "1"), item("t", "true")])
    assert two.changes() == [("added", "t"), ("vanished", None), ("vanished", "t")]


def test_only_fields_that_both_runs_have_are_compared(two: TwoRuns) -> None:
    two.begin(fields=("sku", "price", "size"))
    two.page("/1", [{"sku": "a", "price": 1, "size": "L"}, {"sku": "b", "price": 1, "size": "S"}])
    two.begin(fields=("colour", "price", "sku"))
    two.page("/1", [{"colour": "red", "price": 1, "sku": "a"}, {"colour": "red", "price": 2, "sku": "b"}])
    found, _ = two.compare(old_columns=("sku", "price", "size"))
    assert list(map(json.loads, found)) == [
        {"change": "changed", "key": {"sku": "b"}, "fields": {"price": {"old": 1, "new": 2}}}
    ]
    two.begin(fields=("sku", "price"), key=())
    two.page("/1", [item("a", 1), item("b", 3)])
    assert [json.loads(line)["fields"]["sku"] for line in two.compare(old_columns=("colour", "price", "sku"))[0]] == [
        {"old": None, "new": "b"}, {"old": "b", "new": None}
    ]  # fmt: skip


def test_an_absent_field_equals_null_and_rows_without_a_digest_compare(two: TwoRuns) -> None:
    two.begin()
    two.page("/1", ['{"sku":"a"}', '{"sku":"b","price":1.50}', '{"sku":"c","price":2}'], digests=False)
    two.begin()
    two.page("/1", ['{"sku":"a","price":null}', '{"sku":"b","price":1.5}', '{"sku":"c","price":2}'])
    found, _ = two.compare()
    assert found == ['{"change":"changed","key":{"sku":"b"},"fields":{"price":{"old":1.50,"new":1.5}}}']


def test_csv_escapes_formulas_and_names_columns_once(two: TwoRuns) -> None:
    two.begin(fields=("change", "sku", "change.old"), key=("change",))
    two.page("/1", [{"change": "k", "sku": "=1+1", "change.old": "x"}])
    two.begin(fields=("change", "sku", "change.old"), key=("change",))
    two.page("/1", [{"change": "k", "sku": "a\nb, \x1b[1m", "change.old": "x"}])
    found = two.compare(format_="csv")[0]
    assert found[0] == "change,key.change,sku.old,sku.new,change.old.old,change.old.new"
    assert "\n".join(found[1:]) == 'changed,k,\'=1+1,"a\nb, \x1b[1m",,'


@pytest.mark.parametrize(
    ("page", "vanished"),
    [
        ({"state": "DONE"}, True),
        ({"state": "DONE", "located": True}, True),
        ({"state": "SKIPPED", "code": "no-page"}, True),
        ({"state": "SKIPPED", "code": "no-page", "document": 3}, True),
        ({"state": "SKIPPED", "code": "canonical", "document": 1}, True),
        ({"state": "DONE", "rejected": 1}, False),
        ({"state": "SKIPPED", "code": "robots"}, False),
        ({"state": "SKIPPED", "code": "limit"}, False),
        ({"state": "SKIPPED", "code": None, "document": 2}, False),
        ({"state": "SKIPPED", "code": "group"}, False),
        ({"state": "FAILED", "code": "no-page"}, False),
        ({"state": "FAILED", "code": None}, False),
        ({"state": "INCOMPLETE"}, False),
        ({"state": "TAKEN"}, False),
        ({"state": "READY"}, False),
        (None, True),
    ],
)
@pytest.mark.parametrize("group", ["list", "detail"])
def test_a_row_vanished_if_its_page_was_read_or_is_gone(
    two: TwoRuns, group: str, page: dict[str, Any] | None, vanished: bool
) -> None:
    two.begin()
    two.page("/1", [item("a")], group=group)
    two.begin()
    if page is not None:
        two.page("/1", group=group, **page)
    found, undecided = two.compare("item" if group == "list" else "product")
    assert (len(found), undecided) == ((1, 0) if vanished else (0, 1))


@pytest.mark.parametrize(
    ("other", "lists", "details"),
    [
        ({"state": "FAILED"}, False, False),
        ({"state": "READY"}, False, False),
        ({"state": "SKIPPED", "code": "limit"}, False, False),
        ({"state": "SKIPPED", "code": "robots"}, False, False),
        ({"state": "SKIPPED", "code": "no-page", "document": 3}, True, True),
        ({"state": "SKIPPED", "code": "no-page"}, True, True),
        ({"state": "FAILED", "host": "other.example:443"}, False, False),
        ({"state": "FAILED", "kind": "sitemap"}, False, False),
        ({"state": "FAILED", "kind": "sitemap", "group": "notes"}, False, False),
        ({"state": "READY", "kind": "extract"}, False, False),
        ({"state": "FAILED", "kind": "file"}, True, True),
        ({"state": "FAILED", "group": "detail"}, True, False),
        ({"state": "FAILED", "group": "notes"}, True, True),
    ],
)
def test_one_page_that_was_not_read_leaves_the_missing_rows_of_its_data_def_undecided(
    two: TwoRuns, other: dict[str, Any], lists: bool, details: bool
) -> None:
    two.begin()
    two.page("/1", [item("a")])
    two.page("/p", [item("a")], group="detail")
    two.begin()
    two.page("/1")
    two.page("/p", group="detail")
    two.page("/new", **other)
    assert two.changes() == ([("vanished", "a")] if lists else [])
    assert two.changes("product") == ([("vanished", "a")] if details else [])


def test_while_rows_wait_for_files_no_row_of_their_data_def_vanished(two: TwoRuns) -> None:
    two.begin()
    two.page("/1", [item("a")])
    two.begin()
    two.page("/1")
    rows.add_counts(two.db, two.run, "item", waiting=1)
    assert two.compare() == ([], 1)
    rows.add_counts(two.db, two.run, "item", waiting=-1)
    assert two.changes() == [("vanished", "a")]


def test_a_row_vanishes_although_as_many_records_are_rejected_as_before(two: TwoRuns) -> None:
    two.begin()
    two.page("/1", [item("a")], rejected=2)
    two.begin()
    two.page("/1", rejected=2)
    assert two.changes() == [("vanished", "a")]


def test_rows_of_a_group_that_no_longer_has_their_data_def_are_undecided(two: TwoRuns) -> None:
    two.begin()
    two.page("/1", [item("a")])
    without = TaskGroup(name="list", tasks=(Task(name="items", data_def="note"),))
    two.begin(groups=(without, DETAIL, NOTES))
    two.page("/1", [], data_def="note")
    assert two.changes() == []


def test_a_run_whose_seeding_has_not_ended_lets_nothing_vanish(two: TwoRuns) -> None:
    two.begin()
    two.page("/1", [item("a")])
    run = two.begin()
    two.page("/1")
    two.db.execute("UPDATE runs SET seeded_version = NULL WHERE seq = ?", (run,))
    assert two.compare() == ([], 1)


def test_the_run_before_is_the_last_done_one_that_gave_rows(two: TwoRuns) -> None:
    first = two.begin()
    two.page("/1", [item("a")])
    second = two.begin()
    two.page("/1", [item("a", 2)])
    two.begin()
    two.page("/1")
    last = two.begin()
    assert find_earlier_run(two.db, last, "item") == second
    two.db.execute("UPDATE runs SET state = 'CANCELLED' WHERE seq = ?", (second,))
    assert find_earlier_run(two.db, last, "item") == first
    two.db.execute("UPDATE runs SET state = 'KILLED' WHERE seq = ?", (first,))
    assert find_earlier_run(two.db, last, "item") == second
    assert find_earlier_run(two.db, first, "item") is None


def test_many_rows_and_pages_are_compared_in_order(two: TwoRuns) -> None:
    two.begin()
    for page in range(700):
        two.page(f"/{page}", [item(f"{page}-{number}") for number in range(3)])
    two.begin()
    for page in range(700):
        two.page(f"/{page}", [item(f"{page}-{number}", 2 if number else 1) for number in range(2)])
    changes = two.changes()
    assert changes == [("changed", f"{page}-1") for page in range(700)] + [
        ("vanished", f"{page}-2") for page in range(700)
    ]
