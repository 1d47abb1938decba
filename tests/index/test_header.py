"""The header kept in the index sets up a decoder and a muxer as the film itself would."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from tests.films import FILMS, Film, FilmFolder, remux
from vidload.errors import UnreadableVideoError
from vidload.index.header import make_header, open_header

each_film = pytest.mark.parametrize("film", FILMS, ids=str)


@each_film
def test_a_header_keeps_what_a_decoder_needs(film: Film, film_file: FilmFolder) -> None:
    with av.open(str(film_file(film))) as container:
        stream = container.streams.video[0]
        with open_header(make_header("film", stream)) as header:
            assert len(header.streams) == 1
            kept, wanted = header.streams.video[0].codec_context, stream.codec_context
            assert kept.codec.canonical_name == film.codec
            assert (kept.width, kept.height) == (film.width, film.height)
            assert (kept.extradata or b"") == (wanted.extradata or b"")


@each_film
def test_a_header_is_less_than_a_kilobyte_beside_the_configuration(film: Film, film_file: FilmFolder) -> None:
    with av.open(str(film_file(film))) as container:
        stream = container.streams.video[0]
        assert len(make_header("film", stream)) < 1000 + len(stream.codec_context.extradata or b"")


@each_film
def test_the_same_stream_gives_the_same_header(film: Film, film_file: FilmFolder) -> None:
    """Decoders are kept by header, and films of one kind share them."""
    headers = set()
    for _ in range(2):
        with av.open(str(film_file(film))) as container:
            headers.add(make_header("film", container.streams.video[0]))
    assert len(headers) == 1


def test_a_header_is_not_turned(film_file: FilmFolder, tmp_path: Path) -> None:
    """Turning is vidload's own work, so that every backend shows the same."""
    plain = film_file("h264_bframes")
    turned = remux(plain, tmp_path / "turned.mp4", rotation=(90, True))
    headers = []
    for path in (plain, turned):
        with av.open(str(path)) as container:
            headers.append(make_header("film", container.streams.video[0]))
    assert headers[0] == headers[1]


@pytest.mark.parametrize("data", [b"", b"no header at all", bytes(800)])
def test_bytes_that_are_no_header_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableVideoError, match="build the index again"):
        open_header(data)


def test_a_codec_that_no_container_keeps_is_named(tmp_path: Path) -> None:
    path = tmp_path / "art.txt"
    path.write_text("Drawn by libavformat as a video of codec ansi. " * 50)
    with (
        av.open(str(path)) as container,
        pytest.raises(UnreadableVideoError, match=r"art\.txt: no container keeps its stream of codec ansi"),
    ):
        make_header(str(path), container.streams.video[0])
