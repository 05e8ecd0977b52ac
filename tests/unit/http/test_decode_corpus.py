"""Encodings of the test files of html5lib and feedparser; downloads their source distributions."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from crawl_engine.http.decode import decode, needs_detection

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(300)]

SAME = {"big5": "big5hkscs", "euc-kr": "cp949", "gb2312": "gb18030", "shift_jis": "cp932", "tis-620": "cp874",
        "windows-1255": "cp1255", "euc-jp": "euc_jp", "koi8-r": "koi8-r"}  # fmt: skip
"""The superset by which browsers decode each encoding."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both source distributions, unpacked."""
    folder = tmp_path_factory.mktemp("sources")
    constraints = folder / "constraints.txt"
    constraints.write_text("setuptools<81")  # the build of html5lib needs its pkg_resources
    for name in ("html5lib==1.1", "feedparser==6.0.14"):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", folder]
        try:
            environment = {"PIP_CONSTRAINT": str(constraints)}
            subprocess.run(
                [*command, name], check=True, capture_output=True, timeout=120, env={**os.environ, **environment}
            )
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"{name} cannot be downloaded: {error}")
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    return folder


def test_undeclared_encodings_of_feeds_are_detected(sources: Path) -> None:
    files = sorted(sources.glob("feedparser-*/tests/illformed/chardet/*.xml"))
    assert len(files) >= 8
    wrong = []
    for file in files:
        body = file.read_bytes()
        expected = re.search(rb"encoding == '([^']+)'", body)
        assert expected is not None
        assert needs_detection(body, "application/xml")
        document = decode(body, "application/xml")
        if document.encoding != SAME[expected[1].decode().lower()] or document.damaged:
            wrong.append((file.name, document.encoding))
    assert wrong == []


def test_the_undeclared_text_of_html5lib_is_detected(sources: Path) -> None:
    [file] = sources.glob("html5lib-*/html5lib/tests/testdata/encoding/chardet/test_big5.txt")
    assert decode(file.read_bytes(), "text/html").encoding == "big5hkscs"


def test_the_files_of_feedparser_keep_the_characters_that_it_expects(sources: Path) -> None:
    """Files in an encoding of the web, each with one character beyond ASCII in its title."""
    checked, wrong = 0, []
    for file in sorted(sources.glob("feedparser-*/tests/encoding/x80_*.xml")):
        body = file.read_bytes()
        expected = re.search(rb"feed\['title'\] == '(?:\\u([0-9a-f]{4})|\\x([0-9a-f]{2}))'", body)
        declared = re.search(rb"encoding=\"(windows-125\d|koi8-[ru]|ibm866|iso-8859-\d+|cp866)\"", body)
        if expected is None or declared is None:
            continue
        checked += 1
        character = chr(int(expected[1] or expected[2], 16))
        if f"<title>{character}</title>" not in decode(body, "application/xml").text:
            wrong.append(file.name)
    assert checked >= 5
    assert wrong == []
