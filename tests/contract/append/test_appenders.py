"""What every output must keep, whatever its type: the same rows out as in, through any loss, kill or replacement."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from engine.append.turns import TurnResult
from engine.errors import CrawlError
from engine.store.db.connector import Database
from engine.store.tables import outputs, rows, runs
from tests.contract.append.house import COLUMNS, TYPES, House, book, books, recorded, settle


@pytest.fixture(params=TYPES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, request.param)


def test_rows_come_out_as_they_went_in(house: House) -> None:
    house.add(books(50))
    house.add([{"title": "", "price": None, "stock": False, "tags": [], "parts": None}, {"title": "only"}])
    house.drain()
    assert house.found() == house.expected()


def test_a_file_stands_before_the_first_row(house: House) -> None:
    with closing(house.appender()) as appender:
        settle(appender)
    assert house.path().exists()
    assert house.found() == []
    if house.type == "csv":
        assert house.path().read_bytes() == b"title,price,stock,tags,parts\r\n"


def test_files_are_for_their_owner_alone(house: House) -> None:
    house.drain()
    assert house.path().stat().st_mode & 0o777 == 0o600
    assert house.path().parent.stat().st_mode & 0o777 == 0o700


def test_each_data_def_has_its_own_output(tmp_path: Path) -> None:
    house = House(tmp_path, "csv", ("book", "author", "empty"))
    for i in range(20):
        house.add([book(i)], "book")
        house.add([book(i), book(i + 1)], "author")
    house.drain()
    assert [len(house.found(name)) for name in ("book", "author", "empty")] == [20, 40, 0]
    assert all(house.found(name) == house.expected(name) for name in ("book", "author"))


def test_rows_of_other_runs_stay_out(house: House) -> None:
    house.add(books(3))
    with house.db.transaction():
        house.db.execute("UPDATE runs SET id = 'older' WHERE seq = 1")
        house.db.execute("INSERT INTO runs (id, created_at) VALUES ('newer', 1)")
    house.run = type(house.run)(2, "newer", *[getattr(house.run, n) for n in list(house.run.__slots__)[2:]])
    house.truth["book"].clear()
    house.declare("book")
    house.add(books(2, start=70))
    house.drain()
    assert house.found() == house.expected()
    assert len(house.found()) == 2


def test_what_lies_behind_the_record_is_cut_off(house: House) -> None:
    house.add(books(40))
    house.drain()
    size = recorded(house).bytes
    torn = house.path().read_bytes()[: size // 2] if house.type != "sqlite" else b""
    if house.type == "sqlite":
        with closing(Database.open(house.path())) as db, db.transaction():
            db.execute("INSERT INTO book (_id, title) VALUES (100000, 'not recorded')")
            db.execute("UPDATE _crawl_console SET cursor = 100000, rows = rows + 1")
    else:
        with house.path().open("ab") as file:
            file.write(torn)
    house.add(books(3, start=90))
    house.drain()
    assert house.found() == house.expected()


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.37, 0.8, 0.999])
def test_a_file_cut_at_any_byte_is_made_again(house: House, kept: float) -> None:
    house.add(books(30))
    house.drain()
    os.truncate(house.path(), int(house.path().stat().st_size * kept))
    house.add(books(3, start=90))
    house.drain()
    assert house.found() == house.expected()


def test_a_file_cut_while_it_is_written_is_made_again(tmp_path: Path) -> None:
    house = House(tmp_path, "csv")
    with closing(house.appender()) as appender:
        for cut in range(0, 400, 13):
            house.add([book(cut)])
            settle(appender)
            os.truncate(house.path(), min(cut, house.path().stat().st_size - 1))
        settle(appender)
    assert house.found() == house.expected()


def test_a_missing_file_is_made_again(house: House) -> None:
    house.add(books(10))
    with closing(house.appender()) as appender:
        settle(appender)
        house.path().unlink()
        house.add(books(2, start=50))
        settle(appender)
        assert house.found() == house.expected()
        shutil.rmtree(house.path().parent)
        settle(appender)
        assert house.found() == house.expected()
    house.path().unlink()
    house.drain()
    assert house.found() == house.expected()


def test_another_file_under_the_name_is_replaced(house: House) -> None:
    house.add(books(10))
    house.drain()
    house.path().unlink()
    house.path().write_bytes(b"not what was written here, and longer than it\n" * 3000)
    house.drain()
    assert house.found() == house.expected()


def test_a_file_of_before_the_run_is_replaced(house: House) -> None:
    house.path().parent.mkdir(parents=True)
    house.path().write_bytes(b"from yesterday\n" * 100)
    house.add(books(2))
    house.drain()
    assert house.found() == house.expected()


def test_replaced_rows_leave_the_file(house: House) -> None:
    first = house.add(books(20))
    second = house.add(books(20, start=20))
    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(15, start=100), job=first)
        house.add([], job=second)
        settle(appender)
        assert house.found() == house.expected()
    assert not house.behind()


def test_rows_replaced_while_they_are_written_leave_the_file(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job = house.add(books(5))
    replaced: list[int] = []
    real = rows.list_after

    def after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, int, str]]:
        batch = real(db, run, cursor, limit)
        if batch and not replaced:
            replaced.append(house.add(books(5, start=50), job=job))
        return batch

    monkeypatch.setattr(rows, "list_after", after)
    house.drain()
    assert replaced
    assert house.found() == house.expected()


def test_rows_replaced_during_a_rebuild_leave_the_file(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job, other = house.add(books(5)), house.add(books(5, start=20))
    replaced: list[int] = []
    real = rows.list_by_data_def

    def of_data_def(db: Database, run: int, name: str, cursor: int, limit: int) -> list[tuple[int, str]]:
        batch = real(db, run, name, cursor, limit)
        if batch and not replaced:
            replaced.append(house.add(books(2, start=70), job=other))
        return batch

    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(5, start=50), job=job)
        monkeypatch.setattr(rows, "list_by_data_def", of_data_def)
        settle(appender)
    assert replaced
    assert house.found() == house.expected()
    assert not house.behind()


def test_other_columns_make_the_file_anew(house: House) -> None:
    house.add(books(10))
    with closing(house.appender()) as appender:
        settle(appender)
        house.declare("book", ("title", "stock"))
        house.add(books(10, start=10))
        appender.run_turn()
        settle(appender)
        assert house.found(columns=("title", "stock")) == house.expected(columns=("title", "stock"))
    house.declare("book", ("stock", "title", "new"))
    house.drain()
    assert house.found(columns=("stock", "title", "new")) == house.expected(columns=("stock", "title", "new"))


def test_an_output_declared_later_has_all_rows(house: House, tmp_path: Path) -> None:
    house.add(books(10))
    with closing(house.appender()) as appender:
        settle(appender)
        path = tmp_path / "elsewhere" / house.path().name
        settings = {"columns": list(COLUMNS), "joins": {"tags": ";"}, "delimiter": ","}
        with house.db.transaction():
            outputs.ensure(
                house.db, 1, appender="copy", type_=house.type, data_def="book", path=str(path), settings=settings
            )
        house.add(books(3, start=10))
        settle(appender)
    assert house.found() == house.expected()
    shutil.copy(path, house.path())
    assert house.found() == house.expected()


def test_two_outputs_of_one_path_are_refused(tmp_path: Path) -> None:
    house = House(tmp_path, "csv", ("book", "author"))
    house.declare("author", path=house.path("book"))
    with closing(house.appender()) as appender, pytest.raises(CrawlError, match="both book and author"):
        settle(appender)


def test_tables_of_one_database_live_together(tmp_path: Path) -> None:
    house = House(tmp_path, "sqlite", ("book", "author"))
    house.declare("author", path=house.path("book"))
    job = house.add(books(5), "book")
    house.add(books(7), "author")
    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(2, start=30), "book", job=job)
        settle(appender)
    shutil.copy(house.path("book"), house.path("author"))
    assert house.found("book") == house.expected("book")
    assert house.found("author") == house.expected("author")


def test_an_older_copy_put_back_is_made_again(house: House, tmp_path: Path) -> None:
    house.add(books(10))
    house.drain()
    older = house.path().read_bytes()
    house.add(books(300, start=10))
    house.drain()
    house.path().write_bytes(older + b"\n" * (house.path().stat().st_size - len(older)) * (house.type == "sqlite"))
    house.add(books(3, start=400))
    house.drain()
    assert house.found() == house.expected()


def test_while_rows_are_replaced_the_file_is_left_alone_and_then_written_once(house: House) -> None:
    job = house.add(books(3))
    other = house.add(books(2, start=10))
    with closing(house.appender()) as appender:
        while appender.run_turn() is not TurnResult.IDLE:
            pass
        before = house.path().read_bytes()
        with house.db.transaction():
            outputs.mark_stale(house.db, house.run.seq, ["book"])
            runs.set_reextraction(house.db, house.run.seq, "{}")
        house.add(books(3, start=100), job=job)
        house.add(books(2, start=200), job=other)
        for _ in range(5):
            assert appender.run_turn() is TurnResult.BLOCKED
        if house.type != "sqlite":
            assert house.path().read_bytes() == before, "a reader sees no half of the new rows"
        with closing(house.appender()) as another:  # started anew meanwhile: no reason to show half either
            assert another.run_turn() is TurnResult.BLOCKED
        with house.db.transaction():
            runs.set_reextraction(house.db, house.run.seq, None)
    with closing(house.appender()) as appender:
        assert appender.run_turn() is TurnResult.MORE
        assert house.found() == house.expected()
        assert appender.run_turn() is TurnResult.IDLE
    assert not house.behind()


def test_rows_replaced_since_the_outputs_were_looked_at_are_not_appended(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = house.add(books(3))
    house.drain()
    before = house.path().read_bytes()
    with closing(house.appender()) as appender:
        assert appender.run_turn() is TurnResult.IDLE
        inspected = appender._inspect_outputs

        def late(declared: object) -> object:
            found = inspected(declared)  # type: ignore[arg-type]
            house.add(books(3, start=100), job=job)
            monkeypatch.setattr(appender, "_inspect_outputs", inspected)
            return found

        monkeypatch.setattr(appender, "_inspect_outputs", late)
        assert appender.run_turn() is TurnResult.MORE
        if house.type != "sqlite":
            assert house.path().read_bytes() == before
    house.drain()
    assert house.found() == house.expected()
