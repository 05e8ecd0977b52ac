"""An output that is written whole: complete at every moment, written again from time to time, rows counted between."""

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.append.formats.file_writer import FileWriter
from crawl_engine.append.formats.writer import RowEncoder, Writer
from crawl_engine.append.loop.appender import AppenderLoop
from crawl_engine.append.loop.turns import TurnResult
from crawl_engine.store.read import snapshot
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.output.outputs import Output
from tests.contract.append.harness import Harness, book, recorded, run_until_idle, until


class BracketEncoder(RowEncoder):
    """A row is a dot; a file is one bracket of them."""

    pause = 0.0
    fails = False

    @property
    def has_footer(self) -> bool:
        return True

    def header(self) -> bytes:
        return b"["

    def rows(self, rows: Iterable[str]) -> bytes:
        return b"." * len(list(rows))

    def footer(self) -> bytes:
        time.sleep(self.pause)
        if self.fails:
            raise OSError(28, "No space left on device")
        return b"]"


class BracketOutputs:
    """All outputs are files of brackets."""

    backs_off = False

    def __init__(self, encoder: RowEncoder) -> None:
        self._encoder = encoder

    def choose(self, declared: Iterable[Output]) -> list[Output]:
        return list(declared)

    def create_writer(self, output: Output, **_: Any) -> Writer:
        return FileWriter(Path(output.path), self._encoder)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path, "csv")


@pytest.fixture
def encoder() -> BracketEncoder:
    return BracketEncoder()


def whole_appender(harness: Harness, encoder: RowEncoder, **more: Any) -> AppenderLoop:
    return harness.appender(chosen=BracketOutputs(encoder), **more)


def settle(appender: AppenderLoop) -> TurnResult:
    """Turn until nothing is left that may be done now."""
    while (turn := appender.run_turn()) in (TurnResult.MORE, TurnResult.WROTE):
        pass
    return turn


def test_the_file_is_complete_from_the_start_and_rows_wait(harness: Harness, encoder: BracketEncoder) -> None:
    with closing(whole_appender(harness, encoder)) as appender:
        assert settle(appender) is TurnResult.IDLE
        assert harness.path().read_text() == "[]"
        harness.add([book(1), book(2)])
        assert settle(appender) is TurnResult.BLOCKED
        assert harness.path().read_text() == "[]"
        assert harness.has_backlog()
        (shown,) = snapshot.list_outputs(harness.db, harness.run.seq)
        assert (shown.rows, shown.backlog, shown.rebuilding) == (0, 2, False)


def test_waiting_rows_are_written_from_time_to_time(harness: Harness, encoder: BracketEncoder) -> None:
    with closing(whole_appender(harness, encoder, whole_every=0.05)) as appender:
        settle(appender)
        for count in (1, 2, 3):
            harness.add([book(count)])
            run_until_idle(appender)
            assert harness.path().read_text() == f"[{'.' * count}]"
        assert not harness.has_backlog()


def test_a_drain_writes_all_rows(harness: Harness, encoder: BracketEncoder) -> None:
    harness.add([book(1)])
    with closing(whole_appender(harness, encoder)) as appender:
        settle(appender)
        harness.add([book(2)])
        settle(appender)
    with closing(whole_appender(harness, encoder, draining=True)) as appender:
        appender.run()
    assert harness.path().read_text() == "[..]"
    assert not harness.has_backlog()


def test_rows_that_an_earlier_process_left_are_written_at_once(harness: Harness, encoder: BracketEncoder) -> None:
    with closing(whole_appender(harness, encoder)) as appender:
        settle(appender)
        harness.add([book(1)])
        settle(appender)
    with closing(whole_appender(harness, encoder)) as appender:
        assert settle(appender) is TurnResult.IDLE
    assert harness.path().read_text() == "[.]"


def test_a_long_rebuild_lengthens_the_interval(harness: Harness, encoder: BracketEncoder) -> None:
    encoder.pause = 0.05
    with closing(whole_appender(harness, encoder, whole_every=0.01)) as appender:
        settle(appender)
        harness.add([book(1)])
        began = time.monotonic()
        run_until_idle(appender)
        assert time.monotonic() - began > 0.4


def test_rows_of_other_data_defs_do_not_rewrite_a_file(tmp_path: Path, encoder: BracketEncoder) -> None:
    harness = Harness(tmp_path, "csv", ("book", "author"))
    with closing(whole_appender(harness, encoder, whole_every=0.0)) as appender:
        run_until_idle(appender)
        inode = harness.path("author").stat().st_ino
        harness.add([book(1)])
        run_until_idle(appender)
    assert harness.path().read_text() == "[.]"
    assert harness.path("author").stat().st_ino == inode
    assert not harness.has_backlog()


def test_a_failed_rebuild_keeps_file_and_backlog(harness: Harness, encoder: BracketEncoder) -> None:
    with closing(whole_appender(harness, encoder, whole_every=0.0)) as appender:
        run_until_idle(appender)
        encoder.fails = True
        harness.add([book(1)])
        assert until(lambda: settle(appender) is TurnResult.BLOCKED and recorded(harness).error is not None)
        assert harness.path().read_text() == "[]"
        (shown,) = snapshot.list_outputs(harness.db, harness.run.seq)
        assert (shown.backlog, shown.error) == (1, "[Errno 28] No space left on device")
        encoder.fails = False
        run_until_idle(appender)
    assert harness.path().read_text() == "[.]"
    assert recorded(harness).error is None


def test_a_workbook_with_more_rows_than_a_sheet_keeps_the_last_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawl_engine.append.formats.xlsx.MAX_ROWS", 4)
    harness = Harness(tmp_path, "xlsx")
    with closing(harness.appender(whole_every=0.0)) as appender:
        harness.add([book(1), book(2)])
        run_until_idle(appender)
        whole = harness.path().read_bytes()
        harness.add([book(3), book(4)])
        assert until(lambda: settle(appender) is TurnResult.BLOCKED and recorded(harness).error is not None)
    error = recorded(harness).error
    assert error == "more than 3 rows, which is what a sheet of Excel holds; write csv or parquet"
    assert harness.path().read_bytes() == whole


def test_a_row_deleted_during_a_rebuild_marks_the_file_again(harness: Harness, encoder: BracketEncoder) -> None:
    class DeletingEncoder(BracketEncoder):
        def footer(self) -> bytes:
            if job not in replaced:
                replaced.append(job)
                harness.add([], job=job)
            return b"]"

    replaced: list[int] = []
    job = harness.add([book(1), book(2)])
    harness.add([book(3)])
    replaced.append(job)
    with closing(whole_appender(harness, encoder)) as appender:
        settle(appender)  # the first file holds no row, so the cursor is at 0
    replaced.clear()
    harness.add([book(4)])
    with closing(whole_appender(harness, DeletingEncoder(), whole_every=0.0)) as appender:
        run_until_idle(appender)
    assert harness.path().read_text() == "[..]"
    assert recorded(harness).rows == 2


@pytest.mark.parametrize("point", ["set_pending", "finish_rebuild", "swap_in"])
def test_a_kill_at_any_point_leaves_a_whole_file(
    harness: Harness, encoder: BracketEncoder, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Killed

    with closing(whole_appender(harness, encoder)) as appender:
        settle(appender)
    harness.add([book(1)])
    appender = whole_appender(harness, encoder)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(FileWriter if point == "swap_in" else outputs, point, die)
        settle(appender)
    assert harness.path().read_text() in ("[]", "[.]")
    appender.close()
    with closing(whole_appender(harness, encoder, draining=True)) as appender:
        appender.run()
    assert harness.path().read_text() == "[.]"
    assert recorded(harness).rows == 1
    assert not list(harness.path().parent.glob(".*.rebuild"))


def test_a_file_that_was_changed_is_written_again(harness: Harness, encoder: BracketEncoder) -> None:
    harness.add([book(1)])
    with closing(whole_appender(harness, encoder, draining=True)) as appender:
        appender.run()
    for damage in (b"[", b"[...]"):
        harness.path().write_bytes(damage)
        with closing(whole_appender(harness, encoder, draining=True)) as appender:
            appender.run()
        assert harness.path().read_text() == "[.]"


def test_replaced_rows_wait_for_the_next_time(harness: Harness, encoder: BracketEncoder) -> None:
    job = harness.add([book(1)])
    with closing(whole_appender(harness, encoder)) as appender:
        assert settle(appender) is TurnResult.IDLE
        harness.add([book(2), book(3)], job=job)
        assert settle(appender) is TurnResult.BLOCKED
        assert harness.path().read_text() == "[.]"
    with closing(whole_appender(harness, encoder, draining=True)) as appender:
        appender.run()
    assert harness.path().read_text() == "[..]"
