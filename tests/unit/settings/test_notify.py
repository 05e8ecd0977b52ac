"""The setting `notify`: its forms, and that messages and `config` show no part of a URL but its scheme."""

from pathlib import Path

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.settings import Settings, load_settings
from crawl_engine.settings.values import mask_receiver


def load(value: str, folder: Path) -> tuple[str, ...] | None:
    return load_settings({"notify": value}, environment={}, folder=folder).notify


def test_urls_and_variables(tmp_path: Path) -> None:
    assert load('["json://h/", "%{env.CHAT}", "tgram://%{env.TOKEN}/7"]', tmp_path) == (
        "json://h/", "%{env.CHAT}", "tgram://%{env.TOKEN}/7"
    )  # fmt: skip
    assert load("none", tmp_path) is None


@pytest.mark.parametrize(
    "value", ['["canary"]', "canary", '"canary"', '["json://h/canary canary"]', "[]", '["/canary"]']
)
def test_what_is_refused_is_not_shown(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(value, tmp_path)
    assert "notify cannot be" in str(refused.value)
    assert "canary" not in str(refused.value)


def test_its_place_in_crawl_toml(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text('delay = 1\n\nnotify = ["canary://"]\n')
    with pytest.raises(UsageError, match=r"crawl\.toml:3: notify cannot be \['canary://·····'\]"):
        load_settings({}, environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mailto://me:pw@h/", "mailto://·····"),
        ("%{env.CHAT}", "%{env.CHAT}"),
        ("%{env.A}secret%{env.B}", "·····"),
        ("secret", "·····"),
        ("a secret://x", "·····"),
    ],
)
def test_a_masked_url(url: str, shown: str) -> None:
    assert mask_receiver(url) == shown


def test_children_do_not_get_it() -> None:
    assert "canary" not in Settings(notify=("json://canary",)).to_json()
