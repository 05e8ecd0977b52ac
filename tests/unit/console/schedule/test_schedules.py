"""Units, crontab lines and manifests of `schedule`: their own checkers, foreign files, odd paths, the list."""

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from crawl_console.cli.main import crawl_console, main
from crawl_console.schedule import systemd
from crawl_console.schedule.schedule import QUIET_CODES
from crawl_engine.runtime.extras import has_extra

DEFS = """\
locatorGroups: {books: {locators: [{name: start, url: "http://127.0.0.1:9/"}]}}
taskGroups: {books: {list: {dataDef: book}}}
dataDefs: {book: {query: {block: article}, fields: {title: {selector: h3}}}}
"""
NOBODY = pwd.getpwnam("nobody").pw_uid
ODD = 'my $HOME\'s 100% "shop"'
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
FAKE_CRONTAB = """\
#!/bin/sh
table="$(dirname "$0")/table"
case "$1" in
-l) [ -f "$table" ] && cat "$table" || { echo "no crontab for $USER" >&2; exit 1; } ;;
-) cat >"$table" ;;
esac
"""
FAKE_CRAWL = '#!/bin/sh\nprintf "%s\\n" "$@" >"$SEEN"\npwd >>"$SEEN"\necho "SECRET=$SECRET" >>"$SEEN"\nexit $CODE\n'


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder with an odd name, and a home of its own."""
    folder = tmp_path / ODD
    folder.mkdir()
    (folder / "defs.yml").write_text(DEFS)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(crawl_console, ["schedule", *words], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.return_value or done.exit_code, done.stdout, done.stderr


def units(tmp_path: Path, *options: str) -> dict[str, Path]:
    """The printed units as files, by their suffixes."""
    _, out, _ = call("shop", "--at", "Mon 03:30", "--systemd", "--defs", "defs.yml", *options)
    parts = re.split(r"^# (/.*)$", out, flags=re.MULTILINE)[1:]
    files = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        path = tmp_path / Path(name).name
        path.write_text(text.lstrip("\n"))
        files[path.suffix if "@" not in path.name else "mail"] = path
    return files


@needs_systemd
@pytest.mark.parametrize("is_system", [True, False])
def test_systemd_accepts_the_units_and_their_hardening(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_system: bool
) -> None:
    monkeypatch.setattr(systemd, "_makes_namespaces", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if is_system else NOBODY)
    files = units(tmp_path)
    assert set(files) == {".timer", ".service", "mail"}
    mail = files["mail"].rename(tmp_path / "crawl-console-mail@x.service")
    checked = [str(files[".timer"]), str(files[".service"]), str(mail)]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *checked], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=30", str(files[".service"])],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_unit_starts_this_program_at_these_places(shop: Path, tmp_path: Path) -> None:
    given = "--fresh", "--only-new", "--max-pages", "90", "--nodes", "1-4", "--set", "user_agent=100% $me/1"
    text = units(tmp_path, *given)[".service"].read_text()
    (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]
    program = [str(Path(sys.executable).with_name("crawl-console"))]
    assert words == [
        *program, "run", "--no-ui", "--defs", f"{shop}/defs.yml", "--data", f"{shop}/data",
        *given,
    ]  # fmt: skip
    assert f"WorkingDirectory={shop}".replace("%", "%%") in text
    assert f"SuccessExitStatus={' '.join(map(str, QUIET_CODES))}\n" in text


@pytest.mark.skipif(not has_extra("browser"), reason="needs playwright")
def test_a_browser_keeps_its_sandbox(shop: Path, tmp_path: Path) -> None:
    (shop / "defs.yml").write_text(DEFS.replace("books: {list", "books: {loader: browser, list"))
    text = units(tmp_path)[".service"].read_text()
    assert "RestrictNamespaces=user pid net\n" in text
    assert "SystemCallFilter=@system-service chroot\n" in text


def run_line(line: str, tmp_path: Path, code: int) -> tuple[str, list[str]]:
    """Run the command of a crontab line as cron does; returns what it printed, and what the crawl was given."""
    command = re.sub(r"^(?:\S+ ){5}", "", line).replace(r"\%", "%")
    seen = tmp_path / "seen"
    environment = {"PATH": os.environ["PATH"], "SEEN": str(seen), "CODE": str(code)}
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, env=environment, cwd="/")
    return done.stdout + done.stderr, seen.read_text().splitlines() if seen.exists() else []


@pytest.mark.parametrize(("code", "mails"), [(0, False), (1, True), (2, True), (3, True), (4, False), (143, False)])
def test_a_line_of_cron_mails_failures_alone(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, mails: bool
) -> None:
    program = tmp_path / "crawl-console"
    program.write_text(FAKE_CRAWL)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (shop / "crawl.env").write_text("SECRET='two words'\n")
    mark, line = call("shop", "--at", "03:30", "--cron", "--defs", "defs.yml")[1].splitlines()
    assert json.loads(mark.removeprefix("# crawl-console schedule "))["data"] == f"{shop}/data"
    assert line.startswith("30 3 * * * ")
    assert re.search(r"(?<!\\)%", line) is None
    said, seen = run_line(line, tmp_path, code)
    words = ["run", "--no-ui", "--defs", f"{shop}/defs.yml", "--data", f"{shop}/data"]
    assert seen == [*words, str(shop), "SECRET=two words"]
    assert (f"crawl shop: exit code {code}, see {shop}/data/logs/schedule.log" in said) is mails
    assert mails or said == ""


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock")
def test_a_line_of_cron_does_nothing_while_the_last_one_runs(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "crawl-console"
    program.write_text(FAKE_CRAWL)
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    line = call("shop", "--at", "hourly", "--cron", "--defs", "defs.yml")[1].splitlines()[1]
    lock = shop / "data/logs/schedule.lock"
    lock.parent.mkdir(parents=True)
    holder = subprocess.Popen(["flock", str(lock), "sh", "-c", "echo held; read _"], stdin=subprocess.PIPE, stdout=-1)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert run_line(line, tmp_path, 0) == ("", [])
    holder.communicate(b"\n")
    assert run_line(line, tmp_path, 0)[1]


def test_crontab_keeps_the_lines_of_others(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "crontab").write_text(FAKE_CRONTAB)
    (tools / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    options = ("--cron", "--defs", "defs.yml", "--install")
    call("shop", "--at", "03:30", *options)
    table = tools / "table"
    table.write_text("MAILTO=me\n" + table.read_text() + "@daily true\n")
    call("shop", "--at", "Mon 04:00", *options)
    call("other", "--at", "hourly", *options)
    lines = table.read_text().splitlines()
    assert len(lines) == 6
    assert (lines[0], lines[3]) == ("MAILTO=me", "@daily true")
    assert lines[2].startswith("0 4 * * 1 ")
    assert lines[5].startswith("0 * * * * ")
    code, out, _ = call("--list", "--json")
    listed = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(one["name"], one["at"], one["run"], one["place"]) for one in listed] == [
        ("shop", "Mon 04:00", None, "crontab"), ("other", "hourly", None, "crontab")
    ]  # fmt: skip
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/defs.yml").write_text(DEFS)
    monkeypatch.chdir(tmp_path / "elsewhere")
    refuse(["shop", "--at", "03:30", *options], f"is of {shop}; nothing was changed")
    assert table.read_text().splitlines() == lines


@pytest.fixture
def crontab(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table of a crontab program of its own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "crontab").write_text(FAKE_CRONTAB)
    (tools / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tools / "table"


OTHERS = b"# mine\r\n0 1 * * * mine 'a\xe2\x80\xa8b' \xc2\x85 \x0c \xff\n\n5 1 * * * other \x1e\n"


def test_lines_of_others_in_the_crontab_keep_each_byte(crontab: Path, tmp_path: Path) -> None:
    crontab.write_bytes(OTHERS)
    for at in ("03:30", "04:30"):
        call("shop", "--at", at, "--cron", "--install", "--defs", "defs.yml")
    before, mark, ours = crontab.read_bytes().partition(b"# crawl-console schedule ")
    assert (before, mark) == (OTHERS, b"# crawl-console schedule ")
    assert ours.count(b"\n") == 2
    kept = tmp_path / "state/crawl-console/crontab.before"
    assert kept.read_bytes().startswith(OTHERS)
    assert b"30 3 * * *" in kept.read_bytes(), "the crontab of before the second installation"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_crontab_is_not_written_where_the_one_of_before_cannot_be_kept(crontab: Path, tmp_path: Path) -> None:
    crontab.write_bytes(OTHERS)
    (tmp_path / "state").write_text("a file")
    refuse(["shop", "--at", "03:30", "--cron", "--install", "--defs", "defs.yml"], "nothing was changed")
    assert crontab.read_bytes() == OTHERS


def test_a_line_that_stands_below_a_lonely_mark_stays(crontab: Path) -> None:
    options = ("--cron", "--install", "--defs", "defs.yml")
    call("shop", "--at", "03:30", *options)
    mark = crontab.read_text().splitlines()[0]
    crontab.write_text(f"{mark}\n0 1 * * * mine\n")
    call("shop", "--at", "04:30", *options)
    assert [line[:10] for line in crontab.read_text().splitlines()] == ["# crawl-co", "30 4 * * *", "0 1 * * * "]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0c", "\u202e", "\u200b"])
def test_a_folder_with_a_line_break_or_an_invisible_character_is_refused(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    folder = tmp_path / f"shop{character}* * * * * touch x # "
    folder.mkdir()
    (folder / "defs.yml").write_text(DEFS)
    monkeypatch.chdir(folder)
    for kind in ("--cron", "--systemd", "--kubernetes"):
        refuse(["shop", "--at", "03:30", kind, "--defs", "defs.yml"], "a line break, or a character that is not seen")


def test_a_command_that_the_scheduled_crawl_does_not_find_is_refused(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tools" / "tell-me"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\ntouch ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    words = ["shop", "--at", "03:30", "--defs", "defs.yml", "--set"]
    for kind in ("--cron", "--systemd"):
        refuse([*words, 'on_end=["tell-me"]', kind], "on_end: the scheduled crawl does not find 'tell-me'")
        for found in (str(tool), "sh", "crawl-console"):
            assert call(*words, f"on_end={json.dumps([found])}", kind)[0] == 0
    assert call(*words, 'on_end=["tell-me"]', "--kubernetes")[0] == 0, "its image has a PATH of its own"
    (shop / "crawl.env").write_text(f"PATH={tool.parent}\n")
    assert call(*words, 'on_end=["tell-me"]', "--cron")[0] == 0
    assert not (shop / "ran").exists()


def refuse(words: list[str], said: str) -> None:
    from crawl_engine.errors import CrawlError

    with pytest.raises(CrawlError) as refused:
        call(*words)
    assert said in str(refused.value)


def test_units_of_others_stay(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text('#!/bin/sh\necho "$@" >>"$(dirname "$0")/calls"\n')
    (tools / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(systemd, "_RUNNING", tmp_path)
    monkeypatch.setattr(systemd, "_SYSTEM", tmp_path / "system")
    monkeypatch.setattr(systemd.Manager, "_state_folders", lambda *_: [])
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    folder = tmp_path / "config/systemd/user"
    folder.mkdir(parents=True)
    words = ["shop", "--at", "03:30", "--systemd", "--defs", "defs.yml", "--install"]
    theirs = folder / "crawl-console-shop.service"
    theirs.write_text("[Service]\n")
    refuse(words, "did not write it; nothing was changed")
    assert [path.name for path in folder.iterdir()] == [theirs.name]
    theirs.unlink()
    call(*words)
    call(*words)
    assert sorted(path.name for path in folder.iterdir()) == [
        "crawl-console-mail@.service", "crawl-console-shop.service", "crawl-console-shop.timer"
    ]  # fmt: skip
    assert (tools / "calls").read_text().splitlines()[:2] == [
        "--user daemon-reload", "--user enable --now crawl-console-shop.timer"
    ]  # fmt: skip
    assert [json.loads(line)["name"] for line in call("--list", "--json")[1].splitlines()] == ["shop"]
    (shop / "data/crawl.db").write_text("no database")
    code, out, _ = call("--list")
    assert code == 3
    assert "error: " in out


def test_a_manifest_is_whole(shop: Path) -> None:
    _, out, _ = call("shop", "--at", "Mon 03:30", "--kubernetes", "--fresh", "--defs", "defs.yml")
    claim, job = yaml.safe_load_all(out)
    assert (claim["kind"], job["kind"]) == ("PersistentVolumeClaim", "CronJob")
    spec = job["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("30 3 * * 1", "Forbid")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["crawl-console", "run", "--no-ui", "--defs", "/defs", "--data", "/data", "--fresh"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["terminationGracePeriodSeconds"] == 30


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Shop", "--at", "03:30", "--cron"], "'Shop': not a name"),
        (["a/../b", "--at", "03:30", "--cron"], "not a name"),
        (["shop", "--cron"], "when? Give --at"),
        (["--at", "03:30", "--cron"], "which NAME?"),
        (["shop", "--at", "03:30"], "who starts it?"),
        (["shop", "--at", "03:30", "--cron", "--systemd"], "--systemd and --cron: who starts it?"),
        (["shop", "--at", "03:30", "--cron", "--install", "--print"], "exclude each other"),
        (["--list", "--at", "03:30"], "takes no other option"),
        (["shop", "--at", "03:30", "--cron", "--json"], "--json is of --list"),
        (["shop", "--at", "03:30", "--cron", "--defs", "none"], "none"),
        (["shop", "--at", "03:30", "--cron", "--set", "base_url=http://u:secret@a.example/"], "a secret in --set"),
        (["shop", "--at", "03:30", "--cron", "--set", "user_agent=a\x07b"], "user_agent"),
    ],
)
def test_what_is_refused(shop: Path, words: list[str], said: str) -> None:
    refuse([*(["--defs", "defs.yml"] if "--defs" not in words and "--list" not in words else []), *words], said)


@pytest.mark.parametrize("kind", ["systemd", "cron", "kubernetes"])
def test_a_missing_manager_is_told(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        main(["schedule", "shop", "--at", "03:30", f"--{kind}", "--defs", "defs.yml", "--install"])
    assert ended.value.code == 2
    assert "not installed here" in capsys.readouterr().err
