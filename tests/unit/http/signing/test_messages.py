"""Signatures against the vectors of RFC 9421 and of the drafts, and against another implementation."""

import pytest
from http_message_signatures import InvalidSignature

from crawl_engine.http.signing.message import (
    PLAIN,
    read_requested,
    sign_directory,
    sign_message,
    sign_request,
)
from crawl_engine.model.host import RequestedSignature
from crawl_engine.runtime.signing_key import SigningKey, UnusableKey

from .keys import THUMBPRINT, example_key, verify

AGENT = "https://signature-agent.test"
CREATED, OLD_END, NEW_END = 1735689600, 1735693200, 4889289600


def test_the_vector_of_rfc_9421_b_2_6() -> None:
    components = [
        ('"date"', "Tue, 20 Apr 2021 02:07:55 GMT"), ('"@method"', "POST"), ('"@path"', "/foo"),
        ('"@authority"', "example.com"), ('"content-type"', "application/json"), ('"content-length"', "18"),
    ]  # fmt: skip
    headers = sign_message(
        example_key(), components, [("created", 1618884473), ("keyid", "test-key-ed25519")], "sig-b26"
    )
    assert headers["Signature-Input"] == (
        'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
        ';created=1618884473;keyid="test-key-ed25519"'
    )
    assert headers["Signature"] == (
        "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"
    )


@pytest.mark.parametrize(
    ("agent", "expires", "nonce", "expected"),
    [
        (
            '"signature-agent"', OLD_END,
            "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
            "jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==",
        ),
        (
            '"signature-agent";key="agent2"', NEW_END,
            "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
            "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==",
        ),
    ],
)  # fmt: skip
def test_the_vectors_of_the_drafts(agent: str, expires: int, nonce: str, expected: str) -> None:
    components = [('"@authority"', "example.com"), (agent, f'"{AGENT}"')]
    parameters = [
        ("created", CREATED), ("keyid", THUMBPRINT), ("alg", "ed25519"), ("expires", expires), ("nonce", nonce),
        ("tag", "web-bot-auth"),
    ]  # fmt: skip
    headers = sign_message(example_key(), components, parameters, "sig2")
    assert headers["Signature"] == f"sig2=:{expected}:"


@pytest.mark.parametrize(
    "url", ["https://shop.example/", "http://shop.example:8080/a%20b?x=1", "https://xn--mnchen-3ya.example/?"]
)
@pytest.mark.parametrize("more", [(), ("@method", "@path"), ("@target-uri", "@scheme", "@query")])
def test_another_implementation_verifies_requests(url: str, more: tuple[str, ...]) -> None:
    wanted = RequestedSignature("sig7", (*PLAIN.components, *more), "n-1")
    headers = sign_request(example_key(), AGENT, "GET", url, wanted)
    assert headers["Signature-Agent"] == f'sig7="{AGENT}"'
    (found,) = verify("GET", url, headers)
    assert found.parameters["tag"] == "web-bot-auth"
    assert found.parameters["nonce"] == "n-1"
    assert found.parameters["expires"] - found.parameters["created"] == 300
    with pytest.raises(InvalidSignature):
        verify("GET", url.replace("shop", "other").replace("xn--mnchen-3ya", "other"), headers)


def test_each_request_has_its_own_nonce() -> None:
    inputs = {sign_request(example_key(), AGENT, "GET", "https://a.example/")["Signature-Input"] for _ in range(20)}
    assert len(inputs) == 20


def test_the_directory_is_signed_for_its_host() -> None:
    headers = sign_directory(example_key(), "https://bot.example", 3600, "binding0", now=CREATED)
    assert headers["Signature-Input"] == (
        f'binding0=("@authority";req);created={CREATED};keyid="{THUMBPRINT}";alg="ed25519";expires={CREATED + 3600}'
        ';tag="http-message-signatures-directory"'
    )


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ('sig1=("@authority" "signature-agent");tag="web-bot-auth"', PLAIN),
        (
            'a=("@method" "@path");nonce="x";created;expires',
            RequestedSignature("a", (*PLAIN.components, "@method", "@path"), "x"),
        ),
        ('a=("content-digest"), b=("@authority")', RequestedSignature("b")),
        ('a=("@authority");tag="other"', None),
        ('a=("@authority");alg="rsa-pss-sha512"', None),
        ('a=("@authority";req)', None),
        ("a=1", None),
        ("a=(", None),
        ("", None),
        ("\x00", None),
    ],
)
def test_what_a_site_asks_for(value: str, wanted: RequestedSignature | None) -> None:
    assert read_requested(value) == wanted


def test_a_key_is_named_by_its_thumbprint_and_shown_nowhere() -> None:
    key = example_key()
    assert key.thumbprint == THUMBPRINT
    assert "JrQLj5P" not in repr(key)
    assert SigningKey.from_pem(key.to_pem().decode()).thumbprint == THUMBPRINT
    assert SigningKey.new().thumbprint != SigningKey.new().thumbprint


def test_what_is_no_ed25519_key_is_refused_without_a_quote() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    rsa_key, curve = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    texts = {
        "RSA": rsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "kind EC": curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "password": curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
        "no private key": b"s3cret-text",
    }
    for said, text in texts.items():
        with pytest.raises(UnusableKey, match=said) as error:
            SigningKey.from_pem(text.decode())
        assert "s3cret" not in str(error.value)
