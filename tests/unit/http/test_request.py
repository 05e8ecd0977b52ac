"""Headers that only the client may set are never sent as the defs or an old database say."""

import pytest

from crawl_engine.http.request import build_request
from crawl_engine.model.host import FIXED_HEADERS
from crawl_engine.model.job import Request


@pytest.mark.parametrize("name", sorted(FIXED_HEADERS))
def test_a_fixed_header_is_dropped(name: str) -> None:
    request = Request(headers=((name.title(), "x"), ("X-Plain", "1")))
    built = build_request("http://a/", request, {name: "y"}, {}, from_defs=True)
    assert name not in built.headers
    assert built.headers["X-Plain"] == "1"
