"""What is told of browsers: why one was replaced, and the lines of those that run."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawl_console.format import describe_browsers
from crawl_engine.browser.browsers import BrowserProcess
from crawl_engine.processes.orders import Ended
from crawl_engine.runtime.beat_file import BrowserState, NodeBrowsers

KILLED = Ended(1, 9, 0)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"pages": 500}, ("had loaded 500 pages", False)),
        ({"memory": 1_300_000_000}, ("had 1,300 MB, more than browser_memory", False)),
        ({"failure": "timeout after 30 s"}, ("opened no page after one that failed: timeout after 30 s", True)),
        ({"reason": ""}, ("its process ended (signal 9)", True)),
        ({"reason": "takes longer than its limit of 50 s"}, ("takes longer than its limit of 50 s", True)),
    ],
)
def test_why_a_browser_was_replaced(state: dict[str, Any], told: tuple[str, bool]) -> None:
    defaults = {"pages": 3, "memory": 10, "failure": "", "reason": "is replaced", "ended": KILLED}
    browser = SimpleNamespace(**{**defaults, "_max_memory": 10**9, **state})
    browser.is_worn = BrowserProcess.is_worn.__get__(browser)
    assert BrowserProcess.explain_end(cast(Any, browser)) == told


def test_each_browser_has_a_line() -> None:
    busy = BrowserState(pid=4711, pages=1, loading=2, rss=812 << 20, age=95.0, urls=("http://a/1", "http://a/2"))
    idle = BrowserState(pid=4712, pages=0, loading=0, rss=0, age=0.4, urls=())
    assert describe_browsers(None) == describe_browsers(NodeBrowsers()) == []
    assert describe_browsers(NodeBrowsers(replaced=3, reason="had loaded 500 pages", processes=(busy, idle))) == [
        "browser 4711: 1 page, loads 2 now, 812MB, 1m35 old  http://a/1, http://a/2",
        "browser 4712: 0 pages, loads 0 now, -, 0.4s old",
        "3 browsers replaced, last: had loaded 500 pages",
    ]
