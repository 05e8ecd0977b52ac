import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from crawl_engine import __version__
from crawl_engine.errors import UsageError
from crawl_engine.model.node import NodeRange
from crawl_engine.settings import Settings, declaration, load_settings, parse_assignment, resolve_settings
from crawl_engine.settings.declaration import default_nodes
from crawl_engine.settings.load import Setting
from crawl_engine.settings.values import duration_seconds


def _origins(resolved: list[Setting]) -> dict[str, tuple[Any, str]]:
    return {s.name: (s.value, s.origin) for s in resolved}


def test_flags_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text("delay = 1.5\nbatch = 5\ngrace = 3\n")
    environment = {"CRAWL_DELAY": "2.5", "CRAWL_BATCH": "6", "OTHER": "x"}
    values = _origins(resolve_settings({"delay": "3.5", "grace": None}, environment=environment, folder=tmp_path))
    assert values["delay"] == (3.5, "--set delay")
    assert values["batch"] == (6, "env CRAWL_BATCH")
    assert values["grace"] == (3.0, "crawl.toml:3")
    assert values["deadline"] == (30.0, "default")
    assert list(values) == [f.name for f in fields(Settings)]


def test_load_returns_the_resolved_values(tmp_path: Path) -> None:
    loaded = load_settings({"robots": "no", "max_pages": 9}, environment={"CRAWL_MAX_TIME": "5"}, folder=tmp_path)
    assert (loaded.robots, loaded.max_pages, loaded.max_time) == (False, 9, 5.0)


def test_defaults_are_those_of_the_design(tmp_path: Path) -> None:
    loaded = load_settings({}, environment={}, folder=tmp_path)
    values = {
        "backups": 0, "concurrency": 32, "batch": 32, "grace": 25.0, "deadline": 30.0, "max_attempts": 4,
        "max_body": 10_000_000, "max_redirects": 10, "max_failed": 0, "robots": True, "delay": 0.0,
        "host_concurrency": 8, "live": "PT0S", "on_reload": "reextract", "refresh": 2.0, "cpu_affinity": "auto",
        "max_pages": None, "max_time": None, "min_free": 64_000_000, "helpers": None, "on_start": None,
        "store": None, "project": None, "page_store": None, "on_end": None, "on_alarm": None, "notify": None,
        "base_url": None,
        "allow_file": False, "default_steps": "jsoupDefault", "fact_blank": "-", "fact_not_found": "not found",
    }  # fmt: skip
    assert {name: getattr(loaded, name) for name in values} == values
    assert loaded.nodes == default_nodes()
    assert loaded.user_agent.startswith("crawl-console/")


@pytest.mark.parametrize(("cpus", "nodes"), [(1, 2), (2, 2), (3, 3), (4, 4), (64, 4)])
def test_up_to_one_node_for_each_cpu_at_least_two_at_most_four(
    monkeypatch: pytest.MonkeyPatch, cpus: int, nodes: int
) -> None:
    monkeypatch.setattr(declaration, "usable_cpus", lambda: cpus)
    assert default_nodes() == NodeRange(1, nodes)


GOOD: list[tuple[str, Any, Any]] = [
    ("robots", "true", True), ("robots", "No", False), ("robots", False, False), ("robots", "1", True),
    ("nodes", "3", NodeRange(3, 3)), ("nodes", 3, NodeRange(3, 3)), ("nodes", "1-4", NodeRange(1, 4)),
    ("nodes", "2-2", NodeRange(2, 2)), ("node_wait", "250ms", 0.25), ("node_idle", "2m", 120.0),
    ("max_body", "20_000_000", 20_000_000), ("max_pages", "none", None),
    ("max_pages", "", None), ("max_time", "0.5", 0.5), ("delay", 2, 2.0), ("user_agent", "me", "me"),
    ("on_reload", "new_only", "new_only"), ("cpu_affinity", "off", "off"),
    ("store", "postgres:///x?host=/run/pg", "postgres:///x?host=/run/pg"), ("project", "shop_2", "shop_2"),
    ("page_store", "s3://crawls/pages/", "s3://crawls/pages/"), ("page_store", "file:///srv/pages", "file:///srv/pages"),
    ("base_url", "none", None), ("base_url", "http://a/", "http://a/"),
    ("fact_blank", "none", "none"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "written", "read"), GOOD)
def test_values_are_read_by_their_type(name: str, written: Any, read: Any) -> None:
    got = getattr(load_settings({name: written}, environment={}), name)
    assert got == read
    assert type(got) is type(read)


BAD: list[tuple[str, Any]] = [
    ("nodes", "-1"), ("nodes", "two"), ("nodes", "1.5"), ("nodes", True), ("nodes", "0"), ("nodes", "0-4"),
    ("nodes", "4-1"), ("nodes", "1-"), ("nodes", "1-2-3"), ("nodes", ""), ("node_wait", 0), ("node_idle", "-1"),
    ("batch", "0"), ("concurrency", 0),
    ("delay", "-0.1"), ("delay", "nan"), ("deadline", "0"), ("max_attempts", 0), ("refresh", "0"), ("max_pages", "0"),
    ("robots", "maybe"), ("robots", 2), ("on_reload", "never"), ("cpu_affinity", "0,1"),
    ("cpu_affinity", False), ("max_time", "soon"), ("grace", []), ("seed_retries", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "written"), BAD)
def test_an_invalid_value_is_rejected_with_its_origin(name: str, written: Any) -> None:
    with pytest.raises(UsageError) as raised:
        load_settings({name: written}, environment={})
    assert raised.value.message == f"--set {name}: {name} cannot be {written!r}"
    assert raised.value.remedy
    assert raised.value.exit_code == 2


def test_the_error_names_the_variable_or_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="env CRAWL_NODES: nodes cannot be 'x'"):
        load_settings({}, environment={"CRAWL_NODES": "x"}, folder=tmp_path)
    (tmp_path / "crawl.toml").write_text("nodes = 'x'")
    with pytest.raises(UsageError, match=r"crawl\.toml:1: nodes cannot be 'x'"):
        load_settings({}, environment={}, folder=tmp_path)


def test_an_overridden_value_is_not_validated(tmp_path: Path) -> None:
    assert load_settings({"nodes": "3"}, environment={"CRAWL_NODES": "x"}, folder=tmp_path).nodes.least == 3


def test_a_range_of_nodes_is_read_from_every_place(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text('nodes = "1-4"')
    assert load_settings({}, environment={}, folder=tmp_path).nodes == NodeRange(1, 4)
    assert load_settings({}, environment={"CRAWL_NODES": "2-3"}, folder=tmp_path).nodes == NodeRange(2, 3)
    assert str(load_settings({"nodes": "1-2"}, flags={"nodes": NodeRange(1, 8)}, folder=tmp_path).nodes) == "1-8"
    with pytest.raises(UsageError, match="nodes cannot be '4-1'") as raised:
        load_settings({"nodes": "4-1"}, environment={})
    assert "a range from the least to the most, such as 1-4" in raised.value.remedy


def test_unknown_names_are_rejected_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--set: unknown setting 'nodse' \(did you mean 'nodes'\?\)"):
        load_settings({"nodse": 3}, environment={}, folder=tmp_path)
    (tmp_path / "crawl.toml").write_text("dealy = 1")
    with pytest.raises(UsageError, match=r"crawl\.toml:1: unknown setting 'dealy' \(did you mean 'delay'\?\)"):
        load_settings({}, environment={}, folder=tmp_path)


@pytest.mark.parametrize("text", [b"delay = ", b"delay = 1\ndelay = 2", b"\xff\xfe"])
def test_an_unreadable_file_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "crawl.toml").write_bytes(text)
    with pytest.raises(UsageError, match=r"crawl\.toml"):
        load_settings({}, environment={}, folder=tmp_path)


def test_set_has_name_and_value() -> None:
    assert parse_assignment("delay=0.5") == ("delay", "0.5")
    assert parse_assignment("host-concurrency = 4 ") == ("host_concurrency", "4")
    assert parse_assignment("user_agent=a=b") == ("user_agent", "a=b")
    with pytest.raises(UsageError, match="not of the form NAME=VALUE"):
        parse_assignment("delay")
    with pytest.raises(UsageError, match="did you mean 'delay'"):
        parse_assignment("delya=1")


def test_children_receive_the_same_settings() -> None:
    loaded = load_settings({"nodes": "1-3", "max_time": 2.5, "base_url": "http://ü/"}, environment={})
    assert Settings.from_json(loaded.to_json()) == loaded
    assert "\n" not in loaded.to_json()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT0S", 0), ("PT15M", 900), ("PT1H30M", 5400), ("P1D", 86400), ("P2W", 1_209_600), ("PT0.5S", 0.5),
        ("P1DT1S", 86401),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds
    assert load_settings({"live": text}, environment={}).live_seconds == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "15M", "1h", "P1Y", "P1M", "soon"])
def test_a_duration_without_fixed_length_is_rejected(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        duration_seconds(text)
    assert text in raised.value.message
    assert raised.value.remedy


@pytest.mark.parametrize("text", ["PT5", "PT1H30", "-PT5S"])
def test_incomplete_and_negative_durations_are_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        duration_seconds(text)


def test_an_invalid_duration_is_rejected_when_settings_are_loaded() -> None:
    with pytest.raises(UsageError):
        load_settings({"live": "banana"}, environment={})


@pytest.mark.parametrize(
    ("text", "pattern", "reads"),
    [
        ("2024-01-31T09:05:00Z", None, True), ("2024-01-31", "dd-MM-yyyy", True), ("31-01-2024", "dd-MM-yyyy", True),
        ("31-01-2024", None, False), ("soon", "dd-MM-yyyy", False), ("0001-01-01T00:00+05:00", None, False),
    ],
)  # fmt: skip
def test_the_run_time_is_iso_8601_or_of_the_pattern(
    tmp_path: Path, text: str, pattern: str | None, reads: bool
) -> None:
    assigned = {"run_time": text, "date_time_pattern": pattern}
    if reads:
        assert load_settings(assigned, environment={}, folder=tmp_path).run_time == text
        return
    with pytest.raises(UsageError, match=f"--set run_time: run_time cannot be '{re.escape(text)}'") as raised:
        load_settings(assigned, environment={}, folder=tmp_path)
    assert "ISO 8601" in raised.value.remedy
    assert (pattern or "which is not set") in raised.value.remedy


@pytest.mark.parametrize("contact", ["https://acme.example/bot", "bot@acme.example"])
def test_the_contact_becomes_part_of_the_user_agent(contact: str, tmp_path: Path) -> None:
    loaded = load_settings({"contact": contact}, environment={}, folder=tmp_path)
    assert loaded.full_user_agent == f"crawl-console/{__version__} (+{contact})"


@pytest.mark.parametrize("contact", ["", "none", None])
def test_without_a_contact_the_user_agent_is_the_name_alone(contact: str | None, tmp_path: Path) -> None:
    assert load_settings({"contact": contact}, environment={}, folder=tmp_path).full_user_agent == (
        f"crawl-console/{__version__}"
    )


@pytest.mark.parametrize("contact", ["me", "https://a b", "x@y\nEvil: 1", "https://a.example/) x", "@"])
def test_a_contact_that_is_no_url_or_address_is_refused(contact: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contact cannot be"):
        load_settings({"contact": contact}, environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('robots = "false"', "robots cannot be 'false'"),
        ('nodes = "3"', "nodes cannot be '3'"),
        ('user_agent = ""', "user_agent cannot be ''"),
        ('user_agent = "a\\nb"', r"user_agent cannot be 'a\nb'"),
        ('base_url = "example"', "base_url cannot be 'example'"),
        ('live = "banana"', "live: 'banana' is not an ISO 8601 duration"),
        ("colour = 1", "unknown setting 'colour'"),
        ("[colour]", "unknown setting 'colour'"),
    ],
)
def test_crawl_toml_is_checked_by_type_and_place(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "crawl.toml").write_text(f'# mine\ndelay = 0.5\nmax_pages = "none"\ndeadline = "1m"\n\n{line}\n')
    with pytest.raises(UsageError, match=rf"^crawl\.toml:6: {re.escape(message)}"):
        load_settings({}, environment={}, folder=tmp_path)


def test_a_value_is_blamed_on_where_it_was_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--base-url: base_url cannot be 'x'"):
        load_settings({}, flags={"base_url": "x"}, environment={}, folder=tmp_path)
    with pytest.raises(UsageError, match=r"^--set base_url: base_url cannot be 'x'"):
        load_settings({"base_url": "x"}, environment={}, folder=tmp_path)
    with pytest.raises(UsageError, match=r"^env CRAWL_BASE_URL: base_url cannot be 'x'"):
        load_settings({}, environment={"CRAWL_BASE_URL": "x"}, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("store", "mysql://h/x"), ("store", "host=h dbname=x"), ("store", "postgresql://u:sec@ret@h/x"),
     ("project", "Shop"), ("project", "2shop"), ("project", "a" * 41), ("project", 'a"b'), ("project", "pg_x"),
     ("page_store", "/srv/pages"), ("page_store", "file://srv/pages"), ("page_store", "http://x/y"),
     ("page_store", "s3://key@x/y"), ("page_store", "s3://x//y"), ("page_store", "s3://x/../y")],
)  # fmt: skip
def test_a_store_or_project_that_cannot_be_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be") as refused:
        load_settings({name: value}, environment={})
    assert "ret@h" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["host=h dbname=x password=hunter2", "hunter2", "postgresql:///x?host=h&password = hunter2", "postgresql:hunter2",
     "mysql://u:hunter2@h/x", "postgres//u:hunter2@h/x", "postgresql://u:p w&hunter2@h/x", "mysql://h/x?token=hunter2"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["store", "page_store"])
def test_a_store_that_is_refused_is_not_quoted_where_it_may_have_a_password(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be") as refused:
        load_settings({name: text}, environment={})
    assert "hunter2" not in str(refused.value)
    assert "postgresql://" in refused.value.remedy or "s3://" in refused.value.remedy


def test_two_settings_are_read_alone(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text('store = "postgresql:///x"\ncolour = 1\nnodes = "x"\n')
    read = resolve_settings({}, environment={"CRAWL_PROJECT": "shop"}, folder=tmp_path, names=("store", "project"))
    assert [(one.value, one.origin) for one in read] == [
        ("postgresql:///x", "crawl.toml:1"), ("shop", "env CRAWL_PROJECT"),
    ]  # fmt: skip


def test_child_processes_get_no_password_of_a_store() -> None:
    assert "secret" not in load_settings({"store": "postgresql://u:secret@h/x"}, environment={}).to_json()
