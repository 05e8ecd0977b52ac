"""What commands say of wrong input: the cause, the place, and what to do; with exit code 2, and nothing done."""

import os
from pathlib import Path

import pytest

from crawl_console.cli.main import main
from tests.contract.store.harness import StoreHarness
from tests.contract.store.step_reports import publish_steps

DEFS = """\
locatorGroups: {g: {locators: [{url: "http://a/"}]}}
taskGroups: {g: {list: {dataDef: book}}}
dataDefs: {book: {fields: {title: {selector: h1}}}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "shop.yml").write_text(DEFS)
    return tmp_path


def invoke(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rum", "No such command 'rum' (did you mean 'run'?)"),
        ("help statsu", "No such command 'statsu' (did you mean 'status'?)"),
        ("--data x status", "A command stands before its options: crawl-console status …"),
        ("--data x jobs --match y", "A command stands before its options: crawl-console jobs …"),
        ("query SELECT --json --csv", "--json, --csv and --table exclude each other"),
        ("query SELECT --table --csv", "--json, --csv and --table exclude each other"),
        ("try http://a/ book", "The name stands before the page: try book http://a/"),
        ("run --no-ui -o out.txt", "-o out.txt: unknown suffix '.txt'"),
        ("run --no-ui -o out", "-o out: unknown suffix ''"),
        ("run --no-ui -o out.xls", "Use .csv, .jsonl, .json, .parquet, .xlsx, .db, .sqlite or .duckdb."),
        ("export -o out.txt", "Use .csv, .jsonl, .json, .parquet, .xlsx, .db, .sqlite or .duckdb, or give --format."),
        ("run --no-ui --grace 100 --stop-within 5", "--grace: 100 s is longer than --stop-within, 5 s"),
        (
            "run --no-ui --set grace=2m --set stop_within=1m",
            "--set grace: 120 s is longer than --set stop_within, 60 s",
        ),
        ("shell nofile.html", "Give a file, or an http:// or https:// URL.\n"),
        ("shell 127.0.0.1:8765/x", "127.0.0.1:8765/x: no such file (http:// missing?)"),
        ("try book localhost:8765/x", "localhost:8765/x: no such file (http:// missing?)"),
        ("try book page.html", "page.html: no such file\n"),
        ("check nodefs", "'nodefs' does not exist in {folder};"),
        ("check data", "'{folder}/data' has no .yml or .yaml file"),
        ("cancel", "data: no supervisor is running: `cancel` has no run to act on"),
        ("export book", "data: no run yet\n  Start one with `crawl-console run`, or give --data."),
        ("export --changes", "data: no run yet\n  Start one with"),
        ("export book --since aaaaaa --data data", "no run yet\n  Start one with"),
        ("host a --pause", "data: no supervisor is running: `host` has no run to act on"),
    ],
)
def test_wrong_input_is_refused(capsys: pytest.CaptureFixture[str], folder: Path, line: str, says: str) -> None:
    (folder / "data").mkdir()
    code, out, error = invoke(capsys, *line.split())
    assert (code, out) == (2, "")
    assert says.format(folder=folder) in error
    assert os.listdir(folder / "data") == []


@pytest.mark.parametrize("command", ["run --no-ui", "status", "jobs", "export", "cancel", "state", "logs", "extract"])
def test_a_file_is_not_a_data_dir(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, error = invoke(capsys, *command.split(), "--data", "defs/shop.yml")
    assert (code, out) == (3, "")
    assert "defs/shop.yml: a file, not a folder" in error
    assert "permissions" not in error


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("127.0.0.1/c",), "no usable URL: 127.0.0.1/c (http:// missing?)"),
        (("shop.example:8080",), "no usable URL: shop.example:8080 (http:// missing?)"),
        (("www.shop.example",), "no usable URL: www.shop.example (http:// missing?)"),
        (("[::1]:80/x",), "no usable URL: [::1]:80/x (http:// missing?)"),
        (("/c",), "no usable URL: /c (a relative URL, and no base is set)"),
        (("page.html",), "no usable URL: page.html (a relative URL, and no base is set)"),
        (("ftp://x/y",), "no usable URL: ftp://x/y (ftp: is not http or https)"),
        (("http://[0",), "no usable URL: http://[0 (not a valid URL)"),
        (("--from", "nofile"), "nofile: No such file or directory\n  Check the path of the list and its permissions."),
    ],
)
def test_a_seed_that_gives_no_job_says_why(
    store: StoreHarness, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    publish_steps(store)
    code, out, error = invoke(capsys, "seed", "g", *words, "--data", str(store.folder))
    assert (code, out) == (2, "0 jobs added to g\n")
    assert says in error
    assert "locator" not in error


@pytest.mark.parametrize("base", ["", 'baseUrl: "http://b/"\n'])
@pytest.mark.parametrize("url", ["127.0.0.1:8765/x", "localhost:80", "shop.example:8080/a?b"])
def test_a_locator_of_host_and_port_lacks_its_scheme(
    capsys: pytest.CaptureFixture[str], folder: Path, url: str, base: str
) -> None:
    (folder / "defs" / "shop.yml").write_text(base + DEFS.replace("http://a/", url))
    code, _, error = invoke(capsys, "check")
    assert code == 2
    assert f"bad-url `url`: '{url}' has no scheme; write `http://{url}`" in error


@pytest.mark.parametrize("url", ["127.0.0.1/x", "shop.example/x", "www.shop.example"])
def test_a_locator_without_a_scheme_says_so(capsys: pytest.CaptureFixture[str], folder: Path, url: str) -> None:
    (folder / "defs" / "shop.yml").write_text(DEFS.replace("http://a/", url))
    code, _, error = invoke(capsys, "run", "--no-ui")
    assert code == 2
    assert f"relative URL '{url}' (http:// missing?)" in error
    assert f"relative URL '{url}' (http:// missing?)" in invoke(capsys, "check")[2]


def test_each_mistake_of_crawl_toml_is_said(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "crawl.toml").write_text('run_time = "x"\ngrace = 9\nstop_within = 5\nmax_pages = 0\nnodse = 2\n')
    code, _, error = invoke(capsys, "check")
    assert code == 2
    for says in ("1: run_time cannot be 'x'", "2: 9 s is longer than crawl.toml:3, 5 s", "4: max_pages", "5: unknown"):
        assert f"crawl.toml:{says}" in error


@pytest.mark.parametrize(("command", "says"), [("jobs", "foo:bar"), ("exclude", "hots:x"), ("retry", "stat:failed")])
def test_an_unknown_filter_key_is_refused(
    store: StoreHarness, capsys: pytest.CaptureFixture[str], command: str, says: str
) -> None:
    store.seed("http://a/1")
    code, out, error = invoke(capsys, command, "--match", says, "--data", str(store.folder))
    assert (code, out) == (2, "")
    assert f"unknown key '{says.partition(':')[0]}'" in error
    assert store.jobs() == [("http://a/1", "READY")]
