"""Keys of the tests: the public example of RFC 9421, B.1.4, and a verifier that another library implements."""

import datetime
from typing import Any
from urllib.parse import urlsplit

from crawl_engine.runtime.signing_key import SigningKey

PEM = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----
"""
THUMBPRINT = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


def example_key() -> SigningKey:
    return SigningKey.from_pem(PEM)


class Message:
    """A request as the verifier reads it."""

    def __init__(self, method: str, url: str, headers: dict[str, str]) -> None:
        self.method, self.url, self.headers = method, url, headers


class Keys:
    """The public key of the example, by its thumbprint."""

    def resolve_public_key(self, key_id: str) -> Any:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if key_id != THUMBPRINT:
            raise KeyError(key_id)
        return load_pem_private_key(PEM.encode(), None).public_key()

    def resolve_private_key(self, key_id: str) -> Any:
        raise KeyError(key_id)


def verify(method: str, url: str, headers: dict[str, str], max_age: int = 300) -> list[Any]:
    """The signatures of a request that another implementation finds valid. Raises its error."""
    from http_message_signatures import HTTPMessageVerifier
    from http_message_signatures.algorithms import ED25519

    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=Keys())  # type: ignore[arg-type]
    message = Message(method, url, {**headers, "Host": urlsplit(url).netloc})
    return verifier.verify(message, max_age=datetime.timedelta(seconds=max_age))
