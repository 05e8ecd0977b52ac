"""What holds for all tests."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # seconds are a matter of the bench, and of the stopwatch
settings.load_profile("untimed")
