"""Changes of what limits a crawl, as in `changes.py`: `maxPages` of a host."""

from tests.process.change import Change, Edit, before

LIMIT = Change(
    section="a limit of the requests for pages",
    code={
        "engine/crawl_engine/model/host.py": [
            before(
                '    headers: Annotated[\n        Mapping[str, HeaderValue], DefKey("Headers to send to this host."',
                """\
    max_pages: Annotated[
        PositiveInteger | None, OMIT_DEFAULT, DefKey("The maximum number of requests for pages.", examples=(100,))
    ] = None
""",
            )
        ],
        "engine/crawl_engine/store/tables/run/page_limits.py": [
            before(
                "def _find_of_run(",
                """\
def _find_of_hosts(definitions: Definitions, _: Settings) -> Mapping[str, int]:
    return {rule.name: rule.max_pages for rule in definitions.hosts if rule.max_pages is not None}


""",
            ),
            before(
                "LIMITS = (\n",
                '''\
_SENT = "sent"
"""The code of rows that count the requests for pages of each host, with or without a limit."""
_HOST_NAME = "substr(h.key, 1, length(rtrim(h.key, '0123456789')) - 1)"

''',
            ),
            before(
                '    PageLimit(\n        code="run",\n',
                """\
    PageLimit(
        code="host",
        text="maxPages {most} of the host {name}",
        find=_find_of_hosts,
        name=_HOST_NAME,
        sent=f"SELECT c.reserved FROM page_limits c WHERE c.run = l.run AND c.code = '{_SENT}' AND c.name = l.name",
    ),
""",
            ),
            before(
                '_NAME = "CASE v.code',
                '''\
_COUNT_SENT = f"""
WITH v (run, code, name, requests) AS ({{values}})
INSERT INTO page_limits (run, code, name, reserved)
SELECT v.run, v.code, {_HOST_NAME}, sum(v.requests) FROM v CROSS JOIN hosts h ON h.id = v.name WHERE true
GROUP BY 1, 2, 3 ON CONFLICT (run, code, name) DO UPDATE SET reserved = page_limits.reserved + excluded.reserved
"""
''',
            ),
            before(
                "def settle(",
                '''\
def count_sent(db: Database, run: int, requests: Mapping[int, int]) -> None:
    """Count what hosts, by id, were sent for pages."""
    db.execute_values(_COUNT_SENT, [(run, _SENT, host, count) for host, count in requests.items()])


''',
            ),
            Edit(
                "requests=1)])\n    count_sent(db, job.run, {job.host: 1})\n    return True\n",
                "requests=1)])\n    return True\n",
            ),
        ],
        "engine/crawl_engine/store/transactions/statistics.py": [
            before("    for outcome, stats in made:\n        retried =", "    sent: dict[int, int] = {}\n"),
            before(
                "        if stats.responses or retried",
                "        if requests:\n            sent[outcome.job.host] = sent.get(outcome.job.host, 0) + requests\n",
            ),
            before(
                "    metrics.add(\n        commit.db, commit.run,",
                "    page_limits.count_sent(commit.db, commit.run, sent)\n",
            ),
        ],
    },
    beside={
        "docs/defs/hosts.md": [
            before("| `headers`, `cookies` |", "| `maxPages` | the maximum number of requests for pages |\n")
        ],
    },
    check='''
from pathlib import Path

from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load
from crawl_engine.errors import CrawlError
from crawl_engine.settings import Settings
from crawl_engine.store.tables.run.page_limits import LIMITS

DEFS = """
locatorGroups: {g: {locators: [{url: "https://a.example/"}]}}
taskGroups: {g: {list: {dataDef: entry}}}
dataDefs: {entry: {fields: {title: {selector: h1}}}}
hosts: {a.example: {maxPages: 100}}
"""
Path("defs.yml").write_text(DEFS)
(limit,) = [limit for limit in LIMITS if limit.code == "host"]
assert limit.find(load(Path("defs.yml")).definitions, Settings()) == {"a.example": 100}
assert "maximum number of requests for pages" in str(build_json_schema())
Path("defs.yml").write_text(DEFS.replace("100", "0"))
try:
    load(Path("defs.yml"))
except CrawlError as error:
    assert "maxPages" in str(vars(error))
else:
    raise AssertionError
''',
    tests=["tests/contract/store/tables/run/test_page_limits.py"],
)

CHANGES_OF_LIMITS = {change.section: change for change in (LIMIT,)}
