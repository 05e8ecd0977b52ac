"""Which literals of defs are sealed, in every way a URL can hold credentials."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import urls
from engine.defs.sealing import seal_definitions, seal_url
from engine.defs.url_patterns import expand
from engine.model.definition import Definitions, HostRule, Locator, LocatorGroup
from engine.model.fingerprint import PreparedDefs
from engine.model.secret import SecretVault, decode_variables, open_placeholders


@pytest.fixture
def vault() -> SecretVault:
    return SecretVault(b"salt")


def defs(**locator: object) -> Definitions:
    return Definitions(locator_groups=(LocatorGroup(name="g", locators=(Locator(name="l", **locator),)),))  # type: ignore[arg-type]


def test_header_and_cookie_values_are_sealed_unless_they_are_harmless(vault: SecretVault) -> None:
    headers = {"X-Key": "canary", "Accept-Language": "de", "user-agent": "me", "Authorization": "Bearer %{env.T}"}
    rule = HostRule(name="h", headers=headers, cookies={"c": "canary", "e": "%{env.C}"})
    sealed = seal_definitions(Definitions(hosts=(rule,)), vault).hosts[0]
    assert dict(sealed.headers) == headers | {"X-Key": vault.seal("canary")}
    assert dict(sealed.cookies) == {"c": vault.seal("canary"), "e": "%{env.C}"}
    locator = seal_definitions(defs(headers=headers, cookies={"c": "canary"}), vault).locator_groups[0].locators[0]
    assert locator.headers == sealed.headers
    assert dict(locator.cookies) == {"c": vault.seal("canary")}


@pytest.mark.parametrize(
    "url",
    [
        "http://us:canary@h/x@y",
        "HTTPS:\\\\us:canary@h/",
        "http:us:canary@h/",
        "http:///us:canary@h/",
        "//us:canary@h/",
        " \x01ht\ntp://us:can\tary@h/",
        "http://us:canary@x@h/",
        "http://canary@h",
        "http://:canary@h?q",
    ],
)
def test_the_credentials_of_a_url_are_sealed_however_it_is_written(url: str, vault: SecretVault) -> None:
    sealed = seal_url(url, vault)
    assert "canary" not in sealed
    values = dict(vault.values_from(0))
    normalized, plain = urls.join("https://base/", sealed), urls.join("https://base/", url)
    assert normalized is not None
    assert plain is not None
    assert urls.without_credentials(normalized) == urls.without_credentials(plain)
    opened = open_placeholders(decode_variables(urls.userinfo_of(normalized)), values.__getitem__)
    assert urls.userinfo_of(urls.normalize(f"http://{opened}@h/") or "") == urls.userinfo_of(plain)


@pytest.mark.parametrize("url", ["/a@b", "http://h/a@b", "http://h?q=a@b", "mailto:x@y", "%{env.BASE}/a@b", "a@b"])
def test_an_at_sign_elsewhere_is_no_credential(url: str, vault: SecretVault) -> None:
    assert seal_url(url, vault) == url
    assert vault.values_from(0) == []


@settings(max_examples=200)
@given(st.text(st.characters(codec="utf-8", exclude_characters="/\\?#@{}%"), min_size=1, max_size=12))
def test_no_password_survives(password: str) -> None:
    vault = SecretVault(b"salt")
    sealed = seal_url(f"http://u:zz{password}@h/", vault)
    assert sealed.startswith("http://%{secret.")
    assert f"zz{password.strip()}" not in sealed


def test_braces_in_credentials_expand_as_before(vault: SecretVault) -> None:
    pattern = "http://u{1,2}:p{a,b}@h/{1..2}"
    (locator,) = seal_definitions(defs(urls=(pattern, "/plain")), vault).locator_groups[0].locators
    values = dict(vault.values_from(0))
    expanded = [open_placeholders(url, values.__getitem__) for sealed in locator.urls for url in expand(sealed)]
    assert expanded == [*expand(pattern), "/plain"]
    assert "pa" not in "".join(locator.urls)


def test_sitemaps_and_base_urls_are_sealed_too(vault: SecretVault) -> None:
    sealed = seal_definitions(
        Definitions(
            locator_groups=(LocatorGroup(name="g", locators=(Locator(name="l", sitemap="http://us:canary@h/s.xml"),)),),
            base_url="http://us:canary@h/",
        ),
        vault,
    )
    assert "canary" not in sealed.to_json()
    assert sealed.to_json().count("%{secret.") == 4


def test_a_changed_secret_is_another_version_with_the_same_pages(vault: SecretVault) -> None:
    one, other = (
        PreparedDefs.from_definitions(seal_definitions(defs(urls=(f"http://u:{word}@h/",)), vault))
        for word in ("one", "other")
    )
    assert one.hash != other.hash
    assert one.groups == other.groups
    assert "other" not in other.text
    again = seal_definitions(defs(urls=("http://u:one@h/",)), SecretVault(b"salt"))
    assert PreparedDefs.from_definitions(again).hash == one.hash


def test_lookups_of_the_defs_before_are_not_kept(vault: SecretVault) -> None:
    plain = Definitions(hosts=(HostRule(name="h", headers={"X": "canary"}),))
    assert plain.host_rule("h", 80) is plain.hosts[0]
    sealed = seal_definitions(plain, vault)
    assert sealed.host_rule("h", 80) is sealed.hosts[0]
