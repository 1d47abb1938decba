from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import vidload
from tests.loader.processes import children, loader_threads
from vidload.synthetic import write_film

CODECS = {"h264": "libx264", "hevc": "libx265", "av1": "libsvtav1", "vp9": "libvpx-vp9"}
"""Codecs that NVDEC decodes, and what writes them here."""

FRAMES, WIDTH, HEIGHT = 90, 320, 192  # NVDEC takes no VP9 or AV1 below 128 x 128


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert not loader_threads()
    assert children() <= before


@dataclass(frozen=True)
class Films:
    """Films of one codec each, whose frames are numbered from 0, and an index of each and of all."""

    folder: Path

    def index(self, *codecs: str) -> Path:
        path = self.folder / f"{'-'.join(codecs)}.index"
        if not path.exists():
            films = [self.folder / f"{codec}.mp4" for codec in codecs]
            for codec, film in zip(codecs, films, strict=True):
                if not film.exists():
                    write_film(film, FRAMES, width=WIDTH, height=HEIGHT, codec=CODECS.get(codec, codec))
            vidload.build_index(films, path, num_workers=0).close()
        return path


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Films:
    return Films(tmp_path_factory.mktemp("gpu"))
