from __future__ import annotations

from pathlib import Path

import pytest

import vidload
from tests.films import FilmFolder


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
