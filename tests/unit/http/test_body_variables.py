"""Environment variables in bodies: written as the rest of the body is encoded."""

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_engine.defs.builders.bodies import encode_body
from crawl_engine.defs.language.keys import WrittenLocator
from crawl_engine.http.request import build_request
from crawl_engine.model.job import Request

VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)


def send(monkeypatch: pytest.MonkeyPatch, written: dict[str, Any], value: str) -> bytes:
    monkeypatch.setenv("KEY", value)
    (body,), content_type = encode_body(WrittenLocator(**written))
    request = Request(method="POST", body=body, content_type=content_type)
    return build_request("http://a/", request, {}, {}, from_defs=True).body


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES)
def test_a_value_changes_no_other_field(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    form = send(monkeypatch, {"form": {"k": ("a %{env.KEY}",), "x": ("1",)}}, value)
    assert parse_qsl(form.decode(), keep_blank_values=True) == [("k", f"a {value}"), ("x", "1")]
    data = send(monkeypatch, {"json": {"k": "a %{env.KEY}", "x": [1]}}, value)
    assert json.loads(data) == {"k": f"a {value}", "x": [1]}


def test_a_body_of_the_defs_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert send(monkeypatch, {"body": '<k a="%{env.KEY}"/>'}, '&"<') == b'<k a="&"<"/>'
