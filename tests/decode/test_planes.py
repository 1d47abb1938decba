"""Clips decoded to planar YUV are the same frames at the same place in the same colours, from films of any format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.films import FILMS, Film, FilmFolder, remux
from tests.transforms.colours import planes_to_rgb, split_planes, to_yuv
from vidload.decode.backends import Backends
from vidload.decode.protocol import Frames
from vidload.errors import ArgumentError, DecodeError
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.synthetic import read_number
from vidload.transforms.geometry import CenterCrop, Geometry, Placement, RandomResizedCrop, make_geometry
from vidload.transforms.planar import PlaneColour, clip_shape

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


def decode(
    video: Video,
    frames: Sequence[int],
    size: int | tuple[int, int] | Geometry | Placement | None = None,
    *,
    backends: Backends | None = None,
) -> tuple[Frames, PlaneColour]:
    """Planes uint8[T, H * 3 // 2, W] and their colour."""
    placement = size
    if not isinstance(placement, Placement):
        placement = make_geometry(size).plan(*video.display_size, lambda: 0.5)  # type: ignore[arg-type]
    shape = clip_shape("yuv420", len(frames), placement.window[3], placement.window[2])
    out = np.full(shape, 77, np.uint8)
    times = (backends or Backends()).decode(video, frames, placement, out, wire="yuv420")
    assert times.colour is not None
    return out, times.colour


def decode_rgb(video: Video, frames: Sequence[int], placement: Placement) -> Frames:
    out = np.empty((len(frames), placement.window[3], placement.window[2], 3), np.uint8)
    Backends("pyav").decode(video, frames, placement, out)
    return out


def numbers(planes: Frames) -> list[int]:
    """The number in each frame's luma."""
    return [read_number(split_planes(frame)[0]) for frame in planes]


def linear_planes(path: Path) -> list[tuple[Frames, ...]]:
    """Planes of all frames of a film of yuv420p, as PyAV decodes it from start to end."""
    with av.open(str(path)) as container:
        return [split_planes(frame.to_ndarray()) for frame in container.decode(video=0)]


@pytest.mark.parametrize("film", FILMS, ids=str)
@pytest.mark.parametrize("size", [None, (32, 64), (54, 96), CenterCrop((44, 46), resize=46)], ids=str)
def test_the_frames_asked_for_come_out_in_the_order_asked(film: Film, size: Any, video_of: VideoOf) -> None:
    frames = [7, 3, 3, film.num_frames - 1, *range(10, 40, 6)]
    planes, colour = decode(video_of(film), frames, size)
    assert numbers(planes) == [film.numbers[frame] for frame in frames]
    assert (colour.matrix, colour.full_range) == ("bt601", film.codec == "mjpeg")


@pytest.mark.parametrize("film", [film for film in FILMS if film.codec != "mjpeg"], ids=str)
def test_at_native_size_no_byte_is_changed(film: Film, video_of: VideoOf, film_file: FilmFolder) -> None:
    frames = [0, 31, 17, film.num_frames - 1]
    planes, colour = decode(video_of(film), frames)
    whole = linear_planes(film_file(film))
    for found, frame in zip(planes, frames, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(split_planes(found), whole[frame], strict=True))
    assert colour == PlaneColour("bt601", False, LEFT)


@pytest.mark.parametrize("window", [(0, 0, 256, 144), (10, 6, 100, 80), (11, 6, 100, 80), (10, 7, 100, 80)], ids=str)
@pytest.mark.parametrize("odd", [(155, 63), (1, 1)], ids=str)
def test_windows_are_cut_to_the_pixel(
    window: tuple[int, int, int, int], odd: tuple[int, int], video_of: VideoOf, film_file: FilmFolder
) -> None:
    """Where a window begins between chroma samples, chroma begins with the next one and its siting says so."""
    whole = linear_planes(film_file("h264_moving"))[9]
    for x, y, width, height in (window, (*odd, 100, 80)):
        placement = Placement((0, 0, 256, 144), (256, 144), (x, y, width, height))
        planes, colour = decode(video_of("h264_moving"), [9], placement)
        luma, *chroma = split_planes(planes[0])
        assert np.array_equal(luma, whole[0][y : y + height, x : x + width])
        left, top = (x + 1) // 2, (y + 1) // 2
        for found, plane in zip(chroma, whole[1:], strict=True):
            assert np.array_equal(found, plane[top : top + height // 2, left : left + width // 2])
        assert colour.siting == (x % 2, 0.5 + y % 2)


@pytest.mark.parametrize(("x", "y"), [(11, 6), (10, 7), (1, 1), (155, 63)])
def test_a_window_between_chroma_samples_has_the_same_colours(x: int, y: int, video_of: VideoOf) -> None:
    whole, colour = decode(video_of("h264_moving"), [9])
    placement = Placement((0, 0, 256, 144), (256, 144), (x, y, 100, 80))
    part, shifted = decode(video_of("h264_moving"), [9], placement)
    wanted = planes_to_rgb(whole[0], colour)[y : y + 80, x : x + 100]
    found = planes_to_rgb(part[0], shifted)
    inner = (slice(2, -2), slice(2, -2))  # at the rim, the sample beyond is cut off
    assert np.abs(found[inner] - wanted[inner]).max() < 1e-9
    assert np.abs(found - wanted).max() < 30


@pytest.mark.parametrize("crop", [(36, 20, 100, 60), (37, 20, 100, 60), (36, 21, 101, 61)], ids=str)
@pytest.mark.parametrize("scaled", [(100, 60), (71, 44)], ids=str)
def test_crops_lie_where_those_of_the_rgb_path_lie(
    crop: tuple[int, int, int, int], scaled: tuple[int, int], video_of: VideoOf
) -> None:
    video = video_of("h264_moving")
    for offset in ((0, 0), (1, 0), (0, 1)):
        placement = Placement(crop, scaled, (*offset, 70, 42))
        planes, colour = decode(video, [9], placement)
        error = planes_to_rgb(planes[0], colour) - decode_rgb(video, [9], placement)[0]
        assert np.abs(error @ [0.299, 0.587, 0.114]).mean() < 2.5
        assert np.abs(error).mean() < 4


TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: f"{turn[0]}{'-mirrored' if turn[1] else ''}")
@pytest.mark.parametrize("flip", [False, True])
def test_turned_and_mirrored_films_have_the_colours_of_the_plain_one(
    turn: tuple[int, bool], flip: bool, video_of: VideoOf, film_file: FilmFolder, tmp_path: Path
) -> None:
    """To a rounding error: chroma stays where it was seen, on whichever side of a pixel that now is."""
    degrees = turn[0] if turn[1] else -turn[0] % 360
    video = demux_video(remux(film_file("h264_moving"), tmp_path / "turned.mp4", rotation=(degrees, turn[1])))
    assert (video.rotation, video.mirrored) == turn
    plain, colour = decode(video_of("h264_moving"), [9])
    wanted = planes_to_rgb(plain[0], colour)
    wanted = np.rot90(wanted[:, ::-1] if turn[1] else wanted, -turn[0] // 90)
    wanted = wanted[:, ::-1] if flip else wanted
    width, height = video.display_size
    for x, y, w, h in ((0, 0, width, height), (12, 34, 90, 60), (7, 9, 90, 60)):
        placement = Placement((0, 0, width, height), (width, height), (x, y, w, h), flip)
        planes, found = decode(video, [9], placement)
        part = wanted[y : y + h, (width - x - w if flip else x) :][:, :w]
        error = np.abs(planes_to_rgb(planes[0], found) - part)[2:-2, 2:-2]
        assert error.max() < 1e-9


def test_a_flipped_clip_is_the_mirrored_one(video_of: VideoOf) -> None:
    video = video_of("h264_moving")
    for scaled, x in (((256, 144), 0), ((192, 108), 3)):
        plain, colour = decode(video, [9], Placement((0, 0, 256, 144), scaled, (x, 0, 96, 90)))
        flipped, other = decode(video, [9], Placement((0, 0, 256, 144), scaled, (x, 0, 96, 90), True))
        assert np.abs(planes_to_rgb(flipped[0], other) - planes_to_rgb(plain[0], colour)[:, ::-1]).max() < 1e-9


def write_patches(path: Path, pix_fmt: str, matrix: str, full_range: bool, **stream: Any) -> Path:
    """Write two frames of `PATCHES` side by side, 32 × 32 pixels each, made by the definitions; lossless by default."""
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


def test_both_forms_can_come_from_one_decoder(video_of: VideoOf) -> None:
    backends, video = Backends("pyav"), video_of("h264_moving")
    placement = RandomResizedCrop(64).plan(*video.display_size, lambda: 0.5)
    planes, rgb = decode(video, [4, 9], placement)[0], decode_rgb(video, [4, 9], placement)
    for _ in range(2):
        assert np.array_equal(decode(video, [4, 9], placement, backends=backends)[0], planes)
        out = np.empty_like(rgb)
        assert backends.decode(video, [4, 9], placement, out).colour is None
        assert np.array_equal(out, rgb)


def test_only_pyav_gives_planes(video_of: VideoOf) -> None:
    video = video_of("h264_bframes")
    assert Backends("auto").choose(video, "yuv420").name == "pyav"
    with pytest.raises(ArgumentError, match="decoder='decord': it gives RGB only; use decoder='pyav' or 'auto'"):
        decode(video, [1], backends=Backends("decord"))


def test_odd_sides_and_other_memory_are_refused(video_of: VideoOf) -> None:
    video, out = video_of("h264_bframes"), np.zeros((1, 96, 64), np.uint8)
    placement = Placement((0, 0, 256, 128), (64, 64), (0, 0, 64, 63))
    with pytest.raises(ArgumentError, match="64 pixels wide and 63 high: both have to be even"):
        Backends().decode(video, [1], placement, out, wire="yuv420")
    placement = Placement((0, 0, 256, 128), (64, 64), (0, 0, 64, 64))
    for memory in (out[:, :90], np.zeros((1, 64, 64, 3), np.uint8), np.zeros((1, 96, 128), np.uint8)[:, :, ::2]):
        with pytest.raises(ArgumentError, match=r"give uint8\[1, 96, 64\], in one piece"):
            Backends().decode(video, [1], placement, memory, wire="yuv420")
    with pytest.raises(ArgumentError, match="wire='nv12'"):
        Backends().decode(video, [1], placement, out, wire="nv12")  # type: ignore[arg-type]
