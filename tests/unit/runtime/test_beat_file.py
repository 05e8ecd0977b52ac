import os
import struct
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawl_engine.runtime.beat_file import (
    Beat,
    BeatWriter,
    BrowserState,
    NodeBrowsers,
    is_beat_file,
    is_beat_name,
    read_beat,
    resident_bytes,
)

FULL = Beat(
    number=2**40, state="DRAINING", is_cpu_bound=True, in_flight=31, done=10**9, failed=7, rss=2**35, lag=0.25,
    flush_ms=1.5, rows=8, bytes=2**50, now="http://a/ü",
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "beats" / "n1"


@pytest.fixture
def record(path: Path) -> bytes:
    BeatWriter(path).write(FULL)
    return path.read_bytes()


def test_a_beat_reads_back_and_is_overwritten_in_place(path: Path) -> None:
    writer = BeatWriter(path)
    sizes = set()
    for number, state in enumerate(("STARTING", "READY", "DONE", "STANDBY", "DRAINING", "SHUTDOWN")):
        beat = Beat(number=number, state=state, now="x" * (300 * (number % 2)))
        writer.write(beat)
        got = read_beat(path)
        assert got is not None
        assert (got.number, got.state, got.now) == (number, state, beat.now[:200])
        sizes.add(path.stat().st_size)
    assert len(sizes) == 1
    writer.write(FULL)
    writer.close()
    assert read_beat(path) == FULL
    assert path.stat().st_mode & 0o777 == 0o600


def test_browsers_follow_the_record_of_a_node_that_has_started_one(path: Path) -> None:
    writer = BeatWriter(path)
    writer.write(FULL)
    plain = path.read_bytes()
    one = BrowserState(pid=7, pages=3, loading=1, rss=2**31, age=0.5, urls=("http://a/" * 8,) * 3)
    for count in (8, 1, 0):
        beat = replace(FULL, browsers=NodeBrowsers(replaced=1, reason="ü", is_fault=True, processes=(one,) * count))
        writer.write(beat)
        assert read_beat(path) == beat
        assert is_beat_file(path)
    writer.close()
    continued = BeatWriter(path)
    continued.write(FULL)
    assert path.read_bytes() == plain, "the beat of other nodes is as it was"
    continued.close()


def test_no_file_and_an_empty_file_are_no_beat(path: Path) -> None:
    assert read_beat(path) is None
    BeatWriter(path)
    assert read_beat(path) is None


def test_every_shorter_record_is_no_beat(path: Path, record: bytes) -> None:
    for length in range(len(record)):
        path.write_bytes(record[:length])
        assert read_beat(path) is None
    path.write_bytes(record + b"\0")
    assert read_beat(path) is None


def test_a_record_torn_anywhere_is_no_beat(path: Path, record: bytes) -> None:
    """The first part of one beat, the rest of the one before."""
    BeatWriter(path).write(Beat(number=5, state="READY"))
    older = path.read_bytes()
    torn = 0
    for cut in range(1, len(record)):
        mixed = record[:cut] + older[cut:]
        if mixed not in (record, older):
            path.write_bytes(mixed)
            assert read_beat(path) is None
            torn += 1
    assert torn > 30


def test_a_record_with_one_bit_wrong_is_no_beat(path: Path, record: bytes) -> None:
    for i in range(0, len(record), 3):
        path.write_bytes(record[:i] + bytes([record[i] ^ 4]) + record[i + 1 :])
        assert read_beat(path) is None


def test_a_record_of_zeros_is_no_beat(path: Path, record: bytes) -> None:
    path.write_bytes(b"\0" * len(record))
    assert read_beat(path) is None


@settings(max_examples=60)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=250))
def test_any_text_is_cut_to_whole_characters(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "beat"
    writer = BeatWriter(path)
    writer.write(Beat(number=1, state="READY", now=text))
    writer.close()
    got = read_beat(path)
    assert got is not None
    assert text.startswith(got.now)
    assert len(got.now.encode()) <= 200
    assert got.now == text or len(text[: len(got.now) + 1].encode()) > 200, "one more would not fit"


def test_a_lone_surrogate_does_not_prevent_a_beat(path: Path) -> None:
    BeatWriter(path).write(Beat(number=1, state="READY", now="http://a/\ud800"))
    got = read_beat(path)
    assert got is not None
    assert got.now == "http://a/?"


def test_a_reader_beside_a_writer_sees_only_complete_beats(path: Path) -> None:
    writer, stop = BeatWriter(path), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            writer.write(Beat(number=number, state="READY", done=number, bytes=number, now=str(number) * 9))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = [beat for _ in range(3000) if (beat := read_beat(path)) is not None]
    finally:
        stop.set()
        thread.join()
    assert seen
    for beat in seen:
        assert (beat.done, beat.bytes, beat.now) == (beat.number, beat.number, str(beat.number) * 9)
    assert [b.number for b in seen] == sorted(b.number for b in seen)


def test_the_checksum_covers_the_whole_record(record: bytes) -> None:
    assert struct.unpack("<I", record[-4:])[0] == zlib.crc32(record[:-4])


@pytest.mark.parametrize("name", ["n1", "a23", "supervisor"])
def test_names_of_beats(name: str) -> None:
    assert is_beat_name(name)
    for other in (f"{name}.txt", f".{name}", f"x{name}", name.upper(), f"{name}\n", "n", "a", "", "n-1", "n１"):
        assert not is_beat_name(other)


@pytest.mark.parametrize("left", [b"", bytes(260)], ids=["empty", "zeros"])
def test_a_beat_that_a_power_loss_cut_is_ours(path: Path, record: bytes, left: bytes) -> None:
    assert is_beat_file(path)
    path.write_bytes(left)
    assert is_beat_file(path)


def test_other_content_is_not_a_beat(path: Path, record: bytes) -> None:
    for content in (b"x", b"abcd", record[:-1], record + b"\n", b"my notes\n" * 29, bytes(5_000), record * 20):
        path.write_bytes(content)
        assert not is_beat_file(path), content[:20]
    path.unlink()
    path.symlink_to("target")
    path.with_name("target").write_bytes(record)
    assert not is_beat_file(path)
    with pytest.raises(OSError):
        BeatWriter(path)
    path.unlink()
    path.mkdir()
    assert not is_beat_file(path)


def test_resident_memory_is_reported() -> None:
    if Path("/proc/self/statm").exists():
        assert resident_bytes() > 5_000_000
        assert resident_bytes() % os.sysconf("SC_PAGE_SIZE") == 0
