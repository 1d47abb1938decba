"""Planes have the colours that their film's stream, or else its container, says; whatever the pixel format."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.decode.decoding import decode, decode_rgb
from tests.films import Film
from tests.transforms.colours import planes_to_rgb, to_yuv
from vidload.decode.backends import Backends
from vidload.decode.bounded import BoundedCache
from vidload.decode.planes import PlanesWriter
from vidload.decode.source import read_slice
from vidload.errors import DecodeError
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.transforms.geometry import CenterCrop, make_geometry
from vidload.transforms.planar import PlaneColour

VideoOf = Callable[[Film | str], Video]

LEFT, CENTRED = (0.0, 0.5), (0.5, 0.5)
SPACES = {"bt601": 5, "bt709": 1, "bt2020": 9, "fcc": 4, "smpte240m": 7, "unstated": 2}
"""AVColorSpace numbers."""
PATCHES = np.array(
    [
        [230, 30, 30],
        [40, 200, 60],
        [40, 60, 220],
        [220, 210, 40],
        [200, 60, 190],
        [128, 128, 128],
        [20, 20, 20],
        [240] * 3,
    ]
)
"""Colours of the patches that a film of patches shows side by side, RGB."""


def patches(pix_fmt: str, matrix: str, full_range: bool) -> av.VideoFrame:
    """`PATCHES` side by side, 32 × 32 pixels each, made by the definitions."""
    frame = av.VideoFrame(32 * len(PATCHES), 32, pix_fmt)
    pixels = frame.format
    bits = pixels.components[0].bits
    kind = np.uint8 if bits == 8 else np.uint16
    stated = "bt601" if matrix == "unstated" else matrix
    if pixels.is_rgb:
        order = {"gbrp10le": (1, 2, 0)}.get(pix_fmt, (0, 1, 2))
        values = np.round(PATCHES * (2**bits - 1) / 255).astype(int)[:, order]
    else:
        values = np.round(to_yuv(PATCHES, stated, full_range, bits)).astype(int).clip(0, 2**bits - 1)
    for number, plane in enumerate(frame.planes):
        line = np.zeros(plane.line_size // kind().itemsize, kind)
        if pix_fmt == "bgr0":
            row = np.repeat(np.pad(PATCHES[:, ::-1], ((0, 0), (0, 1))), 32, 0).reshape(-1)
        else:
            row = np.repeat(values[:, number], plane.width // len(PATCHES))
        line[: len(row)] = row
        plane.update(np.tile(line, plane.height).tobytes())
    frame.colorspace, frame.color_range = SPACES[matrix], 2 if full_range else 1
    return frame


def write_patches(path: Path, pix_fmt: str, matrix: str, full_range: bool, **stream: Any) -> Path:
    """Write a film of two frames of `PATCHES`, lossless by default."""
    frame = patches(pix_fmt, matrix, full_range)
    with av.open(str(path), "w") as container:
        track: Any = container.add_stream(stream.pop("codec", "ffv1"), rate=25)
        track.width, track.height, track.pix_fmt = frame.width, frame.height, pix_fmt
        context = track.codec_context
        context.colorspace, context.color_range = SPACES[matrix], 2 if full_range else 1
        context.options = stream
        for pts in range(2):
            frame.pts, frame.time_base = pts, Fraction(1, 25)
            container.mux(track.encode(frame))
        container.mux(track.encode())
    return path


def patch_colours(rgb: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Mean colour of the middle of each patch."""
    wide = rgb.shape[1] // len(PATCHES)
    middle = rgb[rgb.shape[0] // 4 : -rgb.shape[0] // 4]
    return np.stack(
        [middle[:, number * wide + wide // 3 : (number + 1) * wide - wide // 3].mean((0, 1)) for number in range(8)]
    )


FORMATS = ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "yuv444p12le", "yuv411p"]


@pytest.mark.parametrize("pix_fmt", FORMATS)
@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", SPACES)
def test_films_of_any_format_matrix_and_range_have_their_colours(
    pix_fmt: str, full_range: bool, matrix: str, tmp_path: Path
) -> None:
    """Against colours that no library converted: the matrix and range that are stated are those of the numbers."""
    video = demux_video(write_patches(tmp_path / "film.mkv", pix_fmt, matrix, full_range))
    assert video.pix_fmt.replace("yuvj", "yuv") == pix_fmt
    for size in (None, (16, 128), (40, 320)):
        planes, colour = decode(video, [1], size)
        assert colour == PlaneColour("bt601" if matrix == "unstated" else matrix, full_range, LEFT)
        found = patch_colours(planes_to_rgb(planes[0], colour))
        # 1.5 levels of rounding Y, U and V to 8 bits, and 1 of libswscale's from more bits.
        assert np.abs(found - PATCHES).max() < (2 if video.pix_fmt.endswith("p") else 3)


@pytest.mark.parametrize("pix_fmt", ["bgr0", "gbrp10le", "gray", "gray10le"])
def test_films_of_rgb_and_grey_have_their_colours(pix_fmt: str, tmp_path: Path) -> None:
    video = demux_video(write_patches(tmp_path / "film.mkv", pix_fmt, "unstated", True))
    assert video.pix_fmt == pix_fmt
    wanted = PATCHES if "gray" not in pix_fmt else to_yuv(PATCHES, "bt601", True)[:, :1].repeat(3, 1)
    for size in (None, (16, 128)):
        planes, colour = decode(video, [1], size)
        assert colour == PlaneColour("bt601", True, LEFT)
        assert np.abs(patch_colours(planes_to_rgb(planes[0], colour)) - wanted).max() < 3


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p"])
@pytest.mark.parametrize("matrix", ["bt601", "bt709", "bt2020"])
def test_both_forms_have_the_same_colours(matrix: str, pix_fmt: str, full_range: bool, tmp_path: Path) -> None:
    video = demux_video(
        write_patches(tmp_path / "film.mp4", pix_fmt, matrix, full_range, codec="libx264", crf="1", threads="1")
    )
    for size in (None, (16, 128)):
        placement = make_geometry(size).plan(*video.display_size, lambda: 0.5)
        planes, colour = decode(video, [1], placement)
        assert (colour.matrix, colour.full_range) == (matrix, full_range)
        found, rgb = patch_colours(planes_to_rgb(planes[0], colour)), decode_rgb(video, [1], placement)[0]
        assert np.abs(found - PATCHES).max() < 4
        assert np.abs(found - patch_colours(rgb)).max() < 5  # libswscale's own errors, see docs/device.md


@pytest.mark.parametrize("kind", [("bt709", False), ("bt601", True), ("unstated", True)], ids=str)
def test_colours_that_only_the_container_states_are_kept(kind: tuple[str, bool], tmp_path: Path) -> None:
    """MPEG-4 has none of its own. By both backends, and by one that had the same stream in other colours before."""
    quality = {"codec": "mpeg4", "qmin": "1", "qmax": "1"}
    video = demux_video(write_patches(tmp_path / "film.mkv", "yuv420p", *kind, **quality))
    other = demux_video(write_patches(tmp_path / "other.mkv", "yuv420p", "bt2020", False, **quality))
    placement = make_geometry(None).plan(*video.display_size, lambda: 0.5)
    planes, colour = decode(video, [1])
    assert (colour.matrix, colour.full_range) == ("bt601" if kind[0] == "unstated" else kind[0], kind[1])
    assert np.abs(patch_colours(planes_to_rgb(planes[0], colour)) - PATCHES).max() < 3
    for decoder in ("pyav", "decord"):
        backends, out = Backends(decoder), np.empty((1, 32, 256, 3), np.uint8)
        for film in (other, video):
            backends.decode(film, [1], placement, out)
            assert np.abs(patch_colours(out[0]) - PATCHES).max() < 4, (decoder, film.path)


def test_jpegs_chroma_lies_in_the_middle(video_of: VideoOf) -> None:
    for size, siting in ((None, CENTRED), ((32, 64), CENTRED), (CenterCrop((40, 42), resize=42), (1.5, 1.5))):
        assert decode(video_of("mjpeg_avi"), [3], size)[1] == PlaneColour("bt601", True, siting)


def test_a_matrix_that_libswscale_lacks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    write_patches(path, "yuv420p", "bt709", False, codec="libx264", **{"x264-params": "colormatrix=YCgCo:threads=1"})
    with pytest.raises(DecodeError, match=r"film\.mp4: frame 1: no conversion for AVColorSpace 8 \(decoder pyav\)"):
        decode(demux_video(path), [1])


def test_films_of_one_size_and_other_colours_share_a_decoder(tmp_path: Path) -> None:
    kinds = [("bt709", False), ("bt601", False), ("bt709", True)]
    videos = [
        demux_video(write_patches(tmp_path / f"{number}.mkv", "yuv444p", *kind)) for number, kind in enumerate(kinds)
    ]
    backends = Backends()
    for number in (0, 1, 2, 0, 1, 2):
        planes, colour = decode(videos[number], [1], (16, 128), backends=backends)
        assert (colour.matrix, colour.full_range) == kinds[number]
        assert np.abs(patch_colours(planes_to_rgb(planes[0], colour)) - PATCHES).max() < 2.5


def test_a_clip_whose_frames_differ_gets_the_colours_of_its_first(video_of: VideoOf) -> None:
    video = video_of("h264_bframes")
    placement = make_geometry((64, 128)).plan(*video.display_size, lambda: 0.5)
    out = np.zeros((3, 96, 128), np.uint8)
    writer = PlanesWriter(read_slice(video, [0, 1, 2]), placement, out, BoundedCache(8))
    for row, (matrix, full_range) in enumerate([("bt709", False), ("bt601", True), ("bt2020", False)]):
        frame = av.VideoFrame(256, 128, "yuv444p")
        for plane, small in zip(frame.planes, patches("yuv444p", matrix, full_range).planes, strict=True):
            plane.update(np.tile(np.frombuffer(small, np.uint8), 4).tobytes())
        frame.pts, frame.colorspace, frame.color_range = row, SPACES[matrix], 2 if full_range else 1
        writer.write(row, frame, [row])
        assert writer.colour == PlaneColour("bt709", False, LEFT)
        assert (
            np.abs(patch_colours(planes_to_rgb(out[row], writer.colour)) - PATCHES).max() < 5
        )  # 18 and more, if not converted
