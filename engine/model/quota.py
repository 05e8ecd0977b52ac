"""Limits how many jobs of a sequence run at once, so that a large site never starves a small one."""


def quota(active: int, slots: int) -> int:
    """Jobs that each of `active` sequences may run at once, of the `slots` of all nodes.

    The rule of the SNIG services monitor: all slots for a single sequence, else `1 + ⌊slots/active⌋`.
    """
    return slots if active <= 1 else 1 + slots // active


def lease_limit(*, active: int, slots: int, running: int, free: int, batch: int) -> int:
    """Jobs one lease may take for a sequence with `running` jobs; never negative.

    While there are other sequences a tenth of the quota stays free, with a floor of one job, so that a new sequence
    gets a slot at once.
    """
    allowed = quota(active, slots)
    if active > 1:
        allowed = max(1, allowed * 9 // 10)
    return max(0, min(free, batch, allowed - running))
