"""Basic, bearer and digest authentication against servers that check them."""

import hashlib
import re
import time
from base64 import b64encode

import pytest

from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.host import HostAuth, HostRoute, TlsRule
from crawl_engine.model.job import Request
from tests.process.proxy import ForwardProxy
from tests.process.site import Page, Site
from tests.process.site import Request as Received
from tests.unit.http.routes import failure, run, send, through

pytestmark = pytest.mark.timeout(60)

USER, PASSWORD = "us er", 'ca"n:ary'


class DigestSite:
    """Checks answers as RFC 7616 says: the digest, the URI on the wire, and that each count is a new one."""

    def __init__(self, site: Site, *, algorithm: str = "SHA-256", qop: str | None = "auth") -> None:
        self.nonce = "n0"
        self.algorithm = algorithm
        self.qop = qop
        self.counts: list[str] = []
        self.challenges = 0
        site.fallback = self.respond

    def respond(self, request: Received) -> Page:
        fields = dict(re.findall(r'(\w+)="?([^",]*)"?', request.headers.get("authorization", "")))
        if fields.get("nonce") != self.nonce or fields["response"] != self.expected(request, fields):
            self.challenges += 1
            parts = [f'Digest realm="re alm", nonce="{self.nonce}", algorithm={self.algorithm}, opaque="o"']
            parts += [f'qop="{self.qop}"'] if self.qop else []
            return Page("who?", 401, {"WWW-Authenticate": ", ".join(parts)})
        self.counts.append(fields.get("nc", ""))
        return Page(f"hello {request.path}")

    def expected(self, request: Received, fields: dict[str, str]) -> str:
        name = self.algorithm.lower().removesuffix("-sess").replace("-", "")

        def digest(text: str) -> str:
            return hashlib.new(name, text.encode()).hexdigest()

        assert fields["uri"] == request.path
        first = digest(f"{USER}:re alm:{PASSWORD}")
        if self.algorithm.endswith("-sess"):
            first = digest(f"{first}:{self.nonce}:{fields['cnonce']}")
        second = digest(f"{request.method}:{request.path}")
        if self.qop is None:
            return digest(f"{first}:{self.nonce}:{second}")
        return digest(f"{first}:{self.nonce}:{fields['nc']}:{fields['cnonce']}:auth:{second}")


def digest_auth() -> HostAuth:
    return HostAuth("digest", f"{USER}:{PASSWORD}")


async def fetch(fetcher: Fetcher, url: str, auth: HostAuth, **options: object) -> FetchResponse:
    """Send a request, and answer its challenge, as the callers of a fetcher do."""
    response = await fetcher.send(url, Request(), auth=auth, exempt=True, **options)  # type: ignore[arg-type]
    if response.challenge_answer is None:
        return response
    answer = response.challenge_answer
    return await fetcher.send(url, Request(), auth=auth, authorization=answer, exempt=True, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (HostAuth("basic", f"{USER}:{PASSWORD}"), f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"),
        (HostAuth("basic", "us:%{env.A_PASSWORD}"), f"Basic {b64encode(b'us:from env').decode()}"),
        (HostAuth("basic", "%{env.A_PAIR}"), f"Basic {b64encode(b'a:b:c').decode()}"),
        (HostAuth("bearer", "%{env.A_PASSWORD}"), "Bearer from env"),
        (HostAuth("bearer", "t.o-k"), "Bearer t.o-k"),
    ],
)
def test_basic_and_bearer_are_a_header(
    plain: Site, monkeypatch: pytest.MonkeyPatch, auth: HostAuth, expected: str
) -> None:
    monkeypatch.setenv("A_PASSWORD", "from env")
    monkeypatch.setenv("A_PAIR", "a:b:c")
    send(plain.url("/"), None, auth=auth)
    assert plain.exchanges[0].request.headers["authorization"] == expected


@pytest.mark.parametrize("kind", ["basic", "digest"])
@pytest.mark.parametrize("value", ["canary", "us:can\r\nX: ary", "us:can\x00ary"])
def test_a_variable_that_is_no_credential_fails_without_being_quoted(
    plain: Site, monkeypatch: pytest.MonkeyPatch, kind: str, value: str
) -> None:
    if "\0" in value:
        value = value.replace("\0", "\x1f")  # an environment holds no NUL
    monkeypatch.setenv("A_PAIR", value)
    plain.fallback = lambda request: Page("?", 401, {"WWW-Authenticate": 'Digest realm="r", nonce="n"'})
    failed = failure(plain.url("/"), None, auth=HostAuth(kind, "%{env.A_PAIR}"))  # type: ignore[arg-type]
    assert (failed.kind, failed.retryable) == ("header", False)
    assert "ary" not in failed.reason


def test_a_token_with_a_line_break_is_not_sent(plain: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "can\r\nX-Evil: ary")
    assert failure(plain.url("/"), None, auth=HostAuth("bearer", "%{env.A_TOKEN}")).kind == "header"
    assert plain.exchanges == []


def test_an_authorization_of_the_request_overrides_that_of_the_host(plain: Site) -> None:
    own = Request(headers=(("authorization", "Token 1"),))
    for kind in ("basic", "digest"):
        send(plain.url("/"), None, own, auth=HostAuth(kind, "u:p"))  # type: ignore[arg-type]
    send(plain.url("/").replace("http://", "http://me:pw@"), None, auth=HostAuth("bearer", "x"))
    assert [exchange.request.headers["authorization"] for exchange in plain.exchanges] == [
        "Token 1", "Token 1", f"Basic {b64encode(b'me:pw').decode()}"
    ]  # fmt: skip


@pytest.mark.parametrize("algorithm", ["MD5", "MD5-sess", "SHA-256", "SHA-256-sess", "SHA-512"])
@pytest.mark.parametrize("qop", ["auth", None, "auth-int, auth"])
def test_a_challenge_is_answered_once_and_serves_further_pages(plain: Site, algorithm: str, qop: str | None) -> None:
    if qop is None and algorithm.endswith("-sess"):
        pytest.skip("RFC 7616 has no such challenge")
    server = DigestSite(plain, algorithm=algorithm, qop=qop)

    async def work(fetcher: Fetcher) -> None:
        for number in range(3):
            response = await fetch(fetcher, plain.url(f"/a%2fb?n={number}&x=ü"), digest_auth())
            assert (response.status, response.body[:5]) == (200, b"hello")
        server.nonce = "n1"
        assert (await fetch(fetcher, plain.url("/later"), digest_auth())).status == 200

    run(work)
    assert len(plain.exchanges) == 4 + 2, "one challenge for each nonce"
    if qop is not None:
        assert server.counts == ["00000001", "00000002", "00000003", "00000001"]


def test_a_wrong_password_is_refused_after_one_answer(plain: Site) -> None:
    DigestSite(plain)

    async def work(fetcher: Fetcher) -> None:
        response = await fetch(fetcher, plain.url("/"), HostAuth("digest", "us er:wrong"))
        assert (response.status, response.challenge_answer) == (401, None)

    run(work)
    assert len(plain.exchanges) == 2


def test_a_challenge_of_one_host_is_no_matter_of_another(plain: Site, secure: Site) -> None:
    DigestSite(plain)
    route = HostRoute(tls=TlsRule(verify=False))

    async def work(fetcher: Fetcher) -> None:
        await fetch(fetcher, plain.url("/"), digest_auth())
        await fetch(fetcher, secure.url("/"), digest_auth(), route=route)

    run(work)
    assert "authorization" not in secure.exchanges[0].request.headers


def test_digest_works_over_a_tunnel_and_the_proxy_sees_no_answer(secure: Site, proxy: ForwardProxy) -> None:
    DigestSite(secure)

    async def work(fetcher: Fetcher) -> None:
        route = through(proxy, tls=TlsRule(verify=False))
        assert (await fetch(fetcher, secure.url("/"), digest_auth(), route=route)).status == 200

    run(work)
    assert "digest" not in "".join(proxy.heads).lower()


@pytest.mark.parametrize(
    "challenge",
    ["Digest", "Digest x", 'Digest realm="r"', 'Digest realm="r", nonce="n", algorithm=CANARY',
     'Digest realm="r", nonce="n", qop="auth-int"', 'Digest realm="r", nonce="n", qop="x"', "Digest " + "=," * 9_000,
     'Digest realm="r", nonce="' + "n" * 60_000],
)  # fmt: skip
def test_an_odd_challenge_fails_or_is_answered_but_breaks_nothing(plain: Site, challenge: str) -> None:
    plain.fallback = lambda request: Page("?", 401, {"WWW-Authenticate": challenge})
    started = time.monotonic()
    try:
        assert send(plain.url("/"), None, auth=digest_auth()).status == 401
    except FetchFailed as failed:
        assert (failed.kind, failed.retryable) == ("protocol", False)
        assert "CANARY" not in failed.reason
    assert time.monotonic() - started < 5


def test_the_first_challenge_that_can_be_answered_is(plain: Site) -> None:
    plain.fallback = lambda request: Page(
        "?", 401, {"WWW-Authenticate": "Basic realm=r", "WWW-authenticate": 'Digest realm="r", nonce="n", algorithm=X',
                   "www-authenticate": 'Digest realm="r", nonce="n", algorithm=MD5'}
    )  # fmt: skip
    answer = send(plain.url("/"), None, auth=digest_auth()).challenge_answer
    assert answer is not None
    assert "algorithm=MD5" in answer


@pytest.mark.parametrize("nonce", ["n\x01x", "n" * 60_000])
def test_a_challenge_whose_answer_could_not_be_sent_is_not_kept(plain: Site, nonce: str) -> None:
    def answer(_: Received) -> Page:
        return Page("?", 401, {"WWW-Authenticate": f'Digest realm="r", nonce="{nonce}", qop="auth"'})

    async def work(fetcher: Fetcher) -> None:
        plain.fallback = answer
        with pytest.raises(FetchFailed, match="cannot be answered"):
            await fetcher.send(plain.url("/"), Request(), exempt=True, auth=digest_auth())
        plain.fallback = lambda request: Page("ok")
        assert (await fetcher.send(plain.url("/"), Request(), exempt=True, auth=digest_auth())).status == 200

    run(work)


def test_a_digest_challenge_is_read_among_others_in_one_header(plain: Site) -> None:
    several = 'Negotiate, Basic realm="a, b", Digest realm="r, Digest x", nonce="n", qop="auth", Bearer'
    plain.fallback = lambda request: Page("?", 401, {"WWW-Authenticate": several})
    answer = send(plain.url("/"), None, auth=digest_auth()).challenge_answer
    assert answer is not None
    assert 'realm="r, Digest x"' in answer


def test_the_body_of_a_challenge_is_read_within_a_limit(plain: Site) -> None:
    plain.fallback = lambda request: Page(
        b"x" * 900_000, 401, {"WWW-Authenticate": 'Digest realm="r", nonce="n"', "Content-Encoding": "gzip"}
    )
    response = send(plain.url("/"), None, auth=digest_auth())
    assert response.challenge_answer is not None
    assert response.body == b""
    assert response.challenge_answer not in repr(response)
