"""A crawl of PDF documents: their text, their links, those that cannot be read, and the commands that read them."""

import os
import signal
from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.preview.stored_pages import preview_stored_pages
from tests.pdf_documents import (
    encrypted_pdf,
    memory_pdf,
    pdf,
    pdf_of_contents,
    repeated_page_pdf,
    scanned_pdf,
    text_of,
)

from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups:
  list: {{locators: [{{url: "{url}/"}}]}}
taskGroups:
  list: {{t: {{dataDef: links}}}}
  invoices: {{t: {{dataDef: invoice}}}}
  terms: {{t: {{dataDef: terms}}}}
dataDefs:
  links:
    links: [{{selector: a, linkGroup: invoices}}]
  invoice:
    fields:
      number: {{selector: "section[data-page='1'] p", match: 'Invoice (\\S+)'}}
      total: {{selector: "xpath: //p[starts-with(., 'Total')]", match: '[0-9.]+'}}
      author: {{selector: 'meta[name="author"]', attribute: content}}
    links: [{{selector: "section a", linkGroup: terms}}]
  terms:
    fields: {{heading: {{selector: "h1, section:first-of-type p:first-child"}}}}
hosts: {{"127.0.0.1": {{robots: false, concurrency: 8}}}}
"""
WITHOUT_EXTRA = "import sys\nsys.modules['pypdfium2'] = None\n"
"""A sitecustomize.py: as if the library were not installed."""


def typed(body: bytes, content_type: str = "application/pdf") -> Page:
    return Page(body, headers={"Content-Type": content_type})


def invoice(number: str, total: str, *links: str) -> bytes:
    return pdf([f"Invoice {number}", f"Total: {total} EUR"], links=links, info=b"/Author(Acme)")


def list_of(site: Site, *paths: str) -> None:
    site["/"] = html("".join(f'<a href="{path}">x</a>' for path in paths))


def numbers(project: Project) -> dict[str, str]:
    return {row["number"]: row["total"] for row in project.rows("invoice")}


def test_pdf_documents_are_pages(project: Project, site: Site) -> None:
    site["/1.pdf"] = typed(invoice("A-1", "12.50", "/terms.pdf", "terms.html", "https://elsewhere.example/"))
    site["/download"] = typed(invoice("A-2", "7"), "application/octet-stream")
    long = text_of(["Invoice A-3", "Total: 3", *["some text of a line"] * 40])
    site["/3.pdf"] = typed(pdf_of_contents([long] * 100, info=b"/Author(Acme)"))
    site["/terms.pdf"] = typed(pdf(["Terms of 2026"], ["more"]))
    site["/terms.html"] = html("<h1>Terms in short</h1>")
    bad = {"/locked.pdf": encrypted_pdf(), "/broken.pdf": b"%PDF-1.7 nothing", "/scan.pdf": scanned_pdf()}
    for path, body in bad.items():
        site[path] = typed(body)
    list_of(site, "/1.pdf", "/download", "/3.pdf", *bad)
    project.write(DEFS.format(url=site.url("")))
    done = project.crawl(nodes=1)
    assert done.jobs == {"done": 6, "skipped": 3}
    assert numbers(project) == {"A-1": "12.50", "A-2": "7", "A-3": "3"}
    assert {row["author"] for row in project.rows("invoice")} == {"Acme"}
    assert {row["heading"] for row in project.rows("terms")} == {"Terms of 2026", "Terms in short"}
    reasons = {"/locked.pdf": "is encrypted", "/broken.pdf": "is broken", "/scan.pdf": "has no text; it may be a scan"}
    for path, reason in reasons.items():
        job = project.job(site.url(path))
        assert (job["state"], job["reason"]) == ("SKIPPED", f"not a page: application/pdf {reason}")


def test_a_hostile_pdf_costs_its_own_job_alone(project: Project, site: Site) -> None:
    hostile = {"/memory.pdf": memory_pdf(60), "/slow.pdf": repeated_page_pdf(9_000), "/many": repeated_page_pdf(10_001)}
    good = [f"/{number}.pdf" for number in range(40)]
    for number, path in enumerate(good):
        site[path] = typed(invoice(f"N-{number}", str(number)))
    for path, body in hostile.items():
        site[path] = typed(body)
    list_of(site, *good[:20], *hostile, *good[20:])
    project.write(DEFS.format(url=site.url("")))
    done = project.crawl("--set", "parse_limit=1.5", "--set", "parse_memory=150000000", code=1, seconds=80)
    assert done.jobs == {"done": 41, "failed": 3}
    assert numbers(project) == {f"N-{number}": str(number) for number in range(40)}
    reasons = {path: project.job(site.url(path))["reason"] for path in hostile}
    assert reasons["/memory.pdf"] == "needs more than 150 MB to parse; the limit is parse_memory"
    assert reasons["/slow.pdf"].startswith("takes more than ")
    assert "parse_limit" in reasons["/slow.pdf"]
    assert reasons["/many"] == "the PDF has 10,001 pages; the limit is 10,000"
    assert project.query("SELECT count(*) FROM nodes") == [(project.nodes,)], "no node was replaced"


@pytest.mark.sweep
def test_stored_documents_are_read_again_tried_and_previewed(project: Project, site: Site) -> None:
    site["/1.pdf"] = typed(invoice("A-1", "12.50"))
    list_of(site, "/1.pdf")
    text = DEFS.format(url=site.url(""))
    project.write(text)
    project.crawl(nodes=1)
    site.clear_log()
    changed = text.replace("'[0-9.]+'", "'[0-9]+'")
    project.write(changed)
    preview = preview_stored_pages(project.data, load(project.defs).definitions, "invoice")
    assert preview.counts == {"added": 0, "changed": 1, "vanished": 0, "same": 0}
    done = project.run_with_data("extract", "--defs", str(project.defs), "--json", seconds=45)
    assert done.code == 0, done.err
    assert numbers(project) == {"A-1": "12"}
    ((job,),) = project.query(f"SELECT id FROM jobs WHERE url = '{site.url('/1.pdf')}' AND origin = 'link'")
    tried = project.run_with_data("try", "invoice", "--job", str(job), "--defs", str(project.defs))
    assert '"total":"12"' in tried.out.replace(" ", ""), tried.err
    assert site.paths == []


@pytest.mark.sweep
def test_try_and_shell_read_a_pdf(project: Project, site: Site) -> None:
    site["/1.pdf"] = typed(invoice("A-1", "12.50", "/terms.pdf"))
    site["/locked.pdf"] = typed(encrypted_pdf())
    project.write(DEFS.format(url=site.url("")))
    (project.folder / "mine.pdf").write_bytes(invoice("A-9", "9"))
    where = ("--defs", str(project.defs))
    done = project.run_command("try", "invoice", site.url("/1.pdf"), *where)
    assert '"A-1"' in done.out, done.err
    assert f"link to terms: {site.url('/terms.pdf')}" in done.err
    assert '"A-9"' in project.run_command("try", "invoice", "mine.pdf", *where).out
    lines = ["p", ":source", f":open {site.url('/locked.pdf')}", "regex: Total: [0-9.]+", ":quit"]
    shell = project.start_command("shell", site.url("/1.pdf"), *where, stdin="\n".join(lines).encode()).wait(20)
    assert shell.code == 0, shell.err
    output = shell.out.splitlines()
    assert f"{site.url('/1.pdf')}: 200 html" in shell.out
    assert "   1  Invoice A-1" in output
    assert "<p>Total: 12.50 EUR</p>" in output
    assert "   1  Total: 12.50" in output
    assert any("not a page: application/pdf is encrypted" in line for line in output)
    locked = project.run_command("shell", site.url("/locked.pdf"), *where)
    assert locked.code == 1
    assert "not a page: application/pdf is encrypted" in locked.err
    assert "Traceback" not in locked.err


@pytest.mark.sweep
def test_without_the_extra_the_reason_says_what_to_install(
    project: Project, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT_EXTRA)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    site["/1.pdf"] = typed(invoice("A-1", "12.50"))
    site["/2.pdf"] = typed(repeated_page_pdf(30_000))  # too large for the fetch loop
    list_of(site, "/1.pdf", "/2.pdf")
    project.write(DEFS.format(url=site.url("")))
    done = project.crawl(nodes=1)
    assert done.jobs == {"done": 1, "skipped": 2}
    for path in ("/1.pdf", "/2.pdf"):
        job = project.job(site.url(path))
        assert job["state"] == "SKIPPED"
        assert job["reason"].startswith("not a page: application/pdf, ")
        assert "pip install 'crawl-console[pdf]'" in job["reason"]
    for command in (("try", "invoice"), ("shell",)):
        refused = project.run_command(*command, site.url("/1.pdf"), "--defs", str(project.defs))
        assert refused.code == 1
        assert "pip install 'crawl-console[pdf]'" in refused.err
    monkeypatch.delenv("PYTHONPATH")
    retried = project.run_with_data("retry", "--state", "skipped", "--match", "application/pdf")
    assert retried.code == 0, retried.err
    assert project.crawl(code=1, nodes=1).jobs == {"done": 2, "failed": 1}
    assert numbers(project) == {"A-1": "12.50"}


def test_users_parsers_get_the_bytes_of_every_pdf(project: Project, site: Site) -> None:
    documents = {
        "/1.pdf": invoice("A-1", "1", "/terms.pdf"),
        "/2.pdf": encrypted_pdf(),
        "/3.pdf": repeated_page_pdf(10_001),
    }
    for path, body in documents.items():
        site[path] = typed(body)
    site["/terms.pdf"] = typed(pdf(["Terms"]))
    list_of(site, *documents)
    plugin = "class Raw:\n    def parse(self, document, context):\n"
    plugin += "        return [{'number': str(len(document.body))}]\n"
    (project.defs / "plugins").mkdir()
    (project.defs / "plugins" / "raw.py").write_text(plugin)
    steps = "{recordDefault: {parser: {class: raw.Raw, previous: loader, next: filter}}}"
    text = DEFS.format(url=site.url("")).replace("t: {dataDef: invoice}", f"t: {{dataDef: invoice, steps: {steps}}}")
    project.write(text)
    done = project.crawl(nodes=1)
    assert done.jobs == {"done": 5}
    assert sorted(numbers(project)) == sorted(str(len(body)) for body in documents.values())
    assert [row["heading"] for row in project.rows("terms")] == ["Terms"], "links of its dataDef are followed"


@pytest.mark.sweep
def test_a_killed_reader_costs_no_document(project: Project, site: Site) -> None:
    for number in range(3):
        site[f"/{number}.pdf"] = typed(repeated_page_pdf(1_500))
    list_of(site, *(f"/{number}.pdf" for number in range(3)))
    project.write(DEFS.format(url=site.url("")))
    running = project.start("--set", "parse_limit=20", nodes=1)
    assert until(lambda: project.extraction_processes() or running.exited)
    for pid in project.extraction_processes():
        os.kill(pid, signal.SIGKILL)
    assert running.wait(60).jobs == {"done": 4}
