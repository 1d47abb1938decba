"""DALI's backend on the CPU, where it decodes VP8, VP9 and MJPEG by the calls that it has for GPUs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from tests.decode.dali import FILMS, MEAN_DIFFERENCE, difference, needs_dali, numbers
from tests.films import Film, FilmFolder, remux
from vidload import RandomResizedCrop
from vidload.decode.backends import Backends
from vidload.decode.dali import DaliDecoder, dali_video_reason
from vidload.decode.encoded import EncodedClip, encode_slice
from vidload.decode.protocol import Frames
from vidload.decode.source import read_slice
from vidload.errors import ArgumentError, DecodeError
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.transforms.geometry import CenterCrop, NativeSize, Placement, Resize


@pytest.fixture(scope="module")
def decoder() -> Iterator[DaliDecoder]:
    made = DaliDecoder("cpu", threads=2)
    yield made
    made.close()


def encoded(video: Video, frames: Sequence[int], placement: Placement | None = None) -> EncodedClip:
    placement = placement or NativeSize().plan(*video.display_size, lambda: 0.5)
    return encode_slice(read_slice(video, frames), placement)


def by_pyav(video: Video, frames: Sequence[int], placement: Placement) -> Frames:
    out = np.empty((len(frames), placement.window[3], placement.window[2], 3), np.uint8)
    Backends("pyav").decode(video, frames, placement, out)
    return out


def damaged(clip: EncodedClip) -> EncodedClip:
    """The clip with the second half of each file overwritten."""
    parts = []
    for part in clip.parts:
        data = part.data.copy()
        data[len(data) // 2 :] = 255
        parts.append(dataclasses.replace(part, data=data))
    return dataclasses.replace(clip, parts=tuple(parts))


@needs_dali
@pytest.mark.parametrize("film", FILMS, ids=str)
def test_random_access_gives_the_frames_asked_for(
    film: Film, dali_films: dict[str, Path], decoder: DaliDecoder
) -> None:
    video = demux_video(dali_films[film.name])
    assert dali_video_reason("cpu", video) is None
    rng = np.random.default_rng(0)
    for count in (1, 3, 8):
        wanted = rng.integers(0, film.num_frames, (4, count))  # in any order, with repeats
        wanted[0].sort()
        decoded = decoder.decode([encoded(video, frames) for frames in wanted], (128, 256))
        assert not decoded.errors
        assert decoded.video.dtype == torch.uint8
        assert [numbers(clip) for clip in decoded.video] == (wanted + film.first_number).tolist()


@needs_dali
def test_codecs_and_films_of_several_sizes_go_together(
    dali_films: dict[str, Path], film_file: FilmFolder, decoder: DaliDecoder
) -> None:
    videos = [demux_video(path) for path in (*dali_films.values(), film_file("vp9"))]
    assert len({(video.width, video.height) for video in videos}) == 2
    clips = [encoded(video, [3, 20, 41], Resize((64, 128)).plan(*video.display_size, lambda: 0.5)) for video in videos]
    decoded = decoder.decode(clips, (64, 128))
    assert [numbers(clip) for clip in decoded.video] == [[103, 120, 141]] * len(videos)


@needs_dali
@pytest.mark.parametrize(
    "turn", [(0, False), (90, False), (180, False), (270, False), (0, True), (90, True), (180, True)]
)
def test_pixels_lie_where_pyav_puts_them(
    turn: tuple[int, bool], dali_films: dict[str, Path], decoder: DaliDecoder, tmp_path: Path
) -> None:
    video = demux_video(remux(dali_films["vp9_mp4"], tmp_path / "turned.mp4", rotation=turn))
    uniform = np.random.default_rng(1).random
    geometries = (RandomResizedCrop((64, 96), flip=0.5), CenterCrop((64, 96), 100, flip=0.5), Resize((64, 96)))
    placements = [geometry.plan(*video.display_size, uniform) for geometry in geometries for _ in range(4)]
    assert {placement.flip for placement in placements} == {False, True}
    frames = [0, 7, 7, 30]
    for first in range(0, len(placements), 4):
        some = placements[first : first + 4]
        decoded = decoder.decode([encoded(video, frames, placement) for placement in some], (64, 96))
        for clip, placement in zip(decoded.video, some, strict=True):
            assert difference(clip, by_pyav(video, frames, placement)) < MEAN_DIFFERENCE


@needs_dali
@pytest.mark.parametrize("space", [1, 5, 9])
def test_the_matrix_of_the_stream_is_used(space: int, dali_films: dict[str, Path], decoder: DaliDecoder) -> None:
    # Colours that no matrix leaves as they are; what PyAV makes of them with that matrix is the reference.
    folder = dali_films["vp9"].parent
    path = folder / f"colours{space}.mp4"
    write_colours(path, space)
    video = demux_video(path)
    assert video.color_space == space
    placement = NativeSize().plan(*video.display_size, lambda: 0.5)
    decoded = decoder.decode([encoded(video, [0, 2], placement)], (64, 64))
    assert difference(decoded.video[0], by_pyav(video, [0, 2], placement)) < 1


def write_colours(path: Path, space: int) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=25)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        stream.codec_context.colorspace = space
        stream.codec_context.color_range = 1
        for _ in range(3):
            frame = av.VideoFrame(64, 64, "yuv420p")
            for plane, level in zip(frame.planes, (120, 90, 170), strict=True):
                plane.update(bytes([level]) * plane.buffer_size)
            frame.colorspace, frame.color_range = space, 1
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@needs_dali
def test_what_needs_nothing_more_is_the_memory_of_dali(dali_films: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(dali_films["vp9"])
    decoded = decoder.decode([encoded(video, [1, 2, 5]) for _ in range(3)], (128, 256))
    assert decoded.video.is_contiguous()
    assert not decoded.video.untyped_storage().resizable()  # as torch's own would be


@needs_dali
def test_a_file_that_cannot_be_decoded_costs_its_clip(dali_films: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(dali_films["vp9"])
    clips = [encoded(video, [first, first + 2, 50]) for first in (0, 10, 20, 30)]
    for place in (1, 3):
        clips[place] = damaged(clips[place])
    for _ in range(2):  # it goes on, call after call
        decoded = decoder.decode(clips, (128, 256))
        assert [numbers(clip) for clip in decoded.video] == [[100, 102, 150], [120, 122, 150]]
        assert list(decoded.errors) == [1, 3]
        error = decoded.errors[1]
        assert isinstance(error, DecodeError)
        for part in (video.path, "frames 10, 12, 50", "decoder dali"):
            assert part in str(error)
    assert not decoder.decode(clips[::2], (128, 256)).errors


@needs_dali
def test_all_clips_may_fail(dali_films: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(dali_films["mjpeg"])
    decoded = decoder.decode([damaged(encoded(video, [3, 40]))], (128, 256))
    assert decoded.video.shape == (0, 2, 128, 256, 3)
    assert list(decoded.errors) == [0]


@needs_dali
def test_frames_beyond_the_end_or_of_another_size_are_errors(dali_films: dict[str, Path], decoder: DaliDecoder) -> None:
    clip = encoded(demux_video(dali_films["vp9"]), [1, 2])
    beyond = dataclasses.replace(clip.parts[0], frames=np.array([0, 70]))
    wrong = [dataclasses.replace(clip, parts=(beyond,)), dataclasses.replace(clip, width=254)]
    decoded = decoder.decode([*wrong, clip], (128, 256))
    assert list(decoded.errors) == [0, 1]
    assert "out-of-bounds" in str(decoded.errors[0])
    assert "not (2, 128, 254, 3)" in str(decoded.errors[1])
    assert numbers(decoded.video[0]) == [101, 102]


@needs_dali
def test_a_clip_may_be_several_files(dali_films: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(dali_films["vp9"])
    first, second = encoded(video, [9, 9, 4]), encoded(video, [50, 52])
    parts = tuple(
        dataclasses.replace(clip.parts[0], rows=np.array(rows)) for clip, rows in ((first, [4, 1, 2]), (second, [0, 3]))
    )
    clip = dataclasses.replace(first, numbers=np.array([50, 9, 4, 52, 9]), parts=parts)
    tail = dataclasses.replace(parts[1], rows=np.array([3, 4]), frames=parts[1].frames)
    other = dataclasses.replace(clip, parts=(dataclasses.replace(parts[0], rows=np.array([0, 1, 2])), tail))
    decoded = decoder.decode([clip, damaged(clip), other], (128, 256))
    assert [numbers(clip) for clip in decoded.video] == [[150, 109, 104, 152, 109], [109, 109, 104, 150, 152]]
    assert list(decoded.errors) == [1]


@needs_dali
def test_more_than_fits_at_once_is_decoded_in_parts(
    dali_films: dict[str, Path], decoder: DaliDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vidload.decode.dali._MAX_BYTES", 5 * 256 * 128 * 3)
    video = demux_video(dali_films["vp9"])
    clips = [encoded(video, [first, first + 1]) for first in range(7)]
    clips[4] = damaged(clips[4])
    decoded = decoder.decode(clips, (128, 256))
    assert [numbers(clip)[0] for clip in decoded.video] == [100, 101, 102, 103, 105, 106]
    assert list(decoded.errors) == [4]


@needs_dali
def test_a_closed_decoder_says_so(dali_films: dict[str, Path]) -> None:
    decoder = DaliDecoder("cpu")
    decoder.close()
    decoder.close()
    with pytest.raises(ArgumentError, match="closed"):
        decoder.decode([encoded(demux_video(dali_films["vp9"]), [0])], (128, 256))


def test_without_dali_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia.dali.experimental.dynamic", None)
    with pytest.raises(ArgumentError, match=r"pip install 'vidload\[dali\]'"):
        DaliDecoder("cpu")


def test_devices_that_dali_has_not_are_refused() -> None:
    with pytest.raises(ArgumentError, match="meta"):
        DaliDecoder("meta")
