"""aiohttp is imported without certificates, and https requests are checked against those of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.http.aiohttp_import import environment
from tests.process.certificates import Authority
from tests.process.site import Site

IMPORT = """
import os
from engine.http.aiohttp_import import import_aiohttp, load_certificates
import_aiohttp()
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as context
print(context.cert_store_stats()["x509"], os.environ["SSL_CERT_FILE"])
load_certificates()
print(context.cert_store_stats()["x509"])
"""
FETCH = """
import asyncio, socket, sys
from engine.http.aiohttp_import import import_aiohttp
import_aiohttp()
from engine.http.client import Fetcher
from engine.http.errors import FetchFailed
from engine.model.job import Request

async def fetch():
    fetcher = Fetcher(user_agent="test", deadline=10, max_body=10_000, connections=2)
    try:
        return (await fetcher.send(sys.argv[1], Request(), exempt=True)).status
    except FetchFailed as failed:
        return failed.kind
    finally:
        await fetcher.aclose()

print(asyncio.run(fetch()))
"""


def run(code: str, *arguments: str, certificates: Path | str) -> list[str]:
    variables = {**os.environ, "SSL_CERT_FILE": str(certificates), "SSL_CERT_DIR": os.devnull}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.split()


def test_it_loads_no_certificates_until_plugin_code_may_need_them(authority: Authority) -> None:
    assert run(IMPORT, certificates=authority.path) == ["0", str(authority.path), "1"]


def test_requests_trust_the_certificates_of_the_machine_alone(authority: Authority, secure: Site) -> None:
    assert run(FETCH, secure.url("/"), certificates=authority.path) == ["200"]
    assert run(FETCH, secure.url("/"), certificates=os.devnull) == ["tls"]


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_VARIABLE", "before")
    monkeypatch.delenv("ANOTHER", raising=False)
    with pytest.raises(ImportError), environment(A_VARIABLE="within", ANOTHER="within"):
        assert os.environ["A_VARIABLE"] == os.environ["ANOTHER"] == "within"
        raise ImportError
    assert os.environ["A_VARIABLE"] == "before" and "ANOTHER" not in os.environ
