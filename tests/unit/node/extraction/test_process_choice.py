"""Which extraction process gets a document: the oldest, the second where the first is busy for long, or none yet."""

from types import SimpleNamespace
from typing import Any

from engine.node.extraction.process_pool import (
    BUSY_SECONDS,
    QUEUED,
    QUEUED_SMALL,
    SMALL_BYTES,
    DocumentClaim,
    choose_child,
    spare_children,
)
from engine.node.extraction.request import ExtractionRequest
from engine.store.pages.body import Body

NOW = 100.0


LARGE = SMALL_BYTES // 2
"""Bytes of a document of which a process gets two."""


def child(number: int, documents: int = 0, *, size: int = LARGE, busy: float = 0.0, code: str = "") -> Any:
    """A process with so many documents, which has worked on the first for `busy` seconds."""
    claims = [DocumentClaim(document(size=size), 2)] * documents
    return SimpleNamespace(number=number, is_open=True, alone=False, key=code, began_at=NOW - busy, claims=claims)


def document(code: str = "", workers: int = 1, deaths: int = 0, size: int = LARGE) -> ExtractionRequest:
    return ExtractionRequest(header={}, body=Body(bytes(size)), code=code, workers=workers, deaths=deaths)


def test_the_first_document_starts_a_process() -> None:
    assert choose_child([], document(), NOW) == "start"


def test_the_oldest_process_is_preferred_as_long_as_it_is_quick() -> None:
    first, second = child(1), child(2)
    assert choose_child([second, first], document(), NOW) is first
    first = child(1, 1)
    assert choose_child([first, second], document(), NOW) is first


def test_the_second_process_takes_what_the_first_has_no_place_for() -> None:
    full, second = child(1, QUEUED), child(2)
    assert choose_child([full, second], document(), NOW) is second
    assert choose_child([full], document(), NOW) is None
    assert choose_child([full, child(2, QUEUED)], document(), NOW) is None


def test_a_process_gets_several_small_documents_at_once() -> None:
    small = SMALL_BYTES // QUEUED_SMALL
    first, second = child(1, QUEUED_SMALL - 1, size=small), child(2)
    assert choose_child([first, second], document(size=small), NOW) is first
    assert choose_child([first, second], document(size=small + SMALL_BYTES), NOW) is second
    assert choose_child([child(1, QUEUED_SMALL, size=1), second], document(size=1), NOW) is second
    assert choose_child([child(1, QUEUED, size=1, code="7")], document("7", size=1), NOW) is None, "its steps take long"


def test_a_document_does_not_wait_behind_a_costly_one() -> None:
    late, second = child(1, 1, busy=2 * BUSY_SECONDS), child(2)
    assert choose_child([late, second], document(), NOW) is second
    assert choose_child([late], document(), NOW) == "start"


def test_the_oldest_process_stays_once_all_are_idle() -> None:
    first, second, plugins = child(1), child(2), child(3, code="7")
    assert spare_children([first, second, plugins]) == [second]
    assert not spare_children([child(1, 1), second]), "what comes next must not wait behind a costly document"
    assert not spare_children([first, child(2, 1)])


def test_processes_that_run_plugin_code_work_side_by_side() -> None:
    first, second = child(1, 1, code="7"), child(2, code="7")
    assert choose_child([first, second], document("7", workers=2), NOW) is second
    assert choose_child([first, second], document("7", workers=1), NOW) is first
    assert choose_child([first, second], document("8"), NOW) == "start"


def test_a_document_that_killed_a_process_gets_one_of_its_own() -> None:
    assert choose_child([child(1)], document(deaths=1), NOW) == "start"
