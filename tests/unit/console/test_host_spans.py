"""How tables show what holds a host."""

from typing import Any

import pytest

from console.tui.widgets.host_spans import next_span
from tests.console.builders import host


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"waiting": 3, "login": "wanted"}, "login"),
        ({"waiting": 3, "login": "failed"}, "no login"),
        ({"waiting": 3, "login": "wanted", "paused": True}, "‖ paused"),
        ({"waiting": 3, "login": "done", "next_in": None}, "now"),
        ({"waiting": 0, "running": 0, "login": "failed", "next_in": None}, "idle"),
    ],
)
def test_a_host_that_waits_for_its_login_says_so(changes: dict[str, Any], shown: str) -> None:
    assert next_span(host("shop.example:443", **changes), is_live=True)[0] == shown
    assert next_span(host("shop.example:443", **changes), is_live=False)[0] == "-"
