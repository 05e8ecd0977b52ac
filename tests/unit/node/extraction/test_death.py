"""Whose fault the death of an extraction process is, and in which words."""

import signal

import pytest

from crawl_engine.node.extraction.board import Phase, ProgressBoard
from crawl_engine.node.extraction.death import judge_death
from crawl_engine.processes.orders import NOT_FORKED
from tests.unit.node.extraction.tasks import DEFINITIONS, limits

EXITED = 3 << 8


def reason(
    status: int, *, memory: int = 0, progress: str = "", timed_out: bool = False, garbage: bool = False, deaths: int = 1
) -> str | None:
    return judge_death(
        status, memory, limits(), progress=progress, timed_out=timed_out, garbage=garbage, deaths=deaths
    ).reason


def test_a_limit_fails_a_page_at_once() -> None:
    assert reason(signal.SIGPROF, progress="parsing") == "takes more than 5 s of CPU (parsing; limit parse_limit)"
    assert reason(signal.SIGKILL, timed_out=True) == "takes more than 15 s (3 times parse_limit)"
    needs = "needs more than 400 MB to parse; the limit is parse_memory"
    assert reason(signal.SIGSEGV, memory=390_000_000) == needs
    assert reason(signal.SIGSEGV, memory=230_000_000) is None
    assert reason(signal.SIGABRT, memory=230_000_000) == needs
    assert reason(signal.SIGABRT, memory=90_000_000) is None


@pytest.mark.parametrize(
    ("status", "how"),
    [(signal.SIGSEGV, "signal 11"), (EXITED, "exit 3"), (NOT_FORKED, "no memory or processes left to start it")],
)
def test_a_crash_fails_a_page_the_second_time(status: int, how: str) -> None:
    assert reason(status) is None
    assert reason(status, deaths=2) == f"its extraction process died twice ({how})"


def test_a_kill_from_outside_fails_a_page_the_fourth_time() -> None:
    assert reason(signal.SIGKILL, deaths=3) is None
    assert reason(signal.SIGKILL, deaths=4) == "its extraction process died 4 times (signal 9)"
    assert reason(signal.SIGKILL, deaths=2, garbage=True) == "its extraction process died twice (invalid answer)"


def test_the_board_names_what_is_worked_on_and_survives_nonsense() -> None:
    board = ProgressBoard()
    other, slot = board.slot(0), board.slot(1)
    slot.begin(7, Phase.DECODING)
    assert (slot.document, other.document) == (7, 0)
    assert slot.describe(DEFINITIONS, ["book"]) == "decoding"
    slot.enter_data_def(0)
    assert slot.describe(DEFINITIONS, ["book"]) == "dataDef book"
    slot.enter_field(1)
    assert slot.describe(DEFINITIONS, ["book"]) == "dataDef book, field last"
    slot.enter_field(99)
    assert slot.describe(DEFINITIONS, ["book"]) == "dataDef book"
    slot.enter_links()
    assert slot.describe(DEFINITIONS, ["book"]) == "dataDef book, links"
    slot.enter_data_def(2**63)
    assert slot.describe(DEFINITIONS, ["book"]) == ""
    slot.clear()
    assert slot.describe(None, []) == ""
