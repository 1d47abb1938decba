"""Backend dali, on the CPU: VP8, VP9 and MJPEG go through all of it without a GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vidload
from tests.films import FilmFolder, remux
from tests.loader.hashes import clip_contents
from vidload import ClipDataset, RandomClips, RandomResizedCrop, SparseFrames, VideoLoader
from vidload.decode.dali import DaliDecoder, dali_reason
from vidload.decode.encoded import EncodedClip, encode_slice
from vidload.decode.source import read_slice
from vidload.errors import DecodeError
from vidload.index.demux import demux_video
from vidload.synthetic import read_number, write_film
from vidload.transforms.geometry import make_geometry

try:
    import nvidia.dali.experimental.dynamic  # noqa: F401
except ImportError:
    if os.environ.get("VIDLOAD_REQUIRE_DALI") == "1":
        raise
    pytest.skip("DALI isn't installed", allow_module_level=True)

FILMS = ["vp8", "vp9", "vp9_mp4", "mjpeg_avi"]

every_film = pytest.mark.parametrize("film", FILMS)

MEAN_DIFFERENCE = 2.5
"""Levels of 255 between DALI's pixels and PyAV's, on average: another kernel, and conversion before scaling."""


@pytest.fixture(scope="module")
def decoder() -> DaliDecoder:
    return DaliDecoder("cpu")


def clip_of(path: Path, frames: list[int], size: Any = None, uniform: Any = lambda: 0.5) -> EncodedClip:
    video = demux_video(path)
    return encode_slice(read_slice(video, frames), make_geometry(size).plan(*video.display_size, uniform))


def numbers(frames: torch.Tensor) -> list[int]:
    return [read_number(frame.numpy()) for frame in frames]


@every_film
def test_frames_come_in_any_order_and_repeated(film: str, film_file: FilmFolder, decoder: DaliDecoder) -> None:
    source = np.random.default_rng(1)
    for _ in range(12):
        wanted = source.integers(0, 60, 7).tolist()
        wanted[3] = wanted[0]
        decoded = decoder.decode([clip_of(film_file(film), wanted)], (64, 128))
        assert not decoded.errors
        assert decoded.video.shape == (1, 7, 64, 128, 3)
        assert numbers(decoded.video[0]) == [100 + frame for frame in wanted]


def test_clips_of_several_films_at_once(film_file: FilmFolder, decoder: DaliDecoder) -> None:
    wanted = [[5, 3, 59], [0, 0, 30], [10, 20, 30], [44, 43, 42]]
    clips = [clip_of(film_file(film), frames, (48, 96)) for film, frames in zip(FILMS, wanted, strict=True)]
    decoded = decoder.decode(clips, (48, 96))
    assert [numbers(clip) for clip in decoded.video] == [[100 + frame for frame in frames] for frames in wanted]


def test_many_clips_are_decoded_a_few_at_a_time(
    film_file: FilmFolder, decoder: DaliDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vidload.decode.dali._CHUNK_BYTES", 128 * 64 * 3 * 5)  # five pictures
    called: list[int] = []
    call = DaliDecoder._call
    monkeypatch.setattr(DaliDecoder, "_call", lambda self, parts: called.append(len(parts)) or call(self, parts))
    clips = [clip_of(film_file("vp9"), [frame, frame + 1]) for frame in (0, 10, 20, 30, 40)]
    decoded = decoder.decode(clips, (64, 128))
    assert called == [2, 2, 1]
    assert numbers(decoded.video[:, 0]) == [100, 110, 120, 130, 140]


@pytest.mark.parametrize("rotation", [(0, True), (90, False), (180, True), (270, False)])
def test_the_picture_is_turned_and_placed_as_by_pyav(
    rotation: tuple[int, bool], film_file: FilmFolder, tmp_path: Path, decoder: DaliDecoder
) -> None:
    path = remux(film_file("vp9_mp4"), tmp_path / "turned.mp4", rotation=rotation)
    source = np.random.default_rng(2)
    for size in ((40, 60), RandomResizedCrop((40, 40), flip=0.5), vidload.CenterCrop(32, resize=48)):
        numbers_drawn = source.random(40).tolist()
        geometry = make_geometry(size)
        video = demux_video(path)
        placement = geometry.plan(*video.display_size, iter(numbers_drawn).__next__)
        clip = encode_slice(read_slice(video, [3, 30]), placement)
        height, width = geometry.output_size or (0, 0)
        out = np.empty((2, height, width, 3), np.uint8)
        vidload.open_video(path, "pyav")._backends.decode(video, [3, 30], placement, out)
        decoded = decoder.decode([clip], (height, width)).video[0].numpy()
        assert np.abs(decoded.astype(int) - out.astype(int)).mean() < 6  # sharp edges, each scaled by its own kernel


def test_pixels_are_nearly_pyavs(footage: list[Path], tmp_path: Path, decoder: DaliDecoder) -> None:
    """Real footage as VP9, at native size, reduced and enlarged."""
    film = tmp_path / "bikes.webm"
    transcode(footage[0], film)
    video = demux_video(film)
    for size in (None, 112, (200, 500), (400, 900)):
        geometry = make_geometry(size)
        placement = geometry.plan(*video.display_size, lambda: 0.5)
        out = np.empty((3, placement.window[3], placement.window[2], 3), np.uint8)
        vidload.open_video(film, "pyav")._backends.decode(video, [0, 7, 14], placement, out)
        clip = encode_slice(read_slice(video, [0, 7, 14]), placement)
        decoded = decoder.decode([clip], out.shape[1:3]).video[0].numpy()  # type: ignore[arg-type]
        assert np.abs(decoded.astype(int) - out.astype(int)).mean() < MEAN_DIFFERENCE


def transcode(source: Path, target: Path, frames: int = 15) -> None:
    import av

    with av.open(str(source)) as container, av.open(str(target), "w") as out:
        stream = out.add_stream("libvpx-vp9", rate=25, options={"crf": "20", "b": "0", "cpu-used": "8"})
        stream.width, stream.height, stream.pix_fmt = 640, 272, "yuv420p"
        for number, frame in enumerate(container.decode(video=0)):
            if number == frames:
                break
            frame.pts = None
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def test_a_broken_file_costs_its_clip(film_file: FilmFolder, decoder: DaliDecoder) -> None:
    clips = [clip_of(film_file("vp9"), [frame, frame + 1]) for frame in (0, 20, 40)]
    clips[1].parts[0].data.setflags(write=False)
    broken = clips[1].parts[0].data.copy()
    broken[: len(broken) // 2] = 0
    object.__setattr__(clips[1].parts[0], "data", broken)
    for _ in range(2):  # and the decoder goes on
        decoded = decoder.decode(clips, (64, 128))
        assert list(decoded.errors) == [1]
        assert numbers(decoded.video.flatten(0, 1)) == [100, 101, 140, 141]
        with pytest.raises(DecodeError, match=r"vp9.webm: frames 20, 21: can't be decoded: .* \(decoder dali\)"):
            raise decoded.errors[1]


def test_a_frame_beyond_the_end_is_an_error_not_another_frame(film_file: FilmFolder, decoder: DaliDecoder) -> None:
    clip = clip_of(film_file("vp9"), [3, 4])
    object.__setattr__(clip.parts[0], "frames", np.array([3, 400]))
    assert list(decoder.decode([clip], (64, 128)).errors) == [0]


def test_a_picture_of_another_size_is_an_error(film_file: FilmFolder, decoder: DaliDecoder) -> None:
    clip = clip_of(film_file("vp9"), [3, 4])
    object.__setattr__(clip, "width", 64)
    (error,) = decoder.decode([clip], (64, 128)).errors.values()
    assert "not 64×64 pixels" in str(error)


@every_film
def test_what_it_can_decode_is_known_beforehand(film: str, film_file: FilmFolder) -> None:
    assert dali_reason("cpu", demux_video(film_file(film))) is None


@pytest.mark.parametrize(
    ("film", "device", "reason"),
    [
        ("h264_bframes", "cpu", "no decoder for codec h264"),
        ("h264_bframes", "cuda", None),
        ("hevc", "cuda", "below 144×144"),
        ("mpeg2_ts", "cuda", "no decoder for codec mpeg2video"),
        ("ffv1_mkv", "cuda", "no decoder for codec ffv1"),
        ("vp9", "xpu", "no device xpu"),
    ],
)
def test_what_it_cannot_decode_has_a_reason(film: str, device: str, reason: str | None, film_file: FilmFolder) -> None:
    found = dali_reason(device, demux_video(film_file(film)))
    assert (found is None) if reason is None else reason in str(found)


# Through the loader

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2, "worker_kind": "thread"},
    {"num_workers": 2, "worker_kind": "process"},
]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=["inline", "thread", "process"])


@pytest.fixture(scope="module")
def index(film_file: FilmFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VP8, VP9, MJPEG, and H.264, which PyAV decodes in its place."""
    path = tmp_path_factory.mktemp("dali") / "films.index"
    films = [film_file(name) for name in ("vp8", "vp9", "mjpeg_avi", "h264_variable")]
    vidload.build_index(films, path, num_workers=0).close()
    return path


def dataset(index: Path, decoder: Any = "dali", **arguments: Any) -> ClipDataset:
    return ClipDataset(index, RandomClips(num_frames=4, stride=3, clips_per_video=4), (48, 96), decoder, **arguments)


@every_kind
def test_frames_are_right_over_epochs(kind: dict[str, Any], index: Path) -> None:
    with VideoLoader(dataset(index), 4, shuffle=True, seed=1, **kind) as loader:
        for _ in range(3):
            for batch in loader:
                for clip, frames in zip(batch.video.permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                    assert numbers(clip) == [100 + frame for frame in frames]
        stats = loader.stats()
    assert stats["fallbacks"] >= 12
    assert stats["errors"] == 0


def test_the_clips_are_those_of_other_backends(index: Path) -> None:
    loaders = [VideoLoader(dataset(index, name), 4, shuffle=True, seed=1, num_workers=0) for name in ("dali", "pyav")]
    made, plain = ([batch for _ in range(2) for batch in loader] for loader in loaders)
    for one, other in zip(made, plain, strict=True):
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.video_id, other.video_id)
        assert (one.video.float() - other.video.float()).abs().mean() < 6


@every_kind
def test_it_goes_on_from_a_state(kind: dict[str, Any], index: Path) -> None:
    def run(loader: VideoLoader) -> list[str]:
        return [content for _ in range(2) for batch in loader for content in clip_contents(batch)]

    with VideoLoader(dataset(index), 4, shuffle=True, seed=1, num_workers=0) as loader:
        whole = run(loader)
    with VideoLoader(dataset(index), 4, shuffle=True, seed=1, **kind) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
    with VideoLoader(dataset(index), 4, shuffle=True, seed=1, **kind) as loader:
        loader.load_state_dict(state)
        assert run(loader) == whole[4:]


@every_kind
def test_a_corrupt_film_costs_its_clips(kind: dict[str, Any], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.webm", tmp_path / "bad.webm"
    write_film(good, 60, codec="libvpx-vp9")
    shutil.copy(good, bad)
    with vidload.build_index([good, bad], tmp_path / "films.index", num_workers=0) as built:
        places = list(zip(built[1].packet_pos.tolist(), built[1].packet_size.tolist(), strict=True))
    before, data = bad.stat(), bytearray(bad.read_bytes())
    for begin, size in places:
        data[begin : begin + size] = b"\xff" * size
    bad.write_bytes(data)
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns))
    clips = ClipDataset(tmp_path / "films.index", SparseFrames(4, jitter=True, clips_per_video=5), (48, 96), "dali")
    with VideoLoader(clips, 5, on_error="replace", max_error_rate=1, error_log=tmp_path / "log", **kind) as loader:
        for batch in loader:
            assert set(batch.video_id.tolist()) == {0}
            for clip, frames in zip(batch.video.permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                assert numbers(clip) == frames
    assert (tmp_path / "log").read_text().count("bad.webm") >= 5
