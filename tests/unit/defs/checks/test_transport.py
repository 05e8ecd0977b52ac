"""The keys `auth`, `proxy`, `tls` and `http2` of hosts: problems with their places, what is built, what is sealed."""

from pathlib import Path

import pytest
import trustme

from crawl_engine.defs.loader import load
from crawl_engine.model.host import HostAuth, HostRoute, HostRule, TlsRule
from tests.process.certificates import Authority
from tests.unit.defs.language.test_strictness import GOOD, load_problems, marked, write_defs

CASES = [
    ("bad-proxy", "proxy: §socks4://p:1"),
    ("bad-proxy", "proxy: §socks://p:1"),
    ("bad-proxy", "proxy: [socks5://p:1, §socks5h://p/path]"),
    ("bad-proxy", "proxy: §socks5://"),
    ("bad-proxy", "proxy: §p:3128"),
    ("bad-proxy", "proxy: [http://p, §ftp://p]"),
    ("bad-proxy", "proxy: §http://p/path"),
    ("bad-proxy", "proxy: §'http://p?q'"),
    ("bad-header", 'proxy: §"http://p\\r\\nX: y"'),
    ("bad-proxy", "§proxy: []"),
    ("unknown-variable", "proxy: §'http://%{locator.name}'"),
    ("wrong-type", "http2: §2"),
    ("missing-key", "§auth: {}"),
    ("bad-auth", "auth: {basic: §user}"),
    ("bad-auth", "auth: {digest: §'a\"b:c'}"),
    ("bad-header", 'auth: {bearer: §"a\\nb"}'),
    ("empty-text", "auth: {bearer: §''}"),
    ("unknown-key", "auth: {§ntlm: 'a:b'}"),
    ("conflict", "auth: {basic: 'a:b', §bearer: c}"),
    ("conflict", "auth: {basic: 'a:b'}, headers: {§authorization: c}"),
    ("missing-key", "tls: §{}"),
    ("conflict", "tls: {verify: false, §ca: /dev/null}"),
    ("bad-certificate", "tls: {ca: §missing.pem}"),
    ("bad-certificate", "tls: {client: §/dev/null}"),
    ("bad-certificate", "tls: {ca: §/dev/zero}"),
    ("bad-certificate", "tls: {ca: §.}"),
    ("conflict", "delay: {§min: 3, max: 1}"),
    ("missing-key", "§delay: {max: 3}"),
    ("out-of-range", "delay: {min: §-1}"),
    ("out-of-range", "delay: §-1"),
    ("wrong-type", "delay: §[1, 3]"),
    ("unknown-key", "delay: {min: 1, §most: 3}"),
    ("bad-hours", 'hours: §"25:00"'),
    ("bad-hours", 'hours: §"22:00-24:00"'),
    ("bad-hours", "hours: §22:00-22:00"),
    ("out-of-range", "retry: {statuses: §99}"),
    ("out-of-range", "retry: {attempts: §0}"),
    ("unknown-middleware", "middleware: §sign.Sing"),
    ("unknown-middleware", "middleware: [sign.Sign, §sing.Sign]"),
    ("bad-middleware", "middleware: [§sign.Bare]"),
    ("bad-middleware", "middleware: [§sign.Short]"),
    ("bad-middleware", "middleware: [§sign.Optioned]"),
]
PLUGIN = """\
class Sign:
    async def handle(self, request, send): ...
class Bare: ...
class Short:
    async def handle(self, request): ...
class Optioned:
    def __init__(self, key): ...
    async def handle(self, request, send): ...
"""


def with_host(keys: str) -> str:
    return GOOD.replace("delay: 0.5", keys, 1)


@pytest.mark.parametrize(("code", "keys"), CASES)
def test_a_problem_has_its_code_and_place(tmp_path: Path, code: str, keys: str) -> None:
    text, places = marked(with_host(keys))
    folder = write_defs(tmp_path, text)
    (folder / "plugins").mkdir()
    (folder / "plugins" / "sign.py").write_text(PLUGIN)
    [problem] = load_problems(folder)
    assert (problem.code, (problem.line, problem.column)) == (code, places[0])


@pytest.mark.parametrize(
    "keys",
    [
        "auth: canary", "auth: [canary]", "auth: {basic: [canary]}", "auth: {bearer: {canary: 1}}",
        "auth: {basic: canary}",
        'auth: {bearer: "canary\\n"}', "auth: {'canary:x': y}", "proxy: {canary: 1}", "proxy: [[canary]]",
        "proxy: 'http://canary:canary@h/x'", "proxy: 'socks4://u:canary@h'", "proxy: 'socks5://u:canary@h/x'",
        "proxy: 'u:canary@h:1'", "proxy: canary",
        'proxy: "http://u:canary@h\\r\\n"',
    ],
)  # fmt: skip
def test_no_problem_quotes_a_secret(tmp_path: Path, keys: str) -> None:
    problems = load_problems(write_defs(tmp_path, with_host(keys)))
    assert problems
    assert all("canary" not in problem.message for problem in problems if problem.code != "unknown-key"), problems


@pytest.mark.parametrize("key", ["tls: {verify: false}", "http2: true"])
def test_what_needs_https_is_refused_for_the_port_of_http(tmp_path: Path, key: str) -> None:
    text = with_host(key).replace("shop.example: {", '"shop.example:80": {', 1)
    [problem] = load_problems(write_defs(tmp_path, text))
    assert problem.code == "conflict"
    assert load(write_defs(tmp_path, text.replace(":80", ":443"))).warnings == ()


def test_files_are_found_beside_the_defs_that_name_them_and_must_fit(tmp_path: Path) -> None:
    folder = tmp_path / "defs" / "inner"
    folder.mkdir(parents=True)
    authority = Authority(folder)
    authority.write_client()
    text = with_host("tls: {ca: ca.pem, client: client.pem}, http2: true")
    defs = write_defs(tmp_path, text, "inner/shop.yml")
    [rule] = load(defs).definitions.hosts
    assert rule.route == HostRoute(
        tls=TlsRule(ca=str(folder / "ca.pem"), client=str(folder / "client.pem")), http2=True
    )  # fmt: skip
    key = Authority(tmp_path).write_client().read_bytes().partition(b"-----BEGIN CERT")[0]
    certificate = (folder / "client.pem").read_bytes().partition(b"-----BEGIN CERT")
    (folder / "client.pem").write_bytes(key + certificate[1] + certificate[2])
    [mixed] = load_problems(defs)
    assert "the private key in" in mixed.message
    assert "does not belong to its first certificate" in mixed.message
    (folder / "client.pem").write_bytes(certificate[1] + certificate[2])
    (folder / "ca.pem").write_bytes(b"canary")
    assert [(p.code, "canary" in p.message) for p in load_problems(defs)] == [("bad-certificate", False)] * 2


def test_a_key_with_a_password_is_refused_without_asking_for_it(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    (tmp_path / "defs").mkdir()
    leaf = trustme.CA().issue_cert("a@b.example")
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"pw")
    )
    (tmp_path / "defs" / "client.pem").write_bytes(sealed + leaf.cert_chain_pems[0].bytes())
    [problem] = load_problems(write_defs(tmp_path, with_host("tls: {client: client.pem}")))
    assert "has a password" in problem.message


def test_one_proxy_may_be_a_text(tmp_path: Path) -> None:
    [rule] = load(write_defs(tmp_path, with_host("proxy: 'http://p:1', auth: {bearer: 12}"))).definitions.hosts
    assert rule.route == HostRoute(proxies=("http://p:1",))
    assert rule.auth == HostAuth("bearer", "12")
    [plain] = load(write_defs(tmp_path, with_host("http2: false, tls: {verify: true}"))).definitions.hosts
    assert plain.route is None, "it costs nothing"


def test_no_representation_shows_a_credential() -> None:
    rule = HostRule(name="h", auth=HostAuth("basic", "us:canary"), route=HostRoute(proxies=("http://u:canary@h",)))
    assert "canary" not in repr(rule)
