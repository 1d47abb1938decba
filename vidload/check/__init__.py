"""Reading films once, to the last frame, and saying what of them would fail or surprise in training.

May import errors, index, transforms and decode; the command line imports it.
"""

from vidload.check.films import FilmReport, Finding, check_films

__all__ = ["FilmReport", "Finding", "check_films"]
