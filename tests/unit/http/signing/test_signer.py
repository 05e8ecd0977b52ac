"""When a process signs, and with which key."""

import stat
from pathlib import Path

import pytest
from multidict import CIMultiDict

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest, RequestTerms
from crawl_engine.http.signing.signer import RequestSigner
from crawl_engine.model.host import SignRule
from tests.unit.http.signing.keys import PEM


def test_a_key_that_others_can_read_is_refused_also_once_it_was_used(tmp_path: Path) -> None:
    file = tmp_path / "bot.pem"
    file.write_text(PEM)
    file.chmod(stat.S_IRUSR)
    signer, rule = RequestSigner(), SignRule(key=f"%{{file.{file}}}", agent="https://bot.example")
    request = OutgoingRequest("GET", "https://shop.example/", CIMultiDict(), b"", RequestTerms())
    signer.attach(request, rule, None)
    assert request.terms.sign is not None
    file.chmod(stat.S_IRUSR | stat.S_IROTH)
    with pytest.raises(FetchFailed, match="can be read by others"):
        signer.attach(request, rule, None)
    file.chmod(stat.S_IRUSR)
    signer.attach(request, rule, None)
