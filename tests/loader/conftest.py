from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import vidload
from tests.films import FilmFolder
from tests.loader.processes import children, loader_threads


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No test leaves a worker behind, whatever it did to its loader."""
    before = children()
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("vidload"):
            thread.join(10)
    assert not loader_threads()
    assert children() <= before


@pytest.fixture(scope="session")
def index_path(film_file: FilmFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of two films, with labels and further columns."""
    folder = tmp_path_factory.mktemp("indexed")
    table = folder / "films.csv"
    films = [film_file("h264_bframes"), film_file("h264_variable")]
    table.write_text(
        "path,label,place,weight\n" + "".join(f"{film},{n},p{n},{n + 0.5}\n" for n, film in enumerate(films))
    )
    vidload.build_index(table, folder / "films.index", num_workers=0).close()
    return folder / "films.index"


@pytest.fixture
def clips(index_path: Path) -> vidload.ClipDataset:
    """Ten random clips of two films, randomly cropped."""
    return vidload.ClipDataset(
        index_path,
        clips=vidload.RandomClips(num_frames=4, stride=2, clips_per_video=5),
        size=vidload.RandomResizedCrop((16, 32)),
        decoder="pyav",
    )
