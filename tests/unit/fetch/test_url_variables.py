"""`%{env.NAME}` in URLs: what a redirect repeats of the values is put back to the variables."""

import time

import pytest

from engine.fetch.request import expand_url_env, restore_url_env

URL = "http://h.example/data?key=%{env.APIKEY}&q=%{env.PAGE}"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APIKEY", "se cret/+:7")
    monkeypatch.setenv("PAGE", "12")
    monkeypatch.delenv("OTHER", raising=False)


@pytest.mark.parametrize(
    "written",
    [
        "se%20cret%2F%2B%3A7",
        "se+cret%2F%2B%3A7",
        "se%20cret/%2B:7",
        "se%20cret%2f%2b%3a7",
        "%73e+cret/+:%37",
        "se%2520cret%252F%252b%253A7",
    ],
    ids=["quoted", "as a form", "as a browser", "in lower case", "mixed", "twice"],
)
def test_a_value_in_a_redirect_becomes_its_variable(written: str) -> None:
    target = restore_url_env(URL, f"http://h.example/data/?key={written}&q=12")
    assert target == "http://h.example/data/?key=%{env.APIKEY}&q=12"
    assert expand_url_env(target) == "http://h.example/data/?key=se%20cret%2F%2B%3A7&q=12"


def test_a_value_in_a_path_becomes_its_variable() -> None:
    target = restore_url_env("http://h.example/%%7Benv.APIKEY%7D", "http://h.example/en/se%20cret%2F%2B%3A7/")
    assert "cret" not in target
    assert expand_url_env(target) == "http://h.example/en/se%20cret%2F%2B%3A7/"


def test_the_longest_of_several_values_is_put_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "abcd")
    monkeypatch.setenv("B", "abcdefgh")
    monkeypatch.setenv("C", "env.A")
    target = restore_url_env("http://h.example/%{env.A}/%{env.B}?%{env.C}", "http://h.example/x?abcdefgh&abcd&env.A")
    assert target == "http://h.example/x?%{env.B}&%{env.A}&%{env.C}"


def test_a_long_value_in_a_long_url_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APIKEY", "a" * 4_000)
    began = time.process_time()
    target = restore_url_env(URL, f"http://h.example/{'a%61' * 10_000}?{'%2561' * 4_000}")
    assert time.process_time() - began < 1
    assert len(target) < 200, target


def test_the_host_and_other_targets_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APIKEY", "h.example")
    assert restore_url_env(URL, "http://h.example/login") == "http://h.example/login"
    assert restore_url_env("http://h.example/%{env.OTHER}", "http://h.example/x") == "http://h.example/x"
