"""Settings for all tests."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # time limits are tested by the bench and with the stopwatch
settings.load_profile("untimed")
