"""Signatures of HTTP messages (RFC 9421), and those of Web Bot Auth.

Source: draft-ietf-webbotauth-httpsig-protocol-01: the header Signature-Agent is a dictionary, whose member has the
label of the signature and is signed.
"""

import base64
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from crawl_engine import urls
from crawl_engine.model.host import SIGNED_AGENT, SIGNED_AUTHORITY, RequestedSignature
from crawl_engine.runtime.signing_key import SigningKey

TAG, DIRECTORY_TAG = "web-bot-auth", "http-message-signatures-directory"
LIFETIME = 300
"""Seconds from `created` to `expires` of a request: it is sent at once."""
_NONCE_BYTES = 32
_ALGORITHM = "ed25519"
_KNOWN = frozenset({"@method", SIGNED_AUTHORITY, "@scheme", "@target-uri", "@path", "@query", SIGNED_AGENT})
"""The components whose values are known before a request is sent."""
Component = tuple[str, str]
"""A component as it is named, with its parameters (`"@authority"`), and its value."""


PLAIN = RequestedSignature()


def sign_message(
    key: SigningKey, components: Sequence[Component], parameters: Iterable[tuple[str, int | str]], label: str
) -> dict[str, str]:
    """The headers of a signature of these components."""
    names = " ".join(name for name, _ in components)
    shown = "".join(f";{name}={_to_item(value)}" for name, value in parameters)
    signed = f"({names}){shown}"
    lines = [f"{name}: {value}" for name, value in components]
    base = "\n".join([*lines, f'"@signature-params": {signed}'])
    return {"Signature-Input": f"{label}={signed}", "Signature": f"{label}=:{key.sign(base.encode())}:"}


def sign_request(
    key: SigningKey,
    agent: str,
    method: str,
    target: str,
    requested: RequestedSignature = PLAIN,
    now: float | None = None,
) -> dict[str, str]:
    """The headers that sign a request for a normalized URL. `agent`: where the public key is, an https URL."""
    created = int(time.time() if now is None else now)
    values = {**_derived(method, target), SIGNED_AGENT: _to_item(agent)}
    components = [
        (f'"{name}";key="{requested.label}"' if name == SIGNED_AGENT else f'"{name}"', values[name])
        for name in requested.components
    ]  # fmt: skip
    parameters = (
        ("created", created), ("keyid", key.thumbprint), ("alg", _ALGORITHM), ("expires", created + LIFETIME),
        ("nonce", requested.nonce or base64.b64encode(os.urandom(_NONCE_BYTES)).decode()), ("tag", TAG),
    )  # fmt: skip
    headers = sign_message(key, components, parameters, requested.label)
    return {"Signature-Agent": f"{requested.label}={_to_item(agent)}", **headers}


def sign_directory(key: SigningKey, agent: str, seconds: int, label: str, now: float | None = None) -> dict[str, str]:
    """The headers that sign the answer to a request for the keys of `agent`, for so long."""
    created = int(time.time() if now is None else now)
    parameters = (
        ("created", created), ("keyid", key.thumbprint), ("alg", _ALGORITHM), ("expires", created + seconds),
        ("tag", DIRECTORY_TAG),
    )  # fmt: skip
    return sign_message(key, [(f'"{SIGNED_AUTHORITY}";req', authority(agent))], parameters, label)


def authority(url: str) -> str:
    """The host of a normalized URL, with its port if that is not the one of its scheme."""
    return urls.origin(url).partition("://")[2]


def read_requested(value: str) -> RequestedSignature | None:
    """The first signature that `Accept-Signature` asks for and that can be made; None: there is none."""
    import http_sf  # of the extra `sign`

    try:
        asked: Any = http_sf.parse(value.encode(), tltype="dictionary")
    except Exception:  # of whatever a site sends
        return None
    for label, member in asked.items():
        if not isinstance(member, tuple) or not isinstance(member[0], list):
            continue
        named, parameters = member
        components = tuple(dict.fromkeys([*PLAIN.components, *(name for name, _ in named)]))
        is_plain = all(not of_name for name, of_name in named if name != SIGNED_AGENT)
        if not is_plain or not set(components) <= _KNOWN:
            continue
        if parameters.get("tag", TAG) == TAG and parameters.get("alg", _ALGORITHM) == _ALGORITHM:
            nonce = parameters.get("nonce")
            return RequestedSignature(label, components, nonce if isinstance(nonce, str) else None)
    return None


def _derived(method: str, target: str) -> dict[str, str]:
    """The values of the components that a request derives (RFC 9421, 2.2)."""
    scheme, _, rest = target.partition("://")
    path, mark, query = rest[len(authority(target)) :].partition("?")
    return {
        "@method": method, SIGNED_AUTHORITY: authority(target), "@scheme": scheme, "@target-uri": target,
        "@path": path or "/", "@query": f"?{query}" if mark else "?",
    }  # fmt: skip


def _to_item(value: int | str) -> str:
    """An item of structured fields (RFC 8941)."""
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
