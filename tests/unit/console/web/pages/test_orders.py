"""Orders by forms: each counts once, and its page says what came of it."""

import asyncio
import html
import re
import time
import warnings
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

pytest.importorskip("prometheus_client", reason="the extra serve is missing")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette prefers another client than the one that is installed

from crawl_console.web import control
from crawl_console.web.pages import forms
from tests.unit.console.web.pages.served import TOKEN, Served, situation


def test_what_cannot_be_undone_is_asked_in_the_words_of_the_console() -> None:
    served = Served(situation(), control=True)
    kill = served.words("/ask/kill?node=n1")
    assert "Kill 1 node" in kill
    assert "8 jobs in flight are lost; other nodes run them again." in kill
    assert "No, go back" in kill
    assert "16 jobs in flight may finish within the grace time." in served.words("/ask/cancel")
    assert "1 job that match state:failed become READY again" in served.words("/ask/retry")
    for name in ("cancel", "kill", "retry"):
        answer = served.client.post(f"/orders/{name}", data={})
        assert (answer.status_code, answer.url.path) == (200, f"/ask/{name}")
        assert 'name="sure" value="yes"' in answer.text, "asked, and not done"
    assert served.client.post("/orders/nothing", data={}).status_code == 400
    assert served.client.get("/orders/kill").status_code == 405


async def give_twice(served: Served, path: str, fields: dict[str, str]) -> list[Any]:
    """Two browsers post the same form at once."""
    transport = httpx.ASGITransport(served.client.app)  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        return await asyncio.gather(*(client.post(path, data=fields) for _ in range(2)))


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Orders that were carried out."""
    given: list[Any] = []

    def carry_out(name: str, _watch: Any, arguments: dict[str, Any], by: str) -> tuple[int, dict[str, Any]]:
        time.sleep(0.05)  # long enough for another one to come meanwhile
        given.append((name, arguments))
        if name == "drain":
            return 409, {"ok": False, "text": "n1 is the last runner"}
        return 200, {"ok": True, "text": f"done for the {len(given)}. time"}

    names = ("pause", "resume", "kill", "scale", "drain")
    monkeypatch.setattr(forms, "ORDERS", {name: partial(carry_out, name) for name in names})
    monkeypatch.setattr(control, "open_latest_run", lambda _: nullcontext((None, SimpleNamespace(id="3f2a"))))
    return given


def fields_of(text: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that gives an order."""
    form = re.findall(rf'<form method="post"[^>]* action="/orders/{action}\?.*?</form>', text, re.DOTALL)[0]
    return {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}


def test_an_order_leads_back_to_its_page_which_says_what_came_of_it(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    fields = fields_of(served.get("/crawl/hosts?filter=img") + served.get("/crawl?x=1"), "pause")
    answer = served.client.post("/orders/pause?data=shop", data=fields)
    assert [one.status_code for one in answer.history] == [303]
    assert (answer.status_code, answer.url.path, answer.url.params["x"]) == (200, "/crawl", "1")
    assert re.search(r"✓ pause: done for the 1\. time .*web testclient, \d\d:\d\d:\d\d", answer.text)
    again = served.client.get(answer.url)
    assert "done for the 1. time" in again.text, "F5 asks for the page, and gives no order"
    assert orders == [("pause", {})]
    undo = fields_of(answer.text, "resume")
    for _ in range(2):
        taken_back = served.client.post("/orders/resume?data=shop", data=undo)
    assert orders == [("pause", {}), ("resume", {})], "two browsers take it back once"
    assert "done for the 2. time" in taken_back.text
    said = served.client.get(answer.url).text.partition('id="said-order"')[2].partition("</div>")[0]
    assert "done for the 1. time" in said
    assert "<form" not in said


async def test_a_form_that_is_sent_twice_at_once_counts_once(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    fields = fields_of(served.get("/crawl"), "scale") | {"count": "3"}
    answers = await give_twice(served, "/orders/scale?data=shop", fields)
    assert [one.status_code for one in answers] == [303, 303]
    assert orders == [("scale", {"count": 3})]
    assert len({one.headers["location"] for one in answers}) == 1
    await give_twice(served, "/orders/scale?data=shop", fields | {"count": "4"})
    assert orders[1:] == [("scale", {"count": 4})], "another order of the same page is another order"


def test_an_order_about_an_earlier_run_is_refused(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    fields = fields_of(served.get("/ask/kill"), "kill")
    assert fields["run"] == "3f2a"
    told = served.client.post("/orders/kill?data=shop", data={**fields, "run": "0000", "key": "x"}).text
    assert "nothing was done: the server was started again since" in told
    key = fields_of(served.get("/ask/kill"), "kill")["key"]
    told = served.client.post("/orders/kill?data=shop", data={**fields, "run": "0000", "key": key}).text
    assert "✗ kill: nothing was done: the order was about run 0000. Now it is run 3f2a." in html.unescape(told)
    assert orders == []


def test_fields_of_any_name_lead_back(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    asked = served.client.post("/orders/kill?data=shop", data={"path": "x", "self": "y"})
    assert (asked.status_code, asked.url.path) == (200, "/ask/kill")
    told = served.client.post("/orders/pause?data=shop", data={"back": "/crawl?path=x&data=shop"})
    assert (told.status_code, told.url.params["path"], len(orders)) == (200, "x", 1)


def test_an_order_that_is_refused_is_told_where_it_was_given(orders: list[Any]) -> None:
    served = Served(situation(), control=True)
    answer = served.client.post("/orders/drain?data=shop", data=fields_of(served.get("/crawl"), "drain"))
    assert (answer.status_code, answer.url.path) == (200, "/crawl")
    assert '<div id="said-order" class="given bad" role="alert">' in answer.text
    assert "✗ drain: n1 is the last runner" in answer.text


def test_the_way_back_stays_on_this_server() -> None:
    served = Served(situation(), control=True)
    for path in ("http://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"):
        assert "evil" not in served.get(f"/ask/kill?back={path}")
        assert "javascript:" not in served.get(f"/ask/kill?back={path}")
