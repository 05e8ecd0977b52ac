"""Placeholders of secrets: salted, stable, and reversible only with the value at hand."""

import re

import pytest

from engine.model.secret import SecretVault, decode_variables, find_ids, open_placeholders

PLACEHOLDER = re.compile(r"%\{secret\.[0-9a-f]{32}\}")


def test_a_literal_becomes_a_placeholder_that_opens_again() -> None:
    vault = SecretVault(b"salt")
    sealed = vault.seal("Bearer abc %{env.X}")
    assert PLACEHOLDER.fullmatch(sealed)
    values = dict(vault.values_from(0))
    assert find_ids(sealed) == list(values)
    assert open_placeholders(f"<{sealed}>", values.__getitem__) == "<Bearer abc %{env.X}>"
    assert "abc" not in repr(vault)


def test_equal_texts_are_one_secret_and_another_salt_gives_another_hash() -> None:
    vault = SecretVault(b"salt")
    assert vault.seal("a") == vault.seal("a") != vault.seal("b")
    assert [text for _, text in vault.values_from(0)] == ["a", "b"]
    assert [text for _, text in vault.values_from(1)] == ["b"]
    assert SecretVault(b"salt").seal("a") == vault.seal("a")
    assert SecretVault(b"pepper").seal("a") != vault.seal("a")


@pytest.mark.parametrize("text", ["", " ", "%{env.TOKEN}", "Bearer %{env.TOKEN}", "basic %{env.A}%{env.B}"])
def test_a_text_of_variables_alone_stays_as_written(text: str) -> None:
    vault = SecretVault(b"salt")
    assert vault.seal(text) == text
    assert vault.seal(vault.seal("secret")) == vault.seal("secret")
    assert len(vault.values_from(0)) == 1


@pytest.mark.parametrize("text", ["x%{env.TOKEN}", "Bearer", "%%{env.A}", "%{env.A", "bearerx %{env.A}"])
def test_a_text_with_any_literal_part_is_sealed(text: str) -> None:
    assert PLACEHOLDER.fullmatch(SecretVault(b"salt").seal(text))


def test_user_and_password_are_sealed_apart() -> None:
    vault = SecretVault(b"salt")
    user, _, password = vault.seal_userinfo("us%3Aer:p:w").partition(":")
    assert [user, password] == [vault.seal("us%3Aer"), vault.seal("p:w")]
    assert vault.seal_userinfo("%%7Benv.U%7D:%%7Benv.P%7D") == "%{env.U}:%{env.P}"
    assert vault.seal_userinfo("user") == vault.seal("user")


def test_a_vault_says_whether_it_lacks_a_secret() -> None:
    vault, other = SecretVault(b"salt"), SecretVault(b"salt")
    sealed = vault.seal("a").replace("{", "%7B").replace("}", "%7D")
    assert not vault.lacks(f"http://{sealed}@h/")
    assert other.lacks(f"http://{sealed}@h/")
    assert not other.lacks("http://h/")
    assert decode_variables(sealed) == vault.seal("a")
