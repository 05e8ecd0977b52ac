"""The links of a document are kept for each context, and read as they were."""

import pytest

from engine.model.job import link_key
from engine.model.record import ExtractedLink
from engine.store.pages import document_links
from engine.store.pages.body import new_compressor
from tests.contract.store.harness import StoreHarness


def link(path: str, group: str = "g", **more: int | bool | None) -> ExtractedLink:
    url = f"http://a/{path}"
    return ExtractedLink(
        url, group, int(more.get("priority") or 0), more.get("max_depth"), link_key(group, url), bool(more.get("leave"))
    )


COMPRESSOR = new_compressor()
LINKS = [
    link("1"),
    link("2"),
    link("2", "h", priority=-5),
    link("é?a=b,c", max_depth=3),
    link("1"),
    link("x", leave=True),
]


@pytest.mark.parametrize("links", [LINKS, LINKS[:1], []])
def test_links_are_read_as_they_were(store: StoreHarness, links: list[ExtractedLink]) -> None:
    with store.db.transaction():
        document_links.add(store.db, [(7, b"c", document_links.encode(links, COMPRESSOR))])
    kept = document_links.get(store.db, 7, b"c")
    assert kept == links
    assert [(one.key, one.may_leave_host) for one in kept or ()] == [(one.key, one.may_leave_host) for one in links]
    assert document_links.get(store.db, 7, b"d") is None
    assert document_links.get(store.db, 8, b"c") is None


def test_the_newest_links_of_a_context_count(store: StoreHarness) -> None:
    with store.db.transaction():
        for links in (LINKS, LINKS[1:]):
            document_links.add(store.db, [(7, b"c", document_links.encode(links, COMPRESSOR)), (7, b"d", b"")])
    assert document_links.get(store.db, 7, b"c") == LINKS[1:]
    assert document_links.get(store.db, 7, b"d") == []
