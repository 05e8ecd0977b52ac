"""Variables with secrets in URLs: resolved as the request is sent, percent-encoded."""

from pathlib import Path

import pytest

from crawl_engine import urls
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.request import expand_url


@pytest.mark.parametrize("place", ["/data?key={}&q=1", "/{}/x", "/x/{}"])
def test_a_variable_is_found_however_normalization_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("APIKEY", "se cret/+:7")
    folder = tmp_path / "sécret files"
    folder.mkdir()
    (folder / "key").write_text("\nse cret/+:7 \n")
    for variable in ("%{env.APIKEY}", f"%{{file.{folder / 'key'}}}"):
        url = urls.normalize("http://h.example" + place.format(variable))
        assert url is not None
        assert expand_url(url) == "http://h.example" + place.format("se%20cret%2F%2B%3A7")


@pytest.mark.parametrize("name", ["env.OTHER", "file./no/such/file"])
def test_a_variable_that_cannot_be_read_fails_and_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("OTHER", raising=False)
    with pytest.raises(FetchFailed, match=name.removeprefix("env.")):
        expand_url(f"http://h.example/?%{{{name}}}")
