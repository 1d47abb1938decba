"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.films import FilmFolder, real_footage

# Machines are busy at times; a slow example is no failure.
settings.register_profile("vidload", deadline=None)
settings.load_profile("vidload")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked or os.environ.get("VIDLOAD_REQUIRE_GPU") == "1":
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device; make gpu-check runs these where there is one"))


@pytest.fixture(scope="session")
def film_file(tmp_path_factory: pytest.TempPathFactory) -> FilmFolder:
    """Gives the path of a film of `tests.films.FILMS`, writing it on first use: ``film_file("h264_bframes")``."""
    return FilmFolder(tmp_path_factory.mktemp("films"))


@pytest.fixture(scope="session")
def footage() -> list[Path]:
    """Paths of real footage: bikes.mp4 and bigbuckbunny.mp4."""
    return real_footage()


@pytest.fixture(scope="session")
def dali_films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Paths of the films that DALI decodes on the CPU, by name."""
    from tests.decode.dali import FILMS

    folder = tmp_path_factory.mktemp("dali")
    return {film.name: film.write(folder) for film in FILMS}
