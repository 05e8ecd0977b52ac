"""Locators become jobs, in batches that can be interrupted and repeated."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from crawl_console.format import describe_seeding
from crawl_engine.defs.url_list import UrlList
from crawl_engine.errors import UsageError
from crawl_engine.http.request import expand_url
from crawl_engine.model.definition import Definitions, TaskGroup
from crawl_engine.model.locator import Locator, LocatorGroup, SitemapRules
from crawl_engine.model.run import RunState
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.job import locators, sequences
from crawl_engine.store.tables.run import checkpoints, runs
from crawl_engine.supervise.seeding import seed_jobs
from crawl_engine.supervise.seeding.seed_jobs import encode_request, next_batch_size
from crawl_engine.supervise.seeding.seeder import check_seedable

from .seeding_harness import SHOP, SeedingHarness, fix_batch_size


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SeedingHarness]:
    harness = SeedingHarness(tmp_path)
    yield harness
    harness.db.close()


def test_every_url_of_every_locator_becomes_a_job_and_the_run_ready(harness: SeedingHarness) -> None:
    harness.seed(SHOP)
    assert harness.urls() == [*(f"http://a/{i}" for i in range(1, 6)), "http://b/x"]
    run = runs.get(harness.db, harness.run)
    assert run.state is RunState.READY
    assert run.seeded_version == run.defs_version == 1
    assert harness.db.all("SELECT grp, ready FROM sequences ORDER BY id") == [("shop", 5), ("shop", 1)]
    (mark,) = checkpoints.list_checkpoints(harness.db, harness.run)
    assert (mark.step, mark.group, mark.completed, mark.status) == ("seeder", "shop", True, "valid")


def test_steps_return_the_sequences_to_ring_while_seeding_continues(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 2)
    made = harness.seeding(SHOP)
    rung = []
    while not made.done:
        rung.append(made.step())
        assert harness.state() in (RunState.SEEDING, RunState.READY)
        if not made.done:
            assert runs.get(harness.db, harness.run).seeded_version is None
    assert rung == [[], [1], [], [2], []], "a bell that is rung is not rung again"
    assert sequences.count(harness.db, harness.run, "ready") == 6


def test_a_complete_group_is_not_seeded_again(harness: SeedingHarness) -> None:
    harness.seed(SHOP)
    with harness.db.transaction():
        harness.db.execute("DELETE FROM jobs")
    harness.seed(SHOP)
    assert harness.urls() == []
    changed = replace(SHOP, locators=(replace(SHOP.locators[0], urls=("http://c/",)),))
    harness.seed(changed)
    assert harness.urls() == ["http://c/"]


def test_an_interrupted_group_is_seeded_again_without_duplicates(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 2)
    made = harness.seeding(SHOP)
    for _ in range(2):
        made.step()
    assert len(harness.urls()) == 2
    assert [c.status for c in checkpoints.list_checkpoints(harness.db, harness.run)] == ["provisional"]
    harness.seed(SHOP)
    assert len(harness.urls()) == len(set(harness.urls())) == 6


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_busy_database_delays_seeding_and_loses_no_seed(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    fix_batch_size(monkeypatch, 2)
    made = harness.seeding(SHOP)
    for _ in range(at):
        made.step()
    other = connect(harness.folder / CRAWL, durable=False)
    with other.transaction():
        assert made.step() == []
        assert not made.done
    other.close()
    for _ in range(20):
        made.step()
    assert made.done
    assert len(harness.urls()) == 6
    assert runs.get(harness.db, harness.run).seeded_version == 1


def test_jobs_have_the_priority_of_their_group(harness: SeedingHarness) -> None:
    other = replace(SHOP, name="other")
    harness.seed(SHOP, other, task_groups=(TaskGroup(name="other", priority=5),))
    assert harness.db.all("SELECT priority, count(*) FROM jobs GROUP BY 1") == [(0, 6), (5, 6)]


def test_relative_urls_use_the_base_of_the_run_then_of_the_defs(harness: SeedingHarness) -> None:
    group = LocatorGroup(name="g", locators=(Locator(name="l", urls=("/x", "http://b/y")),))
    harness.seed(group, base_url="http://defs/dir/")
    assert harness.urls() == ["http://defs/x", "http://b/y"]
    with harness.db.transaction():
        harness.db.execute("UPDATE runs SET base_url = 'http://flag/'")
    harness.seed(group, base_url="http://defs/dir/")
    assert harness.urls()[2:] == ["http://flag/x"], "another base makes the group new"


def test_equivalent_urls_are_one_job_and_bad_ones_are_reported(harness: SeedingHarness) -> None:
    urls = ("HTTP://A:80/x/../1", "http://a/1#top", "mailto:x@y", "nothing", "http://a/1 ")
    made = harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=urls),)))
    assert harness.urls() == ["http://a/1"]
    assert len(made.reader.problems) == 2
    assert made.reader.problems[0].endswith(": no usable URL: mailto:x@y (mailto: is not http or https)")


def test_urls_come_from_a_file_one_per_line(harness: SeedingHarness, tmp_path: Path) -> None:
    url_file = tmp_path / "urls.txt"
    url_file.write_text("\ufeffhttp://a/1\n\n  # no\n http://a/2 \r\nhttp://a/{1..9}\n", "utf-8")
    harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(url_file)),)))
    assert harness.urls() == ["http://a/1", "http://a/2", "http://a/%7B1..9%7D"], "braces in a file are no pattern"


def test_urls_come_from_standard_input_as_they_arrive(harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", stdin)
        seeder = harness.seeding(LocatorGroup(name="g", locators=(Locator(name="l", from_file="-"),)))
        pipe.write(b"http://a/1\n\nhttp://a/")
        for _ in range(4):
            seeder.step()
        assert harness.urls() == ["http://a/1"], "a line without its end waits for the rest"
        progress = runs.get_seeding(harness.db, harness.run)
        assert progress is not None
        assert progress.as_dict() == {"list": "standard input", "read": 1, "total": None, "unusable": 0}
        pipe.write(b"2\r\nmailto:x@y")
        pipe.close()
        for _ in range(5):
            seeder.step()
        assert seeder.done
        assert harness.urls() == ["http://a/1", "http://a/2"]
        assert seeder.reader.problems == ["standard input:4: no usable URL: mailto:x@y (mailto: is not http or https)"]


def test_a_file_that_is_missing_is_named(harness: SeedingHarness, tmp_path: Path) -> None:
    group = LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(tmp_path / "gone")),))
    made = harness.seeding(group, retries=0)
    with pytest.raises(UsageError, match="gone"):
        for _ in range(9):
            made.step()


def test_an_interrupted_list_is_read_on_from_its_last_line(
    harness: SeedingHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 2)
    listed = tmp_path / "urls.txt"
    listed.write_text("".join(f"http://a/{number}\n" for number in range(10)))
    group = LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://b/",), from_file=str(listed)),))
    made = harness.seeding(group)
    for _ in range(4):
        made.step()
    progress = runs.get_seeding(harness.db, harness.run)
    assert progress is not None
    assert (progress.line, progress.offset, progress.total) == (4, 44, 10), "five are read, the last again"
    assert describe_seeding(progress) == "seeding 4 of 10 (40 %)"
    read_from = UrlList.read_from
    read: list[str] = []

    def record(self: UrlList, *start: Any) -> Iterator[tuple[int, str]]:
        for number, text in read_from(self, *start):
            read.append(text)
            yield number, text

    monkeypatch.setattr(UrlList, "read_from", record)
    harness.seed(group)
    assert read == [f"http://a/{number}" for number in range(4, 10)]
    assert harness.urls() == ["http://b/", *(f"http://a/{number}" for number in range(10))]
    assert runs.get_seeding(harness.db, harness.run) is None


def test_an_interrupted_list_that_changed_is_read_from_its_start(
    harness: SeedingHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_batch_size(monkeypatch, 2)
    listed = tmp_path / "urls.txt"
    listed.write_text("".join(f"http://a/{number}\n" for number in range(6)))
    group = LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(listed)),))
    made = harness.seeding(group)
    for _ in range(3):
        made.step()
    listed.write_text("http://a/new\n" + listed.read_text())
    harness.seed(group)
    assert sorted(harness.urls()) == [*(f"http://a/{number}" for number in range(6)), "http://a/new"]


def test_of_many_bad_seeds_the_first_are_told_and_all_are_counted(harness: SeedingHarness, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text("mailto:x@y\n" * 12_345 + "http://a/\n")
    seeder = harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(listed)),)))
    assert harness.urls() == ["http://a/"]
    assert len(seeder.reader.problems) == 10
    told = [text for (text,) in harness.db.all("SELECT text FROM events WHERE kind = 'seed' ORDER BY id")]
    assert len(told) == 11
    assert told[9] == f"{listed}:10: no usable URL: mailto:x@y (mailto: is not http or https)"
    assert told[10] == f"{listed}: 12,345 seeds give no job; events tell the first 10"


def test_a_list_in_utf_16_is_named(harness: SeedingHarness, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text("http://a/\n", "utf-16")
    with pytest.raises(UsageError, match=r"urls\.txt:1: the file is in UTF-16"):
        harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(listed)),)))


@pytest.mark.parametrize(
    ("size", "added", "seconds", "following"),
    [
        (2_000, 2_000, 0.01, 4_000),  # doubled at most
        (8_000, 8_000, 0.25, 9_600),
        (32_000, 32_000, 0.01, 32_000),
        (8_000, 8_000, 1.2, 2_000),  # others waited for so long
        (2_000, 2_000, 6.0, 500),
        (8_000, 30, 0.01, 8_000),  # too few to judge
        (8_000, 0, 0.01, 8_000),
    ],
)
def test_a_batch_is_as_large_as_others_can_wait_for(size: int, added: int, seconds: float, following: int) -> None:
    assert next_batch_size(size, added, seconds) == following


def test_after_a_slow_transaction_the_next_batch_is_smaller(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(0.0, 1.2)
    monkeypatch.setattr(seed_jobs, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    made = harness.seeding(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/{1..9000}",)),)))
    sizes = []
    while not made.done:
        made.step()
        sizes.append(len(harness.urls()))
    assert sizes[1:5] == [2_000, 2_500, 3_000, 3_500]


@pytest.mark.parametrize("name", ["u:canary@h.example/x", "htp:/u:canary@h.example", "data/u:ca/canary@h"])
def test_a_list_that_is_a_mistyped_url_shows_no_password(tmp_path: Path, name: str) -> None:
    group = LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(tmp_path / name)),))
    with pytest.raises(UsageError) as caught:
        check_seedable(Definitions(locator_groups=(group,)), None, allow_file=False)
    assert "canary" not in caught.value.message
    assert "cannot read" in caught.value.message


def test_a_base_url_with_an_unset_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    with pytest.raises(UsageError, match="base_url: environment variable UNSET is not set"):
        check_seedable(Definitions(), "http://u:%{env.UNSET}@a.example/", allow_file=False)


def test_a_sitemap_is_its_own_kind_of_job_and_not_counted_as_a_page(harness: SeedingHarness) -> None:
    harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", sitemap="http://a/sitemap.xml"),)))
    assert harness.db.all("SELECT kind, grp, ready FROM sequences") == [("sitemap", "g", 1)]
    assert sequences.count(harness.db, harness.run, "ready") == 0


def test_other_rules_for_a_sitemap_are_another_job_with_these_rules(harness: SeedingHarness) -> None:
    plain = Locator(name="l", sitemap="http://a/s.xml")
    for rules in (None, SitemapRules(allow=("/p/",)), SitemapRules(allow=("/q/",)), None):
        harness.seed(LocatorGroup(name="g", locators=(replace(plain, sitemap_rules=rules),)))
    rows = harness.db.all("SELECT j.url, l.id FROM jobs j JOIN locators l ON l.id = j.locator ORDER BY j.id")
    assert [url for url, _ in rows] == ["http://a/s.xml"] * 3
    stored = [locators.get_sitemap_rules(harness.db, locator) for _, locator in rows]
    assert stored == [None, SitemapRules(allow=("/p/",)), SitemapRules(allow=("/q/",))]


def test_a_sitemap_and_a_page_at_one_url_are_two_jobs(harness: SeedingHarness) -> None:
    harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/s",), sitemap="http://a/s"),)))
    assert harness.urls() == ["http://a/s", "http://a/s"]


def test_seeds_are_never_all_in_memory(harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    fix_batch_size(monkeypatch, 100)
    made = harness.seeding(LocatorGroup(name="g", locators=(Locator(name="l", urls=("http://a/{1..90000}",)),)))
    for _ in range(3):
        made.step()
    assert len(harness.urls()) == 200


def test_a_request_is_stored_with_unresolved_variables() -> None:
    locator = Locator(
        name="l", method="POST", headers={"B": "%{env.KEY}", "A": "1"}, cookies={"c": "2"}, body="q=%{env.Q}",
        content_type="text/plain",
    )  # fmt: skip
    assert orjson.loads(encode_request(locator, body=locator.body)) == {
        "method": "POST", "headers": [["B", "%{env.KEY}"], ["A", "1"]], "cookies": [["c", "2"]],
        "body": "q=%{env.Q}", "content_type": "text/plain",
    }  # fmt: skip


def test_credentials_are_no_part_of_the_url_of_a_job(harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P", "canary")
    urls = ("http://us:one@a/", "http://us:two@a/", "http://other:one@a/", "http://a/x", "http://u:%{env.P}@a/e")
    seeder = harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=urls),)))
    assert harness.urls() == ["http://a/", "http://a/", "http://a/x", "http://a/e"]  # one job for each user
    requests = [
        orjson.loads(row[0])
        for row in harness.db.all("SELECT l.request FROM jobs j, locators l ON l.id = j.locator ORDER BY j.id")
    ]
    assert [request.get("userinfo") for request in requests] == ["us:two", "other:one", None, "u:%{env.P}"]
    assert not seeder.reader.problems


def test_a_bad_url_is_reported_without_its_password(harness: SeedingHarness) -> None:
    listed = harness.folder / "list.txt"
    listed.write_text("http://us:canary@[/\n")
    group = LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(listed)),))
    assert harness.seed(group).reader.problems == [f"{listed}:1: no usable URL: http://[/ (not a valid URL)"]


def test_a_host_is_resolved_and_stored_and_other_variables_stay(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST", "shop.example")
    monkeypatch.setenv("KEY", "canary")
    key = harness.folder / "key"
    key.write_text(" canary\n")
    urls = ("http://%{env.HOST}:81/a?k=%{env.KEY}", f"http://u:%{{file.{key}}}@%{{env.HOST}}/%{{file.{key}}}/x")
    harness.seed(LocatorGroup(name="g", locators=(Locator(name="l", urls=urls),)))
    stored = harness.urls()
    assert stored[0] == "http://shop.example:81/a?k=%{env.KEY}"
    assert stored[1].startswith("http://shop.example/%%7Bfile.")
    assert [expand_url(url) for url in stored] == ["http://shop.example:81/a?k=canary", "http://shop.example/canary/x"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://a/?k=%{env.UNSET}", "environment variable UNSET is not set"),
        ("http://u:%{file./no/such}@a/", "%{file./no/such}: the file cannot be read: No such file or directory"),
        ("http://%{env.BAD}/", "the value of %{env.BAD} is not a host"),
    ],
)
def test_a_listed_url_with_an_unusable_variable_is_a_problem_with_its_line(
    harness: SeedingHarness, monkeypatch: pytest.MonkeyPatch, url: str, problem: str
) -> None:
    monkeypatch.setenv("BAD", "a/canary")
    listed = harness.folder / "list.txt"
    listed.write_text(f"http://a/x\n{url}\n")
    group = LocatorGroup(name="g", locators=(Locator(name="l", from_file=str(listed)),))
    assert harness.seed(group).reader.problems == [f"{listed}:2: {problem}"]
    assert harness.urls() == ["http://a/x"]
