"""Events of outcomes: few for many rejected records, of a fetched page as of a stored one."""

from engine.model.record import Rejection
from engine.node.extraction.result import PageExtraction
from engine.node.outcomes import describe_rejections


def extraction(rejected: int) -> PageExtraction:
    shown = tuple(
        Rejection(data_def="d", field="f", reason=f"no {n}", place="x.yml:1:2") for n in range(min(rejected, 5))
    )
    return PageExtraction((), (), shown, (("d", rejected),), 0)


def test_five_rejections_are_described_and_the_rest_counted() -> None:
    assert describe_rejections(extraction(0), "http://a/") == []
    assert describe_rejections(extraction(1), "http://a/") == ["d.f: no 0 x.yml:1:2 on http://a/"]
    assert len(describe_rejections(extraction(5), "http://a/")) == 5
    assert describe_rejections(extraction(9), "http://a/")[5:] == ["4 more records rejected on http://a/"]
