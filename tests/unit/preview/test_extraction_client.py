"""What a dataDef gives on a page outside of a run: the same if it takes longer than its caller can wait."""

import pytest

from engine.extract.page.context import Context
from engine.model.definition import DataDef, Definitions, Field
from engine.model.link import Link
from engine.preview import extraction_client
from engine.preview.extraction_client import ExtractionClient, TrialDocument
from engine.settings import Settings

PAGE = TrialDocument(
    body=b"<h1>a</h1><a href=/x>x</a>", content_type="text/html", url="http://h/", fetched_at=0.0, origin="file"
)
DATA_DEF = DataDef(name="d", fields=(Field(name="h", selector="h1"),), links=(Link(selector="a"),))
CONTEXT = Context(group="g", locator="l", locator_url="http://h/", depth=0, run="r", run_time="")


@pytest.mark.parametrize(("patience", "processes"), [(10.0, 0), (-1.0, 1)])
def test_a_page_that_takes_long_is_extracted_within_the_limits_of_a_process(
    monkeypatch: pytest.MonkeyPatch, patience: float, processes: int
) -> None:
    monkeypatch.setattr(extraction_client, "INLINE_SECONDS", patience)
    with ExtractionClient(Settings()) as client:
        kind, page = client.extract(PAGE, Definitions(data_defs=(DATA_DEF,)), DATA_DEF, CONTEXT)
        assert len(client._pool.pids if client._pool else []) == processes
    assert (kind, page.rows) == ("html", ((0, ('{"h":"a"}',)),))
    assert [link.url for link in page.links] == ["http://h/x"]
