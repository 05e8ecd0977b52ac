"""Which extraction process gets a document: the oldest, the second where the first is busy for long, or none yet."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.process_pool import (
    BUSY_SECONDS,
    MAX_CHILDREN,
    QUEUED,
    QUEUED_SMALL,
    SMALL_BYTES,
    ExtractionPool,
)
from crawl_engine.node.extraction.request import ExtractionRequest
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from tests.templates import template

LARGE = SMALL_BYTES // 2
"""Bytes of a document of which a process gets two."""


def child(number: int, documents: int = 0, *, size: int = LARGE, busy: float = 0.0, code: str = "") -> Any:
    """A process with so many documents, which has worked on the first for `busy` seconds."""
    needs = [document(size=size) for _ in range(documents)]
    began_at = asyncio.get_running_loop().time() - busy
    return SimpleNamespace(number=number, is_open=True, key=code, began_at=began_at, serves=needs, kill=Mock())


def document(code: str = "", workers: int = 1, deaths: int = 0, size: int = LARGE) -> ExtractionRequest:
    return ExtractionRequest(header={}, body=Body(bytes(size)), key=code, size=workers, deaths=deaths)


def choose(children: list[Any], request: ExtractionRequest) -> Any:
    return pool_of(children).choose(request)


def pool_of(children: list[Any]) -> ExtractionPool:
    pool = ExtractionPool(template(), ExtractionLimits.from_settings(Settings()))
    pool.processes = children
    return pool


async def test_the_first_document_starts_a_process() -> None:
    assert choose([], document()) == "start"


async def test_the_oldest_process_is_preferred_as_long_as_it_is_quick() -> None:
    first, second = child(1), child(2)
    assert choose([second, first], document()) is first
    first = child(1, 1)
    assert choose([first, second], document()) is first


async def test_the_second_process_takes_what_the_first_has_no_place_for() -> None:
    full, second = child(1, QUEUED), child(2)
    assert choose([full, second], document()) is second
    assert choose([full], document()) is None
    assert choose([full, child(2, QUEUED)], document()) is None


async def test_a_process_gets_several_small_documents_at_once() -> None:
    small = SMALL_BYTES // QUEUED_SMALL
    first, second = child(1, QUEUED_SMALL - 1, size=small), child(2)
    assert choose([first, second], document(size=small)) is first
    assert choose([first, second], document(size=small + SMALL_BYTES)) is second
    assert choose([child(1, QUEUED_SMALL, size=1), second], document(size=1)) is second
    assert choose([child(1, QUEUED, size=1, code="7")], document("7", size=1)) is None, "its steps take long"


async def test_a_document_does_not_wait_behind_a_costly_one() -> None:
    late, second = child(1, 1, busy=2 * BUSY_SECONDS), child(2)
    assert choose([late, second], document()) is second
    assert choose([late], document()) == "start"


async def test_the_oldest_process_stays_once_all_are_idle() -> None:
    def retired(children: list[Any]) -> list[Any]:
        pool_of(children).dispatch()
        return [one for one in children if one.kill.called]

    first, second, plugins = child(1), child(2), child(3, code="7")
    assert not retired([child(1, 1), second]), "what comes next must not wait behind a costly document"
    assert not retired([first, child(2, 1)])
    assert retired([first, second, plugins]) == [second]


async def test_processes_that_run_plugin_code_work_side_by_side() -> None:
    first, second = child(1, 1, code="7"), child(2, code="7")
    assert choose([first, second], document("7", workers=2)) is second
    assert choose([first, second], document("7", workers=1)) is first
    assert choose([first, second], document("8")) == "start"
    assert not first.kill.called, "it works"
    assert second.kill.called, "it serves another version"


async def test_a_document_that_killed_a_process_gets_one_of_its_own() -> None:
    assert choose([child(1)], document(deaths=1)) == "start"
    busy, idle = child(1, 1), child(2)
    assert len([busy, idle]) == MAX_CHILDREN
    assert choose([busy, idle], document(deaths=1)) is None
    assert idle.kill.called, "it makes room"
    alone = child(1)
    alone.serves = [document(deaths=1)]
    assert choose([alone], document()) == "start", "nothing waits behind a suspect"
