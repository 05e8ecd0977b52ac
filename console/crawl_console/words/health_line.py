"""The line of health: how many hosts are in each state, their names, the worst other trouble."""

from collections.abc import Iterable, Sequence

from crawl_console.format import Span, describe_state, format_time, list_names, plural, shorten_end
from crawl_engine.model.host import HostState
from crawl_engine.model.run import Alarm, HostGroup

STATE_MARKS: dict[HostState, tuple[str, str]] = {
    HostState.OK: ("●", "good"), HostState.RESTING: ("◌", "warn"), HostState.SILENT: ("✗", "bad"),
    HostState.REFUSED: ("⊘", "bad"), HostState.FAILING: ("✗", "bad"), HostState.PAUSED: ("‖", "warn"),
    HostState.SHAKY: ("◔", "text"), HostState.WAITING: ("…", "text"), HostState.UNASKED: ("·", "dim"),
    HostState.FINISHED: ("○", "dim"),
}  # fmt: skip
"""By state, in their order on the line: the mark and the role."""
_CODES = {
    HostState.RESTING: ("host-resting",), HostState.SILENT: ("host-silent",),
    HostState.REFUSED: ("host-refused", "blocked"), HostState.FAILING: ("failing-requests",),
}  # fmt: skip
"""By state the alarms about its hosts, which have no other place on the line."""
HOST_CODES = {code for codes in _CODES.values() for code in codes}
_NAMED = {*_CODES, HostState.PAUSED, HostState.SHAKY, HostState.WAITING, HostState.UNASKED}
_DETAILS: tuple[tuple[int, int | None], ...] = ((5, 5), (3, 1), (2, 0), (1, 0), (1, None), (0, None))
"""How many names states with an alarm have, and the other ones, as far as there is room. None: these are left out."""
_MIN_TEXT, _SHORT_TEXT = 12, 24


def health_spans(
    groups: Sequence[HostGroup], alarms: Sequence[Alarm], width: int, *, more_at: str = ": A", remedy: str = ""
) -> list[Span]:
    """The line in at most `width` cells. Names of hosts give way first, then the end of the other trouble's text.

    `more_at`: where further alarms are listed. `remedy`: what to press about the only host with an alarm.
    """
    others = [alarm for alarm in alarms if alarm.code not in HOST_CODES]
    more = f"  (+{len(others) - 1} more{more_at})" if len(others) > 1 else ""
    if not others:
        return _fit_hosts(groups, alarms, width, remedy=remedy)
    worst = others[0]
    rest = width - len(more) - 3
    hosts = _fit_hosts(groups, alarms, rest - len(worst.text))
    if length(hosts) + len(worst.text) >= rest and worst.level != "bad":
        hosts = _fit_hosts(groups, alarms, rest - _SHORT_TEXT, _DETAILS[-2:])
    told = worst.text + _since(worst)
    told = told if length(hosts) + len(told) <= rest else worst.text
    text = shorten_end(told, max(_MIN_TEXT, rest - length(hosts)))
    mark = ("✗", "alarm") if worst.level == "bad" else ("!", "warn")
    first: list[Span] = [(f" {mark[0]} ", mark[1]), (text, worst.level), (more, "dim")]
    return [*first, *hosts] if worst.level == "bad" else [*hosts, *first]


def _since(alarm: Alarm) -> str:
    return f" · since {format_time(alarm.since)[:5]}" if alarm.since else ""


def _fit_hosts(
    groups: Sequence[HostGroup],
    alarms: Sequence[Alarm],
    width: int,
    details: Sequence[tuple[int, int | None]] = _DETAILS,
    remedy: str = "",
) -> list[Span]:
    """As much of the hosts as has room; the counts of those with an alarm in any case."""
    if remedy:
        spans = list(_host_spans(groups, alarms, *details[0], remedy))
        if length(spans) <= width:
            return spans
    for named, others_named in details:
        spans = list(_host_spans(groups, alarms, named, others_named))
        if length(spans) <= width:
            return spans
    return list(_host_spans([group for group in groups if group.state in _CODES], alarms, 0, None))


def _host_spans(
    groups: Iterable[HostGroup], alarms: Sequence[Alarm], named: int, others_named: int | None, remedy: str = ""
) -> Iterable[Span]:
    """The hosts of each state; the only one with an alarm by what is wrong with it."""
    by_state = {group.state: group for group in groups}
    for state, (mark, role) in STATE_MARKS.items():
        group = by_state.get(state)
        if group is None:
            continue
        own = [alarm for alarm in alarms if alarm.code in _CODES.get(state, ())]
        names, word = (named if own else others_named), describe_state(state)
        role = role if own or state not in _CODES else "dim"  # an operator acknowledged all of them
        if state is HostState.OK:
            yield f" {mark} {plural(group.count, 'host')} {word} ", role
        elif names is None:
            continue
        elif names > 1 and group.count == 1 and len(own) == 1 and own[0].host:
            more = f"{_since(own[0])} · {remedy}" if remedy else ""
            yield f" {mark} {own[0].text}{more} ", role
        elif names and state in _NAMED:
            yield f" {mark} {group.count:,} {word}: {list_names(group, names)} ", role
        else:
            yield f" {mark} {group.count:,} {word} ", role


def length(spans: Iterable[Span]) -> int:
    return sum(len(text) for text, _ in spans)
