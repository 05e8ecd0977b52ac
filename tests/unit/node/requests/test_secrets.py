"""The secrets of a node: read from its lifeline, put into requests, awaited when they are late."""

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from engine.defs.sealing import seal_definitions
from engine.fetch.errors import FetchFailed
from engine.model.definition import Definitions, HostRule
from engine.model.job import JobKind, Request
from engine.model.secret import SecretVault
from engine.node.requests import secrets as secrets_module
from engine.node.requests.secrets import HostCredentials, SecretPending, SecretValues
from engine.runtime.lifeline_reader import LifelineReader
from tests.unit.node.leased_jobs import leased


@contextmanager
def lifeline(sent: bytes) -> Iterator[LifelineReader]:
    """The reader of a pipe that holds these bytes and has ended."""
    reader, writer = os.pipe()
    os.write(writer, sent)
    os.close(writer)
    yield LifelineReader(reader)
    os.close(reader)


def test_the_lifeline_gives_settings_then_secrets_then_its_end() -> None:
    received: list[Mapping[str, str]] = []
    with lifeline(b'{"nodes":2}\n{"secrets":{"a":"1"}}\n{"complete":true}\n{"secrets":{"b":"2"}}\n{"secr') as reader:
        assert reader.read_line() == '{"nodes":2}'
        reader.watch(received.append, lambda: received.append({}))
    assert received == [{"a": "1"}, {}, {"b": "2"}]


@pytest.mark.parametrize("sent", [b"", b'{"nodes'])
def test_settings_that_are_cut_short_are_none(sent: bytes) -> None:
    with lifeline(sent) as reader:
        assert reader.read_line() is None


def test_secrets_behind_the_settings_stay_in_the_pipe() -> None:
    """The extraction template is forked between the two: what a buffer held would be in its memory."""
    reader, writer = os.pipe()
    os.write(writer, b'{"nodes":2}\n{"secrets":{"a":"canary"}}\n')
    assert LifelineReader(reader).read_line() == '{"nodes":2}'
    assert os.read(reader, 1000) == b'{"secrets":{"a":"canary"}}\n'
    os.close(reader)
    os.close(writer)


def test_an_unreadable_message_is_reported_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Mapping[str, str]] = []
    sent = b'canary\n[]\n{"canary":1}\n{"secrets":{"a":"1"}}\n'
    with caplog.at_level(logging.ERROR), lifeline(sent) as reader:
        reader.watch(received.append, lambda: None)
    assert received == [{"a": "1"}]
    assert len(caplog.records) == 3
    assert "canary" not in caplog.text


def test_the_end_of_the_pipe_ends_the_watch_at_once() -> None:
    reader, writer = os.pipe()
    thread = threading.Thread(target=LifelineReader(reader).watch, args=(lambda _: None, lambda: None))
    thread.start()
    os.close(writer)
    thread.join(1)
    assert not thread.is_alive()
    os.close(reader)


def test_a_request_is_opened_whole() -> None:
    vault, values = SecretVault(b"salt"), SecretValues()
    sealed = Request(
        headers=(("A", vault.seal("one")), ("B", "plain")),
        cookies=(("c", vault.seal("two")),),
        userinfo=vault.seal_userinfo("user:pw"),
    )
    values.add(dict(vault.values_from(0)))
    opened = asyncio.run(values.open_request(sealed))
    assert opened == Request(headers=(("A", "one"), ("B", "plain")), cookies=(("c", "two"),), userinfo="user:pw")
    assert "one" not in repr(values)


RULE = HostRule(name="shop.example", headers={"X-Key": "canary", "Accept": "a"}, cookies={"c": "1"})


class OneRule:
    """The part of a `DefCache` that credentials need: one rule for every host."""

    def __init__(self, rule: HostRule) -> None:
        self.rule = rule

    def host_rule(self, version: int, host_key: str) -> HostRule:
        return self.rule

    def plain_hosts(self, version: int) -> frozenset[str]:
        return frozenset()


@pytest.mark.parametrize(
    ("kind", "start_url", "url", "sent"),
    [
        (JobKind.PAGE, "https://shop.example/", "https://shop.example/a", True),
        (JobKind.PAGE, "https://shop.example/", "http://shop.example/a", False),
        (JobKind.PAGE, "http://shop.example/", "http://shop.example/a", True),
        (JobKind.ROBOTS, "https://shop.example/", "https://shop.example/robots.txt", False),
        (JobKind.SITEMAP, "https://shop.example/", "https://shop.example/sitemap.xml", False),
    ],
)
def test_the_credentials_of_a_host_go_to_its_pages_alone(kind: JobKind, start_url: str, url: str, sent: bool) -> None:
    vault, values = SecretVault(b"salt"), SecretValues()
    sealed = seal_definitions(Definitions(hosts=(RULE,)), vault).hosts[0]
    credentials = HostCredentials(OneRule(sealed), values)  # type: ignore[arg-type]
    values.add(dict(vault.values_from(0)))
    job = leased(2)._replace(kind=kind, locator_url=start_url, root=1)
    for _ in range(2):
        part = asyncio.run(credentials.find(job, url))
        assert dict(part.headers) == (dict(RULE.headers) if sent else {"Accept": "a"})
        assert dict(part.cookies) == ({"c": "1"} if sent else {})


def test_a_late_secret_is_awaited() -> None:
    vault, values = SecretVault(b"salt"), SecretValues()
    sealed = vault.seal("one")

    async def open_late() -> str:
        asyncio.get_running_loop().call_later(0.05, values.add, dict(vault.values_from(0)))
        return await values.open(sealed)

    assert asyncio.run(open_late()) == "one"


def test_a_missing_secret_fails_the_request_and_only_the_first_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_module, "_WAIT_SECONDS", 0.1)
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    vault, values = SecretVault(b"salt"), SecretValues()
    sealed = vault.seal("one")
    values.mark_complete()
    for _ in range(2):
        with pytest.raises(FetchFailed) as failed:
            asyncio.run(values.open(sealed))
        assert not failed.value.retryable
        assert "no longer in the defs" in str(failed.value)
    assert len(sleeps) == 5
    values.add(dict(vault.values_from(0)))
    assert asyncio.run(values.open(sealed)) == "one"


def test_a_secret_that_may_still_come_keeps_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_module, "_PENDING_WAIT_SECONDS", 0.05)
    vault, values = SecretVault(b"salt"), SecretValues()
    sealed = vault.seal("one")
    with pytest.raises(SecretPending):
        asyncio.run(values.open(sealed))
    values.mark_complete()
    with pytest.raises(FetchFailed):
        asyncio.run(values.open(sealed))
