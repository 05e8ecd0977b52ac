"""An Ed25519 key: read, made, named by its thumbprint. Needs the extra `sign`."""

import base64
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_engine.model.variables import UnusableVariable, render_secrets, variable_names
from crawl_engine.runtime.extras import install_hint

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_FILE = "file."
_MAKE_ONE = "make one with `crawl-console sign --new-key FILE`"


class UnusableKey(ValueError):
    """A text is no key that can sign."""


class SigningKey:
    """A private key. No method shows it."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.public = _base64url(private.public_key().public_bytes_raw())
        members = {"crv": "Ed25519", "kty": "OKP", "x": self.public}
        canonical = json.dumps(members, separators=(",", ":"), sort_keys=True)
        self.thumbprint = _base64url(hashlib.sha256(canonical.encode()).digest())
        """The SHA-256 thumbprint of its JWK (RFC 7638; RFC 8037, appendix A.3)."""

    @classmethod
    def new(cls) -> "SigningKey":
        """A key that nobody has."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, text: str) -> "SigningKey":
        """The key of a PEM text (PKCS #8). Raises UnusableKey, which quotes nothing of the text."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise UnusableKey(f"it needs a library that is not installed: {install_hint('sign')}") from None
        try:
            private = load_pem_private_key(text.encode(), password=None)
        except TypeError:
            raise UnusableKey("the key has a password; store it without one, readable by its owner alone") from None
        except Exception:  # whatever the text is, of which nothing may be shown
            raise UnusableKey(f"it holds no private key in PEM form; {_MAKE_ONE}") from None
        if not isinstance(private, Ed25519PrivateKey):
            kind = type(private).__name__.removesuffix("PrivateKey").lstrip("_")
            raise UnusableKey(f"it holds a key of the kind {kind}, not Ed25519; {_MAKE_ONE}")
        return cls(private)

    def to_pem(self) -> bytes:
        """The private key, for its file."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def jwk(self) -> dict[str, str]:
        """The public key as a JSON Web Key."""
        return {"kty": "OKP", "crv": "Ed25519", "x": self.public, "kid": self.thumbprint, "alg": "EdDSA", "use": "sig"}

    def sign(self, message: bytes) -> str:
        """The signature of a message, in base64."""
        return base64.b64encode(self._private.sign(message)).decode()

    def __repr__(self) -> str:
        return f"SigningKey({self.thumbprint})"


def read_text(expression: str) -> str:
    """The text of a key, which a variable of the defs names. Raises UnusableKey."""
    try:
        return render_secrets(expression, os.environ)
    except UnusableVariable as error:
        raise UnusableKey(str(error)) from None


def parse_key(expression: str, text: str) -> SigningKey:
    """The key of a text that `read_text` gave. Raises UnusableKey, also if others can read its file."""
    check_file(expression)
    return SigningKey.from_pem(text)


def check_file(expression: str) -> None:
    """Raise UnusableKey if others can read the file of a key."""
    for name in variable_names(expression):
        if not name.startswith(_FILE):
            continue
        path = Path(name.removeprefix(_FILE))
        try:
            mode = path.stat().st_mode
        except OSError:
            return  # whoever reads it says so
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            raise UnusableKey(f"'{path}' can be read by others (mode {stat.S_IMODE(mode):04o}); run: chmod 600 {path}")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
