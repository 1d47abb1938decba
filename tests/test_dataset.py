"""`ClipDataset` is a map-style data set whose samples are the clips that sampler and geometry mean."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import vidload
from tests.backends import BACKENDS
from tests.films import FILMS, FILMS_BY_NAME, FilmFolder
from vidload import ClipDataset, DenseClips, RandomClips, RandomResizedCrop, SparseFrames, UniformClips, VideoIndex
from vidload.dataset import Clip
from vidload.errors import ArgumentError, IndexFormatError, StaleIndexError, VideoTooShortError
from vidload.synthetic import read_number, write_film
from vidload.transforms.colour import colour_parameters, yuv420_to_rgb
from vidload.transforms.geometry import CenterCrop

NAMES = ["h264_bframes", "h264_variable", "hevc_open_gop", "vp9", "mpeg4_avi"]
"""Films of the index, by row: the first has 100 frames, the others 60."""


@pytest.fixture(scope="module")
def index(film_file: FilmFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    rows = [f"{film_file(name)},{number % 3},{name},{number / 2}" for number, name in enumerate(NAMES)]
    (folder / "films.csv").write_text("\n".join(["path,label,title,score", *rows]))
    vidload.build_index(folder / "films.csv", folder / "films.index", num_workers=0).close()
    return folder / "films.index"


def numbers(clip: Clip) -> list[int]:
    """The number in each frame's pixels."""
    return [read_number(frame.numpy()) for frame in clip.video.permute(1, 2, 3, 0)]


def test_a_sample_is_a_clip_of_the_frames_it_says(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(8, stride=3), size=64)
    assert len(dataset) == len(NAMES)
    for number, name in enumerate(NAMES):
        clip = dataset[number]
        film = FILMS_BY_NAME[name]
        assert isinstance(clip, Clip)
        assert (clip.video.dtype, tuple(clip.video.shape)) == (torch.uint8, (3, 8, 64, 64))
        assert clip.video.permute(1, 2, 3, 0).is_contiguous()
        assert (clip.frames.dtype, clip.pts.dtype) == (torch.int64, torch.float64)
        assert torch.diff(clip.frames).tolist() == [3] * 7
        assert numbers(clip) == [film.numbers[frame] for frame in clip.frames]
        assert clip.video_id == number
        pts = dataset.index[number].pts()
        assert clip.pts.tolist() == pts[clip.frames.numpy()].tolist()


def test_labels_and_other_columns_come_with_the_clip(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(2), size=32)
    for number, name in enumerate(NAMES):
        assert dataset[number].label == number % 3
        assert dataset[number].extra == {"title": name, "score": number / 2}


def test_a_video_without_a_label_has_minus_one(film_file: FilmFolder, tmp_path: Path) -> None:
    vidload.build_index(film_file("vp8"), tmp_path / "x.index", num_workers=0).close()
    clip = ClipDataset(tmp_path / "x.index", RandomClips(2), size=32)[0]
    assert (clip.label, clip.extra) == (-1, {})


def test_the_defaults_are_sixteen_frames_at_stride_four_of_224_pixels(index: Path) -> None:
    dataset = ClipDataset(index)
    assert dataset.clips == RandomClips(16, stride=4)
    assert dataset.clip_shape == (16, 224, 224, 3)
    assert tuple(dataset[0].video.shape) == (3, 16, 224, 224)


def test_negative_numbers_count_from_the_end(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(2), size=32)
    assert [dataset[number].video_id for number in (-1, -5)] == [4, 0]


@pytest.mark.parametrize("number", [5, -6, 10**9])
def test_there_is_no_sample_beyond_the_ends(index: Path, number: int) -> None:
    with pytest.raises(IndexError, match=r"of a data set of 5"):
        ClipDataset(index, RandomClips(2), size=32)[number]


def test_it_can_be_walked_through(index: Path) -> None:
    assert [clip.video_id for clip in ClipDataset(index, RandomClips(2), size=32)] == [0, 1, 2, 3, 4]  # type: ignore[attr-defined]


def test_several_clips_of_a_video_follow_each_other(index: Path) -> None:
    dataset = ClipDataset(index, UniformClips(4, stride=2, clips_per_video=3), size=32)
    assert len(dataset) == 15
    assert [dataset.locate(number) for number in (0, 2, 3, 14)] == [(0, 0), (0, 2), (1, 0), (4, 2)]
    assert [dataset[number].frames[0].item() for number in range(3)] == [0, 47, 93]
    for number in (-1, 15):
        with pytest.raises(IndexError, match=f"sample {number} of a data set of 15"):
            dataset.locate(number)


def test_videos_may_give_other_numbers_of_clips(index: Path) -> None:
    dataset = ClipDataset(index, DenseClips(10, stride=1, hop=30), size=32)
    assert len(dataset) == 4 + 4 * 2
    rows = [dataset.locate(number) for number in range(len(dataset))]
    assert rows == [(0, 0), (0, 1), (0, 2), (0, 3)] + [(row, clip) for row in (1, 2, 3, 4) for clip in (0, 1)]
    assert [dataset[number].frames[0].item() for number in (3, 4, 5)] == [90, 0, 30]


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        (64, (64, 64)),
        ((40, 80), (40, 80)),
        (None, (128, 256)),
        (CenterCrop(56, resize=64), (56, 56)),
        (vidload.Resize((30, 90)), (30, 90)),
        (RandomResizedCrop(48), (48, 48)),
    ],
    ids=str,
)
@pytest.mark.parametrize("decoder", BACKENDS)
def test_every_geometry_gives_its_size(index: Path, size: Any, shape: tuple[int, int], decoder: Any) -> None:
    dataset = ClipDataset(index, RandomClips(4), size=size, decoder=decoder)
    assert tuple(dataset[0].video.shape) == (3, 4, *shape)
    assert dataset.clip_shape == (None if size is None else (4, *shape, 3))


def test_native_size_is_each_videos_own(index: Path) -> None:
    dataset = ClipDataset(index, SparseFrames(3), size=None)
    assert [tuple(dataset[number].video.shape[2:]) for number in (0, 1)] == [(128, 256), (64, 128)]
    assert numbers(dataset[0]) == [100 + frame for frame in dataset[0].frames]


def test_a_random_crop_is_the_same_for_all_frames_and_another_for_each_clip(index: Path) -> None:
    dataset = ClipDataset(index, SparseFrames(4), size=RandomResizedCrop((64, 128), flip=0))
    plans = [dataset.plan(0, 0, random.Random(seed).random) for seed in range(6)]
    assert len({plan.placement.crop for plan in plans}) == 6
    whole = ClipDataset(index, SparseFrames(4), size=None)[0].video.float()
    for seed, plan in enumerate(plans):
        x, y, width, height = plan.placement.crop
        clip = dataset.sample(0, random.Random(seed).random).video.float()
        for frame in range(4):
            assert abs(clip[:, frame].mean() - whole[:, frame, y : y + height, x : x + width].mean()) < 3


def test_random_clips_start_elsewhere_in_each_epoch(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(2, stride=1), size=32)
    starts = {int(dataset.seeded_sample(0, seed=0, epoch=epoch).frames[0]) for epoch in range(12)}
    assert len(starts) > 6
    assert len({int(dataset[0].frames[0]) for _ in range(12)}) > 4


def test_a_seeded_sample_is_a_pure_function(index: Path) -> None:
    first = ClipDataset(index, RandomClips(3), size=RandomResizedCrop(40))
    second = ClipDataset(index, RandomClips(3), size=RandomResizedCrop(40))
    random.seed(1)
    wanted = {(sample, epoch): first.seeded_sample(sample, 7, epoch) for sample in range(5) for epoch in range(3)}
    random.seed(2)
    for (sample, epoch), clip in reversed(wanted.items()):
        again = second.seeded_sample(sample, 7, epoch)
        assert torch.equal(again.video, clip.video)
        assert torch.equal(again.frames, clip.frames)
    assert not torch.equal(second.seeded_sample(0, 8, 0).video, wanted[0, 0].video)


def test_it_gives_what_the_loader_gives(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(3), size=RandomResizedCrop(40))
    with vidload.VideoLoader(dataset, batch_size=5, epochs=2, num_workers=0, seed=3) as loader:
        for epoch in range(2):
            for batch in loader:
                for number, video_id in enumerate(batch.video_id.tolist()):
                    clip = dataset.seeded_sample(video_id, 3, epoch)
                    assert torch.equal(batch.video[number], clip.video)


def test_dropping_disposable_packets_changes_no_sample(index: Path) -> None:
    dropping, keeping = (ClipDataset(index, RandomClips(6), size=None, drop_disposable=drop) for drop in (True, False))
    for sample in range(5):
        assert torch.equal(dropping.seeded_sample(sample, 0, 0).video, keeping.seeded_sample(sample, 0, 0).video)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("decoder", BACKENDS)
def test_torchs_dataloader_takes_it(index: Path, num_workers: int, decoder: Any) -> None:
    dataset = ClipDataset(index, RandomClips(4, clips_per_video=2), size=64, decoder=decoder)
    dataset[0]  # what the parent has open must not disturb workers that are forked from it
    context = "fork" if num_workers else None
    loader = DataLoader(dataset, batch_size=4, num_workers=num_workers, multiprocessing_context=context)
    batches = list(loader)
    assert [tuple(batch.video.shape) for batch in batches] == [(4, 3, 4, 64, 64)] * 2 + [(2, 3, 4, 64, 64)]
    assert [number for batch in batches for number in batch.video_id.tolist()] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    for batch in batches:
        assert isinstance(batch, Clip)
        assert batch.pts.shape == batch.frames.shape == (len(batch.video), 4)
        assert batch.extra["title"] == [NAMES[number] for number in batch.video_id]
        assert batch.label.tolist() == [number % 3 for number in batch.video_id]
        for number in range(len(batch.video)):
            clip = batch._replace(video=batch.video[number])
            assert numbers(clip) == [100 + frame for frame in batch.frames[number]]


def test_workers_of_torchs_dataloader_draw_their_own_clips(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(2, stride=1, clips_per_video=20), size=32)
    loader = DataLoader(dataset, batch_size=20, num_workers=2, multiprocessing_context="fork")
    starts = [batch.frames[:, 0].tolist() for batch in loader]
    assert len({tuple(start) for start in starts}) == len(NAMES)


def title(clip: Clip) -> str:
    return str(clip.extra["title"])


def test_a_transform_makes_the_sample(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(2), size=32, transform=title)
    assert dataset[3] == "vp9"
    assert dataset.seeded_sample(4, 0, 0) == "mpeg4_avi"


@pytest.mark.parametrize(("short", "frames"), [("repeat_last", [0, 40, 59, 59, 59]), ("loop", [0, 40, 20, 0, 40])])
def test_videos_too_short_follow_the_policy(index: Path, short: Any, frames: list[int]) -> None:
    clip = ClipDataset(index, RandomClips(5, stride=40, short=short), size=32)[1]
    assert clip.frames.tolist() == frames
    assert numbers(clip) == [100 + frame for frame in frames]


def test_videos_that_give_no_clip_at_all_are_refused(index: Path) -> None:
    with pytest.raises(ArgumentError, match=r"films\.index: not one of its 5 videos gives a clip .*fewer frames"):
        ClipDataset(index, RandomClips(5, stride=40, short="drop"), size=32)


def test_videos_too_short_can_be_dropped(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(4, stride=25, clips_per_video=2, short="drop"), size=32)
    assert len(dataset) == 2
    assert [dataset[number].video_id for number in (0, 1)] == [0, 0]


def test_videos_too_short_can_be_an_error(index: Path) -> None:
    with pytest.raises(VideoTooShortError, match=r"h264_variable\.mp4"):
        ClipDataset(index, RandomClips(4, stride=25, short="error"), size=32)


class LastFrames:
    """A sampler of a user's own, which gives a list."""

    num_frames = 3

    def clips_in(self, num_frames: np.ndarray, duration: np.ndarray, fps: np.ndarray) -> np.ndarray:
        return (num_frames > 60).astype(np.int64)

    def frames(self, video: Any, clip: int, uniform: Callable[[], float]) -> list[int]:
        return [video.num_frames - 1, 0, 0]


def test_any_object_with_the_members_of_a_sampler_is_one(index: Path) -> None:
    dataset = ClipDataset(index, LastFrames(), size=32)  # type: ignore[arg-type]
    assert len(dataset) == 1
    assert dataset[0].frames.tolist() == [99, 0, 0]
    assert numbers(dataset[0]) == [199, 100, 100]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decoder": "opencv"}, "decoder='opencv': there are 'auto', 'decord', 'pyav'"),
        ({"size": 0}, "size=0"),
        ({"size": "big"}, "size='big'"),
        ({"clips": 16}, "clips=16: give a sampler"),
        ({"transform": 3}, "transform=3: give a function"),
    ],
    ids=str,
)
def test_arguments_that_cannot_work_are_refused(index: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ClipDataset(index, **arguments)


def test_an_index_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no index")
    for name in ("text", "gone"):
        with pytest.raises(IndexFormatError, match=name):
            ClipDataset(tmp_path / name)


def test_an_index_opened_before_is_taken_as_it_is(index: Path) -> None:
    with VideoIndex(index) as opened:
        assert ClipDataset(opened, RandomClips(2), size=32).index is opened


def test_a_film_that_changed_since_is_named(film_file: FilmFolder, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(film_file("h264_intra").read_bytes())
    vidload.build_index(path, tmp_path / "x.index", num_workers=0).close()
    dataset = ClipDataset(tmp_path / "x.index", RandomClips(2), size=32)
    dataset[0]
    write_film(path, 60, width=128, height=64)
    with pytest.raises(StaleIndexError, match=r"film\.mp4: changed since it was indexed"):
        dataset[0]


def test_it_travels_small_and_gives_the_same_clips(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(3), size=RandomResizedCrop(40), transform=title)
    dataset[0]  # opens decoders
    travelling = pickle.dumps(dataset)
    assert len(travelling) < 2000
    assert pickle.loads(travelling).seeded_sample(2, 0, 0) == "hevc_open_gop"
    plain = ClipDataset(index, RandomClips(3), size=RandomResizedCrop(40))
    arrived = pickle.loads(pickle.dumps(plain))
    assert len(arrived) == 5
    assert torch.equal(arrived.seeded_sample(2, 0, 1).video, plain.seeded_sample(2, 0, 1).video)


def test_closed_decoders_open_again(index: Path) -> None:
    dataset = ClipDataset(index, RandomClips(2), size=32)
    dataset.close()
    dataset[0]
    dataset.close()
    assert dataset[0].video_id == 0


def test_repr_says_what_it_is(index: Path) -> None:
    text = repr(ClipDataset(index, RandomClips(2), size=32))
    assert text.startswith("<ClipDataset of 5 clips, RandomClips(num_frames=2")
    assert "films.index" in text


def test_all_kinds_of_films_can_be_in_one_data_set(film_file: FilmFolder, tmp_path: Path) -> None:
    paths = [film_file(film) for film in FILMS]
    vidload.build_index(paths, tmp_path / "all.index", num_workers=0).close()
    dataset = ClipDataset(tmp_path / "all.index", RandomClips(4), size=(48, 80))
    for number, film in enumerate(FILMS):
        clip = dataset.seeded_sample(number, 0, 0)
        if film.width == 2 * film.height:  # of others, the cut takes part of the number
            assert numbers(clip) == [film.numbers[frame] for frame in clip.frames], film.name


@pytest.mark.parametrize("decoder", ["auto", "pyav"])
def test_clips_can_be_had_as_planes(index: Path, decoder: Any) -> None:
    dataset = ClipDataset(index, RandomClips(4), size=RandomResizedCrop((48, 64), scale=(0.9, 1)), decoder=decoder)
    assert dataset.wire_shape("yuv420") == (4, 72, 64)
    assert dataset.wire_shape("rgb") == dataset.clip_shape == (4, 48, 64, 3)
    assert dataset.clip_bytes() == 2 * (dataset.clip_bytes("yuv420") or 0) == 4 * 48 * 64 * 3
    for row in range(len(NAMES)):
        plan = dataset.plan(row, 0, random.Random(row).random)
        planes, rgb = np.empty(plan.wire_shape("yuv420"), np.uint8), np.empty(plan.wire_shape("rgb"), np.uint8)
        facts, others = dataset.decode(plan, planes, "yuv420"), dataset.decode(plan, rgb)
        assert facts.colour is not None
        assert others.colour is None
        assert np.array_equal(facts.frames, others.frames)
        found = yuv420_to_rgb(torch.from_numpy(planes)[None], **colour_parameters([facts.colour]))[0].numpy()
        assert np.abs(found.astype(int) - rgb).mean() < 5


def test_planes_of_native_size_take_even_videos(index: Path) -> None:
    dataset = ClipDataset(index, SparseFrames(3), size=None)
    assert dataset.wire_shape("yuv420") is dataset.clip_bytes("yuv420") is None
    plan = dataset.plan(1, 0, lambda: 0.5)
    assert plan.wire_shape("yuv420") == (3, 96, 128)
    assert dataset.decode(plan, np.empty((3, 96, 128), np.uint8), "yuv420").colour is not None


def test_planes_that_cannot_be_had_are_refused(index: Path) -> None:
    with pytest.raises(ArgumentError, match="64 pixels wide and 63 high: both have to be even"):
        ClipDataset(index, RandomClips(2), size=(63, 64)).wire_shape("yuv420")
    with pytest.raises(ArgumentError, match="decoder='decord': it gives RGB only"):
        ClipDataset(index, RandomClips(2), size=64, decoder="decord").wire_shape("yuv420")
    with pytest.raises(ArgumentError, match="wire='nv12': there are 'rgb', 'yuv420'"):
        ClipDataset(index, RandomClips(2), size=None).wire_shape("nv12")  # type: ignore[arg-type]
