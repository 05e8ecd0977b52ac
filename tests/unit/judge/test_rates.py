"""All rates are over the same last seconds; an output whose rows wait is late, whatever it has written before."""

import pytest
from msgspec.structs import replace

from crawl_engine.judge.rates import RateMeter
from crawl_engine.judge.trouble import RunJudge
from crawl_engine.store.read.situation import Situation
from tests.console.builders import output


def test_the_rates_of_parts_add_up_to_that_of_the_whole() -> None:
    meter = RateMeter()
    for second in range(30):
        parts = {"n1": 7 * second, **({"n2": 3 * (second - 5)} if second >= 5 else {})}
        meter.add(1_000.0 + second, {"pages": sum(parts.values()), **parts})
        if second > 20:
            assert meter.rate("n1") == 7.0
            assert meter.rate("n1") + meter.rate("n2") == meter.rate("pages") == 10.0


def test_a_rate_is_that_of_the_last_ten_seconds() -> None:
    meter = RateMeter()
    meter.add(0.0, {"pages": 500})
    assert meter.rate("pages") == 0.0, "what was there before says nothing"
    for second in range(1, 21):
        meter.add(float(second), {"pages": 500 + 40 * second})
    assert meter.rate("pages") == 40.0
    for second in range(21, 32):
        meter.add(float(second), {"pages": 1_300})
    assert meter.rate("pages") == 0.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rebuilding": True}, "rows/book is 10 s behind, because rows in it were replaced; backlog 900"),
        ({}, "rows/book is 10 s behind; backlog 900"),
    ],
)
def test_an_output_that_stands_still_while_rows_arrive_is_an_alarm(changes: dict[str, bool], text: str) -> None:
    """As under a reload that replaces rows while a crawl is at full speed."""
    judge, texts = RunJudge(), []
    for second in range(12):
        stands = output(cursor=6_389, backlog=900, **changes)
        situation = Situation(1_000.0 + second, outputs=[stands], newest_row=7_000 + 140 * second)
        texts.append([alarm.text for alarm in judge.update(situation)[1]])
    assert texts[:10] == [[]] * 10
    assert texts[10] == [text]
    written = Situation(1_012.0, outputs=[output(cursor=8_600, backlog=80)], newest_row=8_680)
    assert judge.update(written)[1] == []


def test_an_output_that_follows_at_a_distance_is_not_late_and_whole_files_may_wait() -> None:
    judge = RunJudge()
    for second in range(60):
        follows = output(cursor=140 * second - 500, backlog=500)
        whole = output("all/book", type="parquet", cursor=0, backlog=10_001)
        starts = replace(output("new/book", cursor=0, backlog=0), cursor=0)
        situation = Situation(1_000.0 + second, outputs=[follows, whole, starts], newest_row=140 * second)
        assert judge.update(situation)[1] == []
