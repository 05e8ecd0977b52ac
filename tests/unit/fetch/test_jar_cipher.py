"""Encrypted cookies: they open with their key alone, and only as those of their site."""

import secrets

import pytest

from engine.fetch.jar_cipher import JarCipher, JarUnreadable, key_name

ENTRIES = [{"cookie": {"name": "sid", "value": "canary"}, "at": 1.5}]


def test_cookies_open_with_their_key_and_for_their_site() -> None:
    key = secrets.token_hex(32)
    cipher = JarCipher(key)
    jar = cipher.encrypt("shop.example", ENTRIES)
    assert JarCipher(key).decrypt("shop.example", jar) == ENTRIES
    assert b"canary" not in jar
    assert b"sid" not in jar
    assert jar != cipher.encrypt("shop.example", ENTRIES)
    assert key not in cipher.name
    assert cipher.name == key_name(key)


@pytest.mark.parametrize("damage", ["key", "site", "bytes", "short", "empty"])
def test_others_do_not(damage: str) -> None:
    key = secrets.token_hex(32)
    jar = JarCipher(key).encrypt("shop.example", ENTRIES)
    if damage == "bytes":
        jar = jar[:-1] + bytes([jar[-1] ^ 1])
    jar = {"short": jar[:20], "empty": b""}.get(damage, jar)
    cipher = JarCipher(secrets.token_hex(32) if damage == "key" else key)
    with pytest.raises(JarUnreadable):
        cipher.decrypt("other.example" if damage == "site" else "shop.example", jar)
