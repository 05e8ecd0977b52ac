"""Words for a plan: what publishing the defs on disk would change."""

from collections.abc import Iterator

from console.format import plural
from engine.preview.plan import Plan
from engine.preview.stored_pages import keeps_none_message


def plan_lines(plan: Plan) -> Iterator[tuple[str, str]]:
    """Lines with the roles that the console's themes know."""
    if not plan.differs:
        yield f"the defs on disk have the meaning of v{plan.version}: nothing would change", "good"
        return
    yield f"publishing them over v{plan.version}: {plan.text}", "strong"
    if plan.keeps_pages:
        yield (
            "done pages keep their rows (on_reload = new_only); below is what the new defs find in them",
            "warn",
        )
    if plan.compared:
        yield f"rows in {_scope(plan)}:", "text"
        changed = {name: c for name, c in plan.rows.items() if c.added or c.changed or c.removed}
        for name, counts in changed.items():
            yield f"  {name}: +{counts.added:,} ~{counts.changed:,} −{counts.removed:,}", "warn"
        if not changed:
            yield "  no difference", "good"
    for name, fields in plan.emptied.items():
        for field, count in fields.items():
            yield f"✗ {name}.{field}: empty in {plural(count, 'row')} that had a value", "bad"
    for group, count in plan.pruned.items():
        yield f"{keeps_none_message(group)}: {plural(count, 'page')} would keep their rows", "warn"
    if others := plan.unreadable - plan.pruned.total():
        yield f"{plural(others, 'page')} cannot be extracted and would keep their rows", "warn"


def _scope(plan: Plan) -> str:
    if plan.exact and not plan.unreadable:
        return f"all {plan.compared:,} pages"
    return f"{plan.compared:,} of {plan.pages:,} pages{'' if plan.exact else ' (`plan --full` compares all)'}"
