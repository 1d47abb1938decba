"""Batches that a backend decodes on the device, of slices that workers read; here the backend is PyAV in disguise."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import vidload
from tests.films import FilmFolder
from tests.loader.hashes import clip_contents
from vidload import ClipDataset, DeviceTransform, RandomClips, RandomResizedCrop, VideoLoader
from vidload.decode.device import DEVICE_DECODERS, DeviceBackend
from vidload.decode.encoded import DecodedClips, EncodedClip
from vidload.decode.pyav import PyAVDecoder
from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import Video

KINDS: list[dict[str, Any]] = [{"num_workers": 0}, {"num_workers": 3, "worker_kind": "thread"}]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=["inline", "thread"])


class Disguised:
    """Decodes on "the device" what it is given, and fails on clips that contain some frame of a film."""

    name = "disguised"

    def __init__(self, bad: frozenset[tuple[str, int]]) -> None:
        self.bad = bad
        self.calls: list[int] = []
        self.closed = 0

    def decode(self, clips: Sequence[EncodedClip], size: tuple[int, int]) -> DecodedClips:
        self.calls.append(len(clips))
        videos, errors = [], {}
        for place, clip in enumerate(clips):
            name = Path(clip.path).stem
            wrong = [row for row, number in enumerate(clip.numbers.tolist()) if (name, number) in self.bad]
            if wrong:
                errors[place] = clip.undecoded(self.name, wrong, "can't be decoded: as the test wants it")
            else:
                videos.append(torch.from_numpy(self._decode(clip, size)))
        none = torch.empty((0, len(clips[0].numbers), *size, 3), dtype=torch.uint8)
        return DecodedClips(torch.stack(videos) if videos else none, errors)

    def _decode(self, clip: EncodedClip, size: tuple[int, int]) -> Any:
        out = np.empty((len(clip.numbers), *size, 3), np.uint8)
        placer = PyAVDecoder()
        for part in clip.parts:
            with av.open(io.BytesIO(part.data.tobytes())) as container:
                frames = list(container.decode(video=0))
            for row, number in zip(part.rows.tolist(), part.frames.tolist(), strict=True):
                picture = placer._place(frames[number], clip.placement, out.dtype)
                picture = picture[:, ::-1] if clip.mirrored else picture
                picture = np.rot90(picture, -(clip.rotation // 90))
                out[row] = picture[:, ::-1] if clip.placement.flip else picture
        return out

    def close(self) -> None:
        self.closed += 1


class Backend:
    """What takes DALI's place; `made` are its decoders."""

    def __init__(self) -> None:
        self.bad: frozenset[tuple[str, int]] = frozenset()
        self.codecs = {"h264"}
        self.made: list[Disguised] = []

    def reason(self, device_type: str, video: Video) -> str | None:
        return None if video.codec in self.codecs else f"it has no decoder for codec {video.codec}"

    def make(self, device: str) -> Disguised:
        assert device == "cpu"
        self.made.append(Disguised(self.bad))
        return self.made[-1]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    made = Backend()
    monkeypatch.setitem(DEVICE_DECODERS, "dali", DeviceBackend(True, made.reason, made.make))
    return made


@pytest.fixture(scope="module")
def index(film_file: FilmFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """H.264 with a closed and an open GOP, and MPEG-2, which is for the CPU."""
    path = tmp_path_factory.mktemp("device") / "films.index"
    films = [film_file(name) for name in ("h264_bframes", "h264_open_gop", "mpeg2_ts")]
    vidload.build_index(films, path, num_workers=0).close()
    return path


def clips(index: Path, decoder: Any = "dali", **arguments: Any) -> ClipDataset:
    sampler = RandomClips(num_frames=4, stride=3, clips_per_video=4)
    return ClipDataset(index, sampler, RandomResizedCrop((32, 48), flip=0.5), decoder, **arguments)


def run(loader: VideoLoader, epochs: int = 2) -> list[str]:
    with loader:
        return [content for _ in range(epochs) for batch in loader for content in clip_contents(batch)]


@every_kind
def test_batches_are_those_of_the_cpu(kind: dict[str, Any], index: Path, backend: Backend) -> None:
    loader = VideoLoader(clips(index), 4, epochs=2, shuffle=True, seed=4, **kind)
    assert run(loader) == run(VideoLoader(clips(index, "pyav"), 4, shuffle=True, seed=4, num_workers=0))
    (decoder,) = backend.made  # kept over epochs
    assert decoder.closed == 1
    stats = loader.stats()
    assert stats["fallbacks"] == 8  # MPEG-2, four clips an epoch
    assert sum(decoder.calls) == 16
    assert stats["errors"] == 0


@every_kind
def test_what_the_device_fails_on_is_decoded_by_the_cpu(kind: dict[str, Any], index: Path, backend: Backend) -> None:
    backend.bad = frozenset(("h264_bframes", number) for number in range(100))
    loader = VideoLoader(clips(index), 6, epochs=2, shuffle=True, seed=4, **kind)
    assert run(loader) == run(VideoLoader(clips(index, "pyav"), 6, shuffle=True, seed=4, num_workers=0))
    stats = loader.stats()
    assert (stats["fallbacks"], stats["errors"]) == (16, 0)
    assert sum(backend.made[0].calls) == 16  # what came out right isn't decoded again


@every_kind
def test_without_a_fallback_it_is_an_error_of_its_batch(kind: dict[str, Any], index: Path, backend: Backend) -> None:
    backend.bad = frozenset(("h264_open_gop", number) for number in range(60))
    with VideoLoader(clips(index, fallback=False), 4, **kind) as loader:
        iterator = iter(loader)
        assert next(iterator).video_id.tolist() == [0] * 4
        with pytest.raises(
            DecodeError, match=r"h264_open_gop.mp4: frames .*as the test wants it \(decoder disguised\)"
        ):
            next(iterator)
        assert next(iter(loader)).video_id.tolist() == [0] * 4  # the next epoch


@every_kind
def test_a_codec_it_cannot_decode_is_an_error_without_a_fallback(
    kind: dict[str, Any], index: Path, backend: Backend
) -> None:
    with VideoLoader(clips(index, fallback=False), 4, **kind) as loader:
        iterator = iter(loader)
        for _ in range(2):
            next(iterator)
        with pytest.raises(
            DecodeError, match=r"mpeg2_ts.ts: decoder dali can't decode it on cpu: it has no decoder for"
        ):
            next(iterator)


@every_kind
def test_errors_are_replaced_by_the_same_clips_in_every_run(
    kind: dict[str, Any], index: Path, backend: Backend, tmp_path: Path
) -> None:
    """And by those that the CPU's errors are replaced by."""
    backend.bad = frozenset(("h264_bframes", number) for number in range(100))
    log = tmp_path / "errors.jsonl"
    arguments: dict[str, Any] = {
        "shuffle": True,
        "seed": 4,
        "on_error": "replace",
        "max_error_rate": 1,
        "error_log": log,
    }
    loader = VideoLoader(clips(index, fallback=False), 4, **arguments, **kind)
    backend.codecs |= {"mpeg2video"}
    with loader:
        batches = [batch for _ in range(2) for batch in loader]
    assert all(0 not in batch.video_id.tolist() for batch in batches)
    with VideoLoader(clips(index, "pyav"), 4, shuffle=True, seed=4, num_workers=0) as plain:
        expected = [batch for _ in range(2) for batch in plain]
    lines = {(line["epoch"], line["step"], line["row"]): line for line in map(json.loads, log.read_text().splitlines())}
    replaced = 0
    for batch, other in zip(batches, expected, strict=True):
        for row, (sample, wanted) in enumerate(zip(batch.sample.tolist(), other.sample.tolist(), strict=True)):
            if wanted < 4:  # of the first film
                assert lines[batch.epoch, batch.step, row]["replaced_by"] == sample
                replaced += 1
            else:
                assert sample == wanted
                assert torch.equal(batch.frames[row], other.frames[row])
    assert replaced == 8


@every_kind
def test_it_goes_on_from_a_state(kind: dict[str, Any], index: Path, backend: Backend) -> None:
    whole = run(VideoLoader(clips(index), 4, shuffle=True, seed=4, num_workers=0))
    with VideoLoader(clips(index), 4, shuffle=True, seed=4, **kind) as loader:
        iterator = iter(loader)
        next(iterator)
        state = json.loads(json.dumps(loader.state_dict()))
    second = VideoLoader(clips(index), 4, shuffle=True, seed=4, **kind)
    second.load_state_dict(state)
    assert run(second) == whole[4:]


def test_a_transform_is_done_with_them(index: Path, backend: Backend) -> None:
    transform = DeviceTransform((0.4, 0.5, 0.6), flip=0.5)
    made = VideoLoader(clips(index), 4, seed=4, num_workers=2, worker_kind="thread", device_transform=transform)
    expected = VideoLoader(clips(index, "pyav"), 4, seed=4, num_workers=0, device_transform=transform)
    assert run(made) == run(expected)


def test_what_cannot_be_is_refused(index: Path, backend: Backend) -> None:
    with pytest.raises(ArgumentError, match="wire='yuv420' with decoder='dali': it decodes on the device already"):
        VideoLoader(clips(index), wire="yuv420", num_workers=0)
    with pytest.raises(ArgumentError, match="decoder='dali' is for a ClipDataset with a size"):
        VideoLoader(ClipDataset(index, size=None, decoder="dali"), num_workers=0)
    with pytest.raises(ArgumentError, match="decoder='dali' decodes the batches of a VideoLoader"):
        clips(index)[0]
