"""The job screen shows the values of harmless headers alone."""

import pytest

from crawl_console.format import mask_header


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("Accept-Language", "de", "de"),
        ("X-Session", "abc", "·····"),
        ("Authorization", "Basic x", "·····"),
    ],
)
def test_only_safe_headers_are_shown(name: str, value: str, shown: str) -> None:
    assert mask_header(name, value) == shown
