"""When a run will have no work left, as the supervisor estimates it."""

from msgspec import Struct


class Eta(Struct, frozen=True):
    """An estimate. Field names and their order are the keys of `eta` in `status --json`."""

    seconds: float | None = None
    """None: unknown, paused, or nothing runs."""
    bound_by: str | None = None
    """The host (`name:port`) whose pages end last; `nodes`, a limit of the run, or `paused`."""
    exact: bool = False
    """Whether no new pages appear: else it will take at least as long."""
    reason: str | None = None
    """What holds that host back: its delay or its backoff."""


NO_ETA = Eta()
