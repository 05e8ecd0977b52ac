"""How many jobs of one sequence may run at once, so that a large site never starves a small one."""


def quota(active: int, slots: int) -> int:
    """Jobs one of `active` sequences may have running over all `slots` of all nodes.

    The rule of the SNIG services monitor: all slots for one sequence alone, else `1 + ⌊slots/active⌋`.
    """
    return slots if active <= 1 else 1 + slots // active


def lease_limit(*, active: int, slots: int, running: int, free: int, batch: int) -> int:
    """Jobs one lease may take for a sequence that has `running` ones; never negative.

    A tenth of the quota is kept back while there are others, with a floor of one job, so that a sequence that
    appears finds a slot at once.
    """
    allowed = quota(active, slots)
    if active > 1:
        allowed = max(1, allowed * 9 // 10)
    return max(0, min(free, batch, allowed - running))
