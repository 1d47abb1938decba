"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.films import FilmFolder, real_footage

# Machines are busy at times; a slow example is no failure.
settings.register_profile("vidload", deadline=None)
settings.load_profile("vidload")


@pytest.fixture(scope="session")
def film_file(tmp_path_factory: pytest.TempPathFactory) -> FilmFolder:
    """Gives the path of a film of `tests.films.FILMS`, writing it on first use: ``film_file("h264_bframes")``."""
    return FilmFolder(tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="session")
def footage() -> list[Path]:
    """Paths of real footage: bikes.mp4 and bigbuckbunny.mp4."""
    return real_footage()
