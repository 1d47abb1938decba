"""Files that aim at the machine: what docs/security.md promises of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import av
import numpy as np
import pytest

from tests.films import FilmFolder
from vidload.errors import UnreadableVideoError
from vidload.index import header, opening, packets
from vidload.index.demux import demux_video
from vidload.index.opening import open_container

PLAYLISTS = {
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfilm.ts\n#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile film.ts\n",
    "dash": (
        '<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static">'
        '<Period><AdaptationSet mimeType="video/mp4"><Representation id="0" bandwidth="1"><BaseURL>film.ts</BaseURL>'
        "</Representation></AdaptationSet></Period></MPD>\n"
    ),
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "remote": "#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:9/film.ts\n#EXT-X-ENDLIST\n",
}


@pytest.mark.parametrize("kind", PLAYLISTS)
@pytest.mark.parametrize("suffix", [".mp4", ".m3u8"])
def test_a_file_that_names_others_is_refused(kind: str, suffix: str, film_file: FilmFolder, tmp_path: Path) -> None:
    shutil.copy(film_file("h264_ts"), tmp_path / "film.ts")
    path = tmp_path / f"innocent{suffix}"
    path.write_text(PLAYLISTS[kind])
    with pytest.raises(UnreadableVideoError, match=rf"{path}: can't be read as a video: it is .*names other|an SDP"):
        demux_video(path)


def test_libavformat_would_have_opened_them(film_file: FilmFolder, tmp_path: Path) -> None:
    """So the test above can fail."""
    shutil.copy(film_file("h264_ts"), tmp_path / "film.ts")
    path = tmp_path / "list.m3u8"
    path.write_text(PLAYLISTS["hls"])
    with av.open(str(path)) as container:
        assert len(list(container.decode(video=0))) == 60


def test_a_pattern_of_pictures_is_not_followed(tmp_path: Path) -> None:
    for number in range(3):
        picture = av.VideoFrame.from_ndarray(np.full((32, 32, 3), number * 50, np.uint8), "rgb24")
        with av.open(str(tmp_path / f"p{number}.png"), "w", format="image2") as container:
            stream = container.add_stream("png", rate=1)
            assert isinstance(stream, av.VideoStream)
            stream.width = stream.height = 32
            stream.pix_fmt = "rgb24"
            container.mux(stream.encode(picture))
    (tmp_path / "p%d.png").write_bytes((tmp_path / "p0.png").read_bytes())
    with pytest.raises(UnreadableVideoError, match="in no container of films that vidload reads"):
        demux_video(tmp_path / "p%d.png")


@pytest.mark.parametrize("text", ["hello\n" * 100, "<html></html>", "RIFF", "\0" * 4096])
def test_what_is_no_film_is_said_to_be_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_text(text)
    with pytest.raises(UnreadableVideoError, match=r"x\.mp4: can't be read as a video"):
        demux_video(tmp_path / "x.mp4")


def test_addresses_are_names_of_files() -> None:
    with pytest.raises(UnreadableVideoError, match="No such file"):
        demux_video("http://127.0.0.1:9/film.mp4")
    with pytest.raises(UnreadableVideoError, match="No such file"), open_container("concat:a.ts|b.ts"):
        pass


def test_a_film_of_too_many_packets_is_refused(film_file: FilmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "MAX_PACKETS", 59)
    with pytest.raises(UnreadableVideoError, match=r"hevc\.mp4: has more than 59 packets; cut it into several files"):
        demux_video(film_file("hevc"))


def test_a_configuration_that_fills_the_index_is_refused(
    film_file: FilmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header, "MAX_HEADER", 100)
    with pytest.raises(UnreadableVideoError, match=r"hevc\.mp4: its codec's configuration is larger than 100 bytes"):
        demux_video(film_file("hevc"))


def test_a_picture_of_too_many_pixels_is_refused_while_indexing(
    film_file: FilmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MAX_CODED_PIXELS", 64 * 32)
    with pytest.raises(UnreadableVideoError, match="not one frame of its video stream can be decoded"):
        demux_video(film_file("h264_mkv"))
