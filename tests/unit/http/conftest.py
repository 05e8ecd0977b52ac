"""Fixtures of the tests of routes: sites with and without TLS and HTTP/2, and a proxy."""

from collections.abc import Iterator

import pytest

from tests.process.certificates import Authority
from tests.process.proxy import ForwardProxy, serve_proxy
from tests.process.site import Site, serve_site
from tests.unit.http.routes import echo


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def plain() -> Iterator[Site]:
    with serve_site() as site:
        site.fallback = echo
        yield site


@pytest.fixture
def secure(authority: Authority) -> Iterator[Site]:
    with serve_site(authority.server_context()) as site:
        site.fallback = echo
        yield site


@pytest.fixture
def modern(authority: Authority) -> Iterator[Site]:
    """It speaks HTTP/2."""
    with serve_site(authority.server_context(http2=True)) as site:
        site.fallback = echo
        yield site


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with serve_proxy("us:p w") as proxy:
        yield proxy
