"""Building blocks of a process: clock, beat file, wakeup pipe, process identity, logs, disk space."""
