"""scoopi.properties: what each key sets, warns of or refuses, and which file is read."""

from pathlib import Path

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.settings import Settings, load_settings, resolve_settings
from crawl_engine.settings.scoopi_properties import read_scoopi_properties


def load(folder: Path, text: str) -> Settings:
    (folder / "scoopi.properties").write_text(text)
    return load_settings({}, environment={}, folder=folder / "none", properties=read_scoopi_properties(folder).values)


def warnings(folder: Path, text: str) -> list[str]:
    (folder / "scoopi.properties").write_text(text)
    return [str(each).removeprefix(f"{folder}/") for each in read_scoopi_properties(folder).warnings]


@pytest.mark.parametrize(
    ("line", "setting", "value"),
    [
        ("scoopi.defs.defaultSteps=htmlUnitDefault", "default_steps", "htmlUnitDefault"),
        ("scoopi.defs.defaultSteps=mine", "default_steps", "mine"),
        ("scoopi.fact.notFound.replaceWith=n/a", "fact_not_found", "n/a"),
        ("scoopi.fact.blank.replaceWith=~", "fact_blank", "~"),
        ("scoopi.fact.replaceWith = ~", "fact_blank", "~"),
        ("scoopi.fact.replaceWith=", "fact_blank", ""),
        ("scoopi.fact.replaceWith=~\nscoopi.fact.blank.replaceWith=+", "fact_blank", "+"),
        ("scoopi.fact.blank.replace=false", "fact_blank", ""),
        ("scoopi.fact.replaceBlank=false\nscoopi.fact.replaceWith=~", "fact_blank", ""),
        ("scoopi.fact.replaceBlank=true\nscoopi.fact.replaceWith=~", "fact_blank", "~"),
        ("scoopi.fact.replaceBlank=true", "fact_blank", "-"),
        ("scoopi.dateTimePattern=dd-MM-yyyy HH:mm:ss.SSS", "date_time_pattern", "dd-MM-yyyy HH:mm:ss.SSS"),
        ("scoopi.runDateTimeText=2017-01-31T09:05:00", "run_time", "2017-01-31T09:05:00"),
        ("scoopi.seeder.seedRetryTimes=7", "seed_retries", 7),
        ("scoopi.loader.fetch.delay=1500", "delay", 1.5),
        ("scoopi.loader.fetchDelay=250", "delay", 0.25),
        ("scoopi.loader.fetchDelay=250\nscoopi.loader.fetch.delay=0", "delay", 0.0),
        ("scoopi.loader.fetch.parallelism=3", "host_concurrency", 3),
        ("scoopi.webClient.timeout=120000", "deadline", 120.0),
        (r"scoopi.webClient.userAgent=Mozilla/5.0 (X11\; Linux)", "user_agent", "Mozilla/5.0 (X11; Linux)"),
        ("scoopi.useDatastore=false", "documents", False),
        ("scoopi.datastore.enable=False", "documents", False),
        ("scoopi.persist.locator=no", "documents", False),
        ("scoopi.useDatastore=true\nscoopi.persist.locator=false", "documents", False),
        ("scoopi.useDatastore=true", "documents", True),
        ("scoopi.defs.dir=/defs/examples", "documents", True),
    ],
)
def test_each_key_sets_its_setting(tmp_path: Path, line: str, setting: str, value: object) -> None:
    loaded = getattr(load(tmp_path, line), setting)
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize(
    "key",
    [
        "persist.data", "persist.dataDef", "defs.defaultStepsFile", "defs.definedSchema", "defs.effectiveSchema",
        "poolsize.loader", "appender.queuesize", "webDriver.driverPath", "webDriver.timeout.implicitlyWait", "highDate",
        "dateParsePattern", "dateTimeParsePattern", "outputDirTimestampPattern", "wait", "fork.jvm", "cluster.mode",
        "job.takeTimeout", "task.takeTimeout", "metrics.server.port", "datastore.name", "seeder.class",
        "propertyPattern", "mode",
    ],
)  # fmt: skip
def test_a_key_without_meaning_is_a_warning_with_its_reason(tmp_path: Path, key: str) -> None:
    text = f"\n scoopi.{key} = 3\nscoopi.defs.dir=/defs\nlog4j.level=INFO"
    (warning,) = warnings(tmp_path, text)
    start = f"scoopi.properties:2:2: warning no-meaning `scoopi.{key}` has no meaning here: "
    assert warning.startswith(start)
    assert len(warning) > len(start)


def test_unknown_and_unused_keys_are_warnings(tmp_path: Path) -> None:
    text = "scoopi.webClient.timeOut=1\nscoopi.xyzzy=1\nscoopi.fact.replaceWith=a\nscoopi.fact.blank.replaceWith=b\n"
    assert warnings(tmp_path, text + "scoopi.mode=x\nscoopi.mode=y\n") == [
        "scoopi.properties:1:1: warning unknown-key unknown key 'scoopi.webClient.timeOut'"
        " (did you mean 'scoopi.webClient.timeout'?)",
        "scoopi.properties:2:1: warning unknown-key unknown key 'scoopi.xyzzy'",
        "scoopi.properties:3:1: warning no-effect `scoopi.fact.replaceWith` has no effect:"
        " `scoopi.fact.blank.replaceWith` is given",
        "scoopi.properties:5:1: warning duplicate-key `scoopi.mode` is written again in line 6, which counts",
        "scoopi.properties:6:1: warning no-meaning `scoopi.mode` has no meaning here:"
        " there is one mode; --set changes single settings",
    ]


@pytest.mark.parametrize(
    ("line", "column", "message", "remedy"),
    [
        ("scoopi.webClient.timeout=abc", 26, "scoopi.webClient.timeout cannot be 'abc'", "milliseconds"),
        ("scoopi.webClient.timeout=", 1, "scoopi.webClient.timeout cannot be ''", "milliseconds"),
        ("scoopi.webClient.timeout=1²", 26, "scoopi.webClient.timeout cannot be '1²'", "milliseconds"),
        (
            f"scoopi.webClient.timeout={'9' * 400}",
            26,
            f"scoopi.webClient.timeout cannot be '{'9' * 100}'",
            "between 0.1 and 3,600",
        ),
        ("scoopi.webClient.timeout=50", 26, "scoopi.webClient.timeout cannot be '50'", "between 0.1 and 3,600"),
        (
            "scoopi.loader.fetch.delay=-1",
            27,
            "scoopi.loader.fetch.delay cannot be '-1'",
            "seconds between 0 and 86,400",
        ),
        ("scoopi.seeder.seedRetryTimes=-1", 30, "scoopi.seeder.seedRetryTimes cannot be '-1'", "between 0 and 100"),
        ("scoopi.loader.fetch.parallelism=x", 33, "scoopi.loader.fetch.parallelism cannot be 'x'", "an integer"),
        ("scoopi.useDatastore=maybe", 21, "scoopi.useDatastore cannot be 'maybe'", "true or false"),
        ("scoopi.fact.replaceBlank=2", 26, "scoopi.fact.replaceBlank cannot be '2'", "true or false"),
        ("scoopi.webClient.userAgent=ü", 28, "scoopi.webClient.userAgent cannot be 'ü'", "ASCII"),
        ("scoopi.dateTimePattern=dd-QQ", 24, "scoopi.dateTimePattern cannot be 'dd-QQ'", "Java date pattern"),
        ("scoopi.runDateTimeText=today", 24, "run_time cannot be 'today'", "`date_time_pattern`"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error(
    tmp_path: Path, line: str, column: int, message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as raised:
        load(tmp_path, f"# mine\n{line}\n")
    assert raised.value.message == f"{tmp_path}/scoopi.properties:2:{column}: {message}"
    assert remedy in raised.value.remedy
    assert raised.value.exit_code == 2


def test_every_other_place_wins(tmp_path: Path) -> None:
    keys = ("webClient.timeout=1000", "loader.fetch.delay=2000", "fact.notFound.replaceWith=a", "fact.replaceWith=b")
    (tmp_path / "scoopi.properties").write_text("".join(f"scoopi.{key}\n" for key in keys))
    (tmp_path / "crawl.toml").write_text("delay = 3\nfact_not_found = 'toml'\nfact_blank = 'toml'\n")
    values = read_scoopi_properties(tmp_path).values
    environment = {"CRAWL_FACT_NOT_FOUND": "env", "CRAWL_FACT_BLANK": "env"}
    resolved = {
        setting.name: (setting.value, setting.origin)
        for setting in resolve_settings(
            {"fact_blank": "set"}, environment=environment, folder=tmp_path, properties=values
        )
    }
    assert resolved["deadline"] == (1.0, f"{tmp_path}/scoopi.properties:1:26")
    assert resolved["delay"] == (3.0, "crawl.toml:1")
    assert resolved["fact_not_found"] == ("env", "env CRAWL_FACT_NOT_FOUND")
    assert resolved["fact_blank"] == ("set", "--set fact_blank")
    assert resolved["host_concurrency"] == (8, "default")


def test_an_overridden_value_is_not_validated(tmp_path: Path) -> None:
    (tmp_path / "scoopi.properties").write_text("scoopi.webClient.timeout=abc\n")
    values = read_scoopi_properties(tmp_path).values
    assert load_settings({"deadline": "5"}, environment={}, folder=tmp_path, properties=values).deadline == 5


def test_the_file_lies_beside_the_defs_or_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    deep = Path("deep/defs")
    Path("defs").mkdir()
    deep.mkdir(parents=True)
    Path("defs/shop.yml").touch()

    def place(defs: Path) -> str | None:
        value = read_scoopi_properties(defs).values.get("seed_retries")
        return None if value is None else value.place

    assert place(Path("defs")) is None
    Path("scoopi.properties").write_text("scoopi.seeder.seedRetryTimes=1")
    assert place(Path("defs")) == place(Path("defs/shop.yml")) == place(Path()) == "scoopi.properties:1:30"
    assert place(deep) is None, "the directory above is not where crawl.toml is read"
    Path("defs/scoopi.properties").write_text("scoopi.seeder.seedRetryTimes=2")
    assert place(Path("defs")) == place(Path("defs/shop.yml")) == "defs/scoopi.properties:1:30"
    (warning,) = read_scoopi_properties(Path("defs")).warnings
    assert str(warning) == (
        "scoopi.properties:1:1: warning unread-file not read: defs/scoopi.properties is nearer to the defs"
    )
