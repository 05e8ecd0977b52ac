"""How tables show how a host is, what holds it, and how it answers."""

from typing import Any

import pytest

from crawl_console.words.host_spans import bad_span, count_span, latency_trend, next_span, state_span
from crawl_engine.model.host import HostState
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


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"state": "ok"}, ("● ok", "good")),
        ({"state": "silent", "silent": 40.0}, ("✗ silent 40 s", "bad")),
        ({"state": "resting", "backoff": 24.2}, ("◌ rest 24 s", "warn")),
        ({"state": "refused"}, ("⊘ refused", "bad")),
        ({"state": "ok", "paused": True}, ("‖ paused", "warn")),
        ({"state": "silent", "silent": 40.0, "paused": True}, ("‖ paused", "warn")),
        ({"state": "ok", "login": "failed"}, ("✗ no login", "bad")),
    ],
)
def test_a_host_has_its_state_as_sign_and_word(changes: dict[str, Any], shown: tuple[str, str]) -> None:
    changes = {**changes, "state": HostState(changes["state"])}
    assert state_span(host("a:80", **changes), is_live=True) == shown
    stays = ("‖ paused", "warn") if changes.get("paused") else ("○ ended", "dim")
    assert state_span(host("a:80", **changes), is_live=False) == stays


def test_the_trends_of_all_hosts_have_one_scale() -> None:
    """The slowest answers of a fast host looked as those of a slow one."""
    fast, slow = (latency_trend(host("a:80", recent_p50=values), 8) for values in ((0.002, 0.003), (1.2, None, 2.0)))
    assert max(fast) < min(slow.replace(" ", ""))
    assert slow[1] == " ", "no answer"


def test_nothing_is_a_dim_dot() -> None:
    assert [count_span(number, "bad") for number in (0, 7)] == [("·", "dim"), ("7", "bad")]
    assert bad_span(host("a:80", errors=0, blocked=0))[0] == "·"
