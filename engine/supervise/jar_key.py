"""Gives nodes the key for the cookies that they share, as soon as the defs have a host whose cookies are shared."""

import logging
import os
import secrets

from engine.defs.sealing import seal_definitions
from engine.model.definition import Definitions
from engine.model.secret import COOKIE_KEY_ID, SecretVault
from engine.runtime.jar_key import key_path, read_or_create_key

_log = logging.getLogger(__name__)


def seal_for_nodes(definitions: Definitions, vault: SecretVault) -> Definitions:
    """The defs to store, their secrets in the vault; with them the key for cookies, where these defs need it."""
    if vault.find(COOKIE_KEY_ID) is None and any(host.jar_mode == "shared" for host in definitions.hosts):
        vault.add(COOKIE_KEY_ID, _find_key())
    return seal_definitions(definitions, vault)


def _find_key() -> str:
    try:
        return read_or_create_key(key_path(os.environ))
    except OSError as error:
        reason = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
        _log.warning("%s; the next start of this run logs in again: the key for its cookies is not kept", reason)
        return secrets.token_hex(32)


def jar_key_name(vault: SecretVault) -> str | None:
    """The name of the key for cookies; None: there is none."""
    key = vault.find(COOKIE_KEY_ID)
    if key is None:
        return None
    from engine.fetch.jar_cipher import key_name  # only crawls that share cookies need its library

    return key_name(key)
