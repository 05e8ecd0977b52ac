"""Documents on their way to an extraction process, and the answers that fit them."""

from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

from crawl_engine.extract.select.selection import SelectionResult
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.model.definition import Definitions, TaskGroup
from crawl_engine.model.fingerprint import list_query_rules, list_routed_groups
from crawl_engine.model.host import HostRule
from crawl_engine.model.step import BrowserRule, ChainStep, GroupLoading, StepKind
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.board import CONVERTERS
from crawl_engine.node.extraction.node_calls import NodeCalls
from crawl_engine.node.extraction.page_extraction import ExtractionUnavailable, UnreadablePage, UnsupportedContent
from crawl_engine.node.extraction.result import LinkColumns, PageResult, SitemapResult
from crawl_engine.processes.frames import InvalidAnswer
from crawl_engine.processes.pool import Need
from crawl_engine.store.pages.body import Body

_ANSWERS: dict[str, type[wire.Answer]] = {
    "page": PageResult, "steps": PageResult, "sitemap": SitemapResult, "select": SelectionResult,
    "robots": wire.RobotsAnswer,
}  # fmt: skip
_ROUTED = GroupLoading(browser=BrowserRule())


class StepDied(Exception):
    """Plugin code took too long or too much memory, or ended its process. The message says which."""

    def __init__(self, unit: int, step: int, reason: str) -> None:
        """The index of the unit in the task, and that of the step in its chain."""
        super().__init__(reason)
        self.unit = unit
        self.step = step
        self.reason = reason


class ExtractionRequest(Need, kw_only=True, eq=False):
    """A document to work on, which needs a place in a process.

    `key`: the def version whose plugin code it needs; empty: none. `size`: of processes that may run this code at once.
    """

    header: dict[str, Any]
    body: Body
    key: Hashable = ""
    definitions: tuple[int, Definitions] | None = None
    """Defs that the process must have, and their key."""
    share: BodyShare | None = None
    """Counts the bytes of the answer; its creator releases it."""
    chains: Sequence[tuple[ChainStep, ...]] = ()
    """By dataDef, the chain of its task; empty: the default one."""
    step_seconds: float = 0.0
    """What the limits of its plugin steps may add to the time."""
    on_call: NodeCalls | None = None
    """Answers plugin code that asks the node."""
    deaths: int = 0

    @property
    def data_defs(self) -> list[str]:
        """Names of the dataDefs of a page, in the order of its task."""
        return [name for name, _ in self.header.get("task", self.header).get("data_defs", ())]

    def read_body(self) -> bytes:
        """The bytes to send. A packed body is unpacked if it is sent again, to another process."""
        body = self.body.read()
        self.body.keep_packed()
        return body


def check_answer(request: ExtractionRequest, answer: wire.Answer) -> None:
    """Raise InvalidAnswer if an answer of valid form does not fit this request."""
    kind = request.header["kind"]
    if isinstance(answer, wire.Failure):
        if answer.unit is not None and not _has_step(request, answer.unit, answer.step):
            raise InvalidAnswer("a failure of a step that the chain does not have")
        return
    if not isinstance(answer, _ANSWERS[kind]):
        raise InvalidAnswer(f"no answer to a {kind}")
    if isinstance(answer, SitemapResult) and bool(answer.modified) != bool(answer.pages and "now" in request.header):
        raise InvalidAnswer("other moments than those that were asked for")
    if isinstance(answer, wire.RobotsAnswer) and len(answer.rules) != len(request.header["urls"]):
        raise InvalidAnswer("other URLs than those that were asked for")
    if not isinstance(answer, PageResult):
        return
    task = request.header["task"] if kind == "steps" else request.header
    with_rows = {index for index, (_, wants_rows) in enumerate(task["data_defs"]) if wants_rows}
    indexes = [index for index, _ in answer.rows]
    if not with_rows.issuperset(indexes) or len(set(indexes)) < len(indexes):
        raise InvalidAnswer("rows of a dataDef that was not asked for")
    if not with_rows.issuperset([index for index, _ in answer.counts]) or not _has_possible_counts(request, answer):
        raise InvalidAnswer("counts that no dataDef makes")
    named = [*[one.data_def for one in answer.rejected_counts], *[rejection.data_def for rejection in answer.rejected]]
    if not set(request.data_defs).issuperset([*named, *[one.data_def for one in (*answer.warnings, *answer.signs)]]):
        raise InvalidAnswer("rejections or warnings of a dataDef that was not asked for")
    if not answer.parts.keys() <= task["context"]["rules"].keys():
        raise InvalidAnswer("a part of a rule that was not asked for")
    if not with_rows.issuperset([index for index, _ in (*answer.results, *answer.stops)]):
        raise InvalidAnswer("results of a task that was not asked for")
    if answer.results and not _tasks_of(request, task["context"]["group"]).issuperset(
        [result.task for _, result in answer.results]
    ):
        raise InvalidAnswer("results of a task that the group does not have")
    if not all(_has_step(request, unit, step, "command") for unit, step in answer.stops):
        raise InvalidAnswer("a stop where the chain has no command")
    runs = answer.links.runs if isinstance(answer.links, LinkColumns) else ()
    if runs and not _possible_links(request).issuperset([(run[1], run[4]) for run in runs]):
        raise InvalidAnswer("links that no dataDef makes")


def _has_step(request: ExtractionRequest, unit: int, step: int, kind: StepKind | None = None) -> bool:
    """Whether a unit of the request has plugin code at this index of its chain: a step, or its converters."""
    if not request.key or unit >= len(request.chains):
        return False
    chain = request.chains[unit]
    if step == CONVERTERS:
        return kind is None
    return step < len(chain) and chain[step].is_plugin and kind in (None, chain[step].kind)


def _has_possible_counts(request: ExtractionRequest, answer: PageResult) -> bool:
    assert request.definitions is not None
    for index, (records, rejected, missing, _) in answer.counts:
        data_def = request.definitions[1].data_def(request.data_defs[index])
        names = {name for field in data_def.fields for name in field.counted_names} if data_def is not None else set()
        if rejected > records or not all(name in names and count <= records for name, count in missing):
            return False
    return True


def _tasks_of(request: ExtractionRequest, group: str) -> set[str]:
    """The tasks whose results a page of the group may have; a built-in parser names none."""
    found = None if request.definitions is None else request.definitions[1].task_group(group)
    return {"", *[task.name for task in found.tasks]} if found is not None else {""}


def _possible_links(request: ExtractionRequest) -> set[tuple[str, bool]]:
    """The group of each link that the dataDefs of a page can make, and whether the link may leave the host."""
    assert request.definitions is not None
    definitions = request.definitions[1]
    if request.key:  # plugin code follows links into any group
        leaves = {not link.same_host for data_def in definitions.data_defs for link in data_def.links}
        return {(group.name, leave) for group in definitions.task_groups for leave in (*leaves, False)}
    own_group = request.header["context"]["group"]
    data_defs = [definitions.data_def(name) for name in request.data_defs]
    links = [link for data_def in data_defs if data_def is not None for link in data_def.links]
    own = {(own_group, False)} if any(d is not None and d.next is not None for d in data_defs) else set()
    return {(link.group or own_group, not link.same_host) for link in links} | own


def encode_defs(definitions: Definitions) -> bytes:
    """The part of the defs that extraction needs: dataDefs, priorities, chains, rules for URLs; no credentials."""
    coded = {data_def.name for data_def in definitions.data_defs if data_def.code}
    routed = list_routed_groups(definitions)
    groups = tuple(
        TaskGroup(
            name=group.name,
            priority=group.priority,
            loader=_ROUTED if group.name in routed else None,
            tasks=tuple(task for task in group.tasks if task.chain or task.data_def in coded),
        )
        for group in definitions.task_groups
    )
    hosts = tuple(HostRule(name=name, drop=keys) for name, keys in list_query_rules(definitions).items())
    needed = Definitions(
        data_defs=definitions.data_defs, task_groups=groups, hosts=hosts, plugins=definitions.plugins
    )  # fmt: skip
    return needed.to_json().encode()


def raise_failure(failure: wire.Failure, memory: int) -> NoReturn:
    """Raise UnsupportedContent or UnreadablePage; ValueError for a selector, RuntimeError for an internal error.

    StepDied if plugin code is to blame. ExtractionUnavailable if no process could be started.
    """
    if failure.unit is not None:
        reason = failure.reason or f"needs more than {memory / 1e6:,.0f} MB; the limit is parse_memory"
        raise StepDied(failure.unit, failure.step, reason)
    match failure.kind:
        case "unsupported":
            raise UnsupportedContent(failure.reason)
        case "memory":
            raise UnreadablePage(f"needs more than {memory / 1e6:,.0f} MB to parse; the limit is parse_memory")
        case "selector":
            raise ValueError(failure.reason)
        case "unreadable":
            raise UnreadablePage(failure.reason)
        case "unavailable":
            raise ExtractionUnavailable(failure.reason)
    raise RuntimeError(failure.reason)
