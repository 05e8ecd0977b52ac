"""The command `job`: one job in full, and the body of its document."""

import json

import pytest

from crawl_console.cli.main import main
from crawl_engine.model.job import JobState
from crawl_engine.store.db.file_header import PAGES
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.events import Event
from tests.contract.store.harness import StoreHarness


@pytest.fixture
def run(store: StoreHarness, capsysbinary):
    """Run a command on the store; returns exit code, stdout and stderr."""

    def run_command(*arguments: str) -> tuple[int, bytes, str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--data", str(store.folder)])
        captured = capsysbinary.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err.decode()

    return run_command


@pytest.fixture
def refused(store: StoreHarness) -> int:
    """A page that its host refused with a challenge."""
    store.seed("http://user:secret@a/1")
    (job,) = store.take("http://user:secret@a/1")
    document = NewDocument(
        keys=(), url="http://a/1", status=403, content_type="text/html", fetched_at=1.7e9,
        headers=(("cf-mitigated", "challenge"),), body=Body(b"<h1>are you human?</h1>\x00"),
    )  # fmt: skip
    pages = PageStore(store.folder)
    event = Event(1.7e9, "ERROR", "n1", "page", "FAILED: blocked: challenge  http://a/1", job.id)
    outcome = JobOutcome(
        job=job, state=JobState.FAILED, reason="blocked: challenge", attempts=1, effects=(document, event)
    )
    outcome.page = pages.add([document])[0]
    store.commit(outcome)
    pages.close()
    return job.id


def test_a_refused_page_is_shown_with_its_answer(run, refused: int) -> None:
    code, out, err = run("job", str(refused))
    text = out.decode()
    assert (code, err) == (0, "")
    assert f"job {refused}  FAILED: blocked: challenge" in text
    assert "GET http://a/1" in text
    assert "secret" not in text
    assert "document 403 text/html" in text
    assert "cf-mitigated: challenge" in text
    assert "ERROR   n1         FAILED: blocked: challenge" in text


def test_json_is_one_object_and_body_is_as_received(run, refused: int) -> None:
    shown = json.loads(run("job", str(refused), "--json")[1])
    assert (shown["id"], shown["state"], shown["url"]) == (refused, "FAILED", "http://a/1")
    assert shown["document"]["status"] == 403
    assert shown["document"]["headers"] == {"cf-mitigated": "challenge"}
    assert [event["text"] for event in shown["events"]] == ["FAILED: blocked: challenge  http://a/1"]
    assert (shown["rows"], shown["request"]["method"]) == ([], "GET")
    assert run("job", str(refused), "--body")[:2] == (0, b"<h1>are you human?</h1>\x00")


@pytest.mark.sqlite
@pytest.mark.parametrize("arguments", [(), ("--json",), ("--body",)])
def test_it_leaves_no_log_beside_the_pages_of_an_ended_run(run, store: StoreHarness, refused: int, arguments) -> None:
    before = sorted(path.name for path in store.folder.iterdir() if path.name.startswith(PAGES))
    assert before == [PAGES]
    assert run("job", str(refused), *arguments)[0] == 0
    assert sorted(path.name for path in store.folder.iterdir() if path.name.startswith(PAGES)) == before


@pytest.mark.sqlite
def test_a_job_is_shown_without_the_file_of_pages(run, store: StoreHarness, refused: int) -> None:
    (store.folder / PAGES).unlink()
    code, out, err = run("job", str(refused))
    assert (code, err) == (0, "")
    assert "document 403 text/html" in out.decode()
    assert json.loads(run("job", str(refused), "--json")[1])["document"]["headers"] == {}
    code, out, err = run("job", str(refused), "--body")
    assert (code != 0, out) == (True, b"")
    assert PAGES in err
    assert not (store.folder / PAGES).exists()


def test_an_unknown_job_and_one_without_a_document_are_errors(run, store: StoreHarness) -> None:
    store.seed("http://a/1")
    code, out, err = run("job", "1", "--body")
    assert (code, out) == (2, b"")
    assert "job 1 has no document" in err
    code, _, err = run("job", "99")
    assert code == 2
    assert "no job 99" in err
    assert run("job", "1")[0] == 0
    assert run("job", "1", "--body", "--json")[0] == 2
    assert run("job", "x")[0] == 2
