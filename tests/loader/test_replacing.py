"""Samples that can't be loaded: what their errors say, and what takes their place."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import vidload
from tests.backends import BACKENDS
from tests.films import FilmFolder
from tests.loader import faulty
from tests.loader.faulty import Arrays, Fate, FatefulClips, Plain, contents, stack
from vidload import ClipDataset, RandomClips, VideoLoader
from vidload.errors import ArgumentError, DecodeError, ErrorRateExceeded, SampleError

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 1, "worker_kind": "thread"},
    {"num_workers": 3, "worker_kind": "thread"},
    {"num_workers": 1},
    {"num_workers": 2, "prefetch_batches": 5},
]
"""Every way of loading."""

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
one_of_each = pytest.mark.parametrize("kind", [KINDS[0], KINDS[2], KINDS[4]], ids=["inline", "thread", "process"])

LogLine = dict[str, Any]


def lines_of(log: Path) -> list[LogLine]:
    """The lines of an error log, in the order of batches, without the time."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(isinstance(line.pop("time"), float) for line in lines)
    return sorted(lines, key=lambda line: (line["epoch"], line["step"], line["row"]))


@dataclass(frozen=True)
class Double:
    """A transform that fails on clips of one video."""

    video_id: int

    def __call__(self, clip: vidload.Clip) -> Any:
        if clip.video_id == self.video_id:
            raise ArithmeticError("a transform's own error")
        return clip.video.float() * 2


def damaged_index(film_file: FilmFolder, folder: Path) -> Path:
    """Two films, the second of which has noise in all packets but the first."""
    good, bad = folder / "good.mp4", folder / "bad.mp4"
    shutil.copy(film_file("h264_bframes"), good)
    shutil.copy(film_file("h264_bframes"), bad)
    index = folder / "films.index"
    with vidload.build_index([good, bad], index, num_workers=0) as built:
        video = built[1]
        places = list(zip(video.packet_pos.tolist(), video.packet_size.tolist(), strict=True))
    before = bad.stat()
    data = bytearray(bad.read_bytes())
    for begin, size in places:
        data[begin : begin + size] = b"\xff" * size
    bad.write_bytes(data)
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns))  # bits that rotted, not a film that was replaced
    return index


# Raised


@one_of_each
@pytest.mark.parametrize("decoder", BACKENDS)
def test_a_decoders_error_names_video_frames_backend_and_cause(
    kind: dict[str, Any], decoder: Any, film_file: FilmFolder, tmp_path: Path
) -> None:
    dataset = ClipDataset(damaged_index(film_file, tmp_path), RandomClips(4, stride=2), 16, decoder)
    with VideoLoader(dataset, 1, **kind) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(DecodeError) as caught:
            next(iterator)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'bad.mp4'}: frame")
    assert f"(decoder {decoder})" in message
    assert len(message.split(": ", 2)[2]) > 10  # the cause
    (note,) = caught.value.__notes__
    assert note.startswith("Where a worker raised it:\n")
    assert "vidload/decode/" in note


@one_of_each
def test_an_error_in_a_data_set_carries_its_traceback(kind: dict[str, Any], tmp_path: Path) -> None:
    dataset = Plain(6, Fate((4,), faulty.fail, tmp_path))
    with VideoLoader(dataset, 2, collate_fn=list, epochs=2, **kind) as loader:
        for _ in range(2):  # the next epoch begins anew
            iterator = iter(loader)
            assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
            with pytest.raises(SampleError, match=r"^sample 4 in step 2 of epoch \d raised ValueError: out") as caught:
                next(iterator)
            assert "faulty.py" in str(caught.value)
            assert "in fail" in str(caught.value)


@one_of_each
def test_an_error_in_a_transform_is_one_of_its_sample(kind: dict[str, Any], index_path: Path) -> None:
    dataset = ClipDataset(index_path, RandomClips(4), 16, "pyav", transform=Double(1))
    with VideoLoader(dataset, 1, **kind) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(
            SampleError, match=r"sample 1 in step 1 of epoch 0 raised ArithmeticError: a transform's own"
        ):
            next(iterator)


@one_of_each
def test_an_error_in_collating_is_raised_and_never_replaced(kind: dict[str, Any], tmp_path: Path) -> None:
    collate = faulty.FatefulStack(Fate((2,), faulty.fail, tmp_path))
    with VideoLoader(Arrays(6), 2, collate_fn=collate, on_error="replace", error_log=None, **kind) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(SampleError, match="collating step 1 of epoch 0 raised ValueError: out of luck"):
            next(iterator)


def test_an_error_keeps_its_notes_on_the_way(tmp_path: Path) -> None:
    error = DecodeError("no")
    error.__notes__ = ["where"]  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["where"]


# Replaced


def without_draws(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Batches without what is drawn from global generators, which belong to the user outside of worker processes."""
    return {name: value for name, value in stack(samples).items() if name != "drawn"}


def arrays(fate: Fate | None, log: Path | None, **arguments: Any) -> VideoLoader:
    return VideoLoader(
        Arrays(12, fate),
        3,
        shuffle=True,
        seed=5,
        epochs=2,
        on_error="replace",
        error_log=log,
        max_error_rate=1,
        collate_fn=without_draws,
        **arguments,
    )


def films(index: Path, fate: Fate | None, log: Path | None, **arguments: Any) -> VideoLoader:
    sampler = FatefulClips(num_frames=4, stride=2, clips_per_video=6, fate=fate)
    dataset = ClipDataset(index, sampler, 16, "pyav")
    return VideoLoader(
        dataset, 3, shuffle=True, seed=5, epochs=2, on_error="replace", error_log=log, max_error_rate=1, **arguments
    )


Expected = dict[str, tuple[list[str], list[LogLine]]]


def bad_run(name: str, index: Path, marks: Path, log: Path, **kind: Any) -> VideoLoader:
    """A loader of arrays or films, samples 2 and 7 of which can't be loaded."""
    if name == "films":
        return films(index, Fate(((0, 2), (1, 1)), faulty.fail, marks), log, **kind)
    return arrays(Fate((2, 7), faulty.fail, marks), log, **kind)


@pytest.fixture(scope="module")
def expected(index_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """Contents and log of a run in the caller, by the name of the data set."""
    found = {}
    for name in ("arrays", "films"):
        folder = tmp_path_factory.mktemp(name)
        with bad_run(name, index_path, folder, folder / "errors.jsonl", num_workers=0) as loader:
            found[name] = contents(loader), lines_of(folder / "errors.jsonl")
    return found


@every_kind
@pytest.mark.parametrize("name", ["arrays", "films"])
def test_every_run_replaces_by_the_same_samples(
    kind: dict[str, Any], name: str, index_path: Path, expected: Expected, tmp_path: Path
) -> None:
    log = tmp_path / "errors.jsonl"
    with bad_run(name, index_path, tmp_path, log, **kind) as loader:
        got = contents(loader)
    assert got == expected[name][0]
    assert [_short(line) for line in lines_of(log)] == [_short(line) for line in expected[name][1]]


def _short(line: LogLine) -> LogLine:
    """A line without the traceback, which names the marks of its own run."""
    return line | {"message": line["message"].splitlines()[0]}


def test_all_other_samples_are_what_they_were(index_path: Path, tmp_path: Path) -> None:
    bad = {2, 7}  # clips (0, 2) and (1, 1)
    with films(index_path, None, None, num_workers=0) as loader:
        clean = [batch for _ in range(2) for batch in loader]
    with films(index_path, Fate(((0, 2), (1, 1)), faulty.fail, tmp_path), None, num_workers=2) as loader:
        got = [batch for _ in range(2) for batch in loader]
    replaced = 0
    for one, other in zip(clean, got, strict=True):
        for row, sample in enumerate(one.sample.tolist()):
            if sample in bad:
                replaced += 1
                # Batch.sample tells the replacement, and the clip is that sample's, as it is in this epoch.
                taken = int(other.sample[row])
                assert taken not in bad
                times = [(b, r) for b in clean if b.epoch == one.epoch for r in range(3) if b.sample[r] == taken]
                ((batch, at),) = times
                assert (batch.video[at] == other.video[row]).all()
                assert batch.frames[at].tolist() == other.frames[row].tolist()
                assert other.video_id[row] == taken // 6
            else:
                assert other.sample[row] == sample
                assert (one.video[row] == other.video[row]).all()
    assert replaced == 4


@one_of_each
def test_the_log_has_a_line_for_each_error(kind: dict[str, Any], index_path: Path, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "errors.jsonl"
    with bad_run("films", index_path, tmp_path, log, **kind) as loader:
        schedule = loader._order
        batches = [batch for _ in range(2) for batch in loader]
    lines = lines_of(log)
    with vidload.VideoIndex(index_path) as index:
        paths = [index[row].path for row in range(2)]
    places = {(line["epoch"], line["step"], line["row"]) for line in lines}
    assert len(places) == 4
    for epoch, step, row in places:
        chain = [line for line in lines if (line["epoch"], line["step"], line["row"]) == (epoch, step, row)]
        assert chain[0]["sample"] == int(schedule.samples(epoch, step)[row])
        assert chain[-1]["replaced_by"] == int(batches[4 * epoch + step].sample[row])
        for line in chain:
            sample = line["sample"]
            assert sample in (2, 7)
            assert (line["rank"], line["error"]) == (0, "SampleError")
            assert (line["video_id"], line["clip"]) == divmod(sample, 6)
            assert line["video"] == paths[line["video_id"]]
            assert line["message"].startswith(f"sample {sample} in step {step} of epoch {epoch} raised ValueError: out")


def test_logs_of_several_runs_follow_one_another(tmp_path: Path) -> None:
    log = tmp_path / "errors.jsonl"
    for _ in range(2):
        with arrays(Fate((2,), faulty.fail, tmp_path), log, num_workers=0) as loader:
            contents(loader)
    assert len(lines_of(log)) == 4


@one_of_each
def test_replacements_that_fail_are_replaced_too(kind: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "errors.jsonl"
    bad = (0, 1, 2, 3, 4, 5, 6, 7, 8)
    with arrays(Fate(bad, faulty.fail, tmp_path), log, **kind) as loader:
        got = [sample for _ in range(2) for batch in loader for sample in batch["sample"].tolist()]
    assert set(got) <= {9, 10, 11}
    assert len(got) == 24
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) > 2 * len(bad)
    for place in {(line["epoch"], line["step"], line["row"]) for line in lines}:
        chain = [line for line in lines if (line["epoch"], line["step"], line["row"]) == place]
        assert [line["replaced_by"] for line in chain[:-1]] == [line["sample"] for line in chain[1:]]


@one_of_each
def test_where_nothing_can_be_loaded_the_error_is_raised_in_the_end(kind: dict[str, Any], tmp_path: Path) -> None:
    with (
        arrays(Fate(tuple(range(12)), faulty.fail, tmp_path), None, **kind) as loader,
        pytest.raises(SampleError, match="out of luck"),
    ):
        next(iter(loader))


@one_of_each
def test_a_data_set_of_one_sample_has_no_replacement(kind: dict[str, Any], tmp_path: Path) -> None:
    dataset = Plain(1, Fate((0,), faulty.fail, tmp_path))
    with (
        VideoLoader(dataset, on_error="replace", max_error_rate=1, error_log=None, **kind) as loader,
        pytest.raises(SampleError, match="out of luck"),
    ):
        next(iter(loader))


def test_a_sample_that_kills_workers_is_replaced(index_path: Path, expected: Expected, tmp_path: Path) -> None:
    log = tmp_path / "errors.jsonl"
    with films(index_path, Fate(((0, 2), (1, 1)), faulty.die, tmp_path), log, num_workers=2) as loader:
        assert contents(loader) == expected["films"][0]
    lines = lines_of(log)
    assert [(line["sample"], line["replaced_by"]) for line in lines] == [
        (line["sample"], line["replaced_by"]) for line in expected["films"][1]
    ]
    assert {line["error"] for line in lines} == {"WorkerError"}
    assert all("was ended by SIGKILL" in line["message"] for line in lines)


@one_of_each
def test_a_film_that_changed_under_the_run_is_replaced(
    kind: dict[str, Any], film_file: FilmFolder, tmp_path: Path
) -> None:
    paths = [shutil.copy(film_file("h264_bframes"), tmp_path / f"{name}.mp4") for name in "abcd"]
    vidload.build_index(paths, tmp_path / "films.index", num_workers=0).close()
    dataset = ClipDataset(tmp_path / "films.index", RandomClips(4), 16, "pyav")
    os.truncate(paths[1], 5000)
    os.utime(paths[2], (1, 1))
    os.unlink(paths[3])
    log = tmp_path / "errors.jsonl"
    with VideoLoader(dataset, 4, on_error="replace", max_error_rate=1, error_log=log, **kind) as loader:
        assert next(iter(loader)).video_id.tolist() == [0, 0, 0, 0]
    assert {line["error"] for line in lines_of(log)} == {"StaleIndexError"}
    with VideoLoader(dataset, 4, **kind) as loader, pytest.raises(vidload.errors.StaleIndexError, match=r"b\.mp4"):
        next(iter(loader))


@one_of_each
def test_a_transforms_error_is_replaced(kind: dict[str, Any], index_path: Path, tmp_path: Path) -> None:
    dataset = ClipDataset(index_path, RandomClips(4), 16, "pyav", transform=Double(1))
    log = tmp_path / "errors.jsonl"
    with VideoLoader(dataset, 2, on_error="replace", max_error_rate=1, error_log=log, **kind) as loader:
        batch = next(iter(loader))
    assert (batch[0] == batch[1]).all()  # of the same sample
    line = lines_of(log)[0]
    assert (line["sample"], line["replaced_by"], line["video_id"]) == (1, 0, 1)


def test_a_log_that_cannot_be_written_is_refused_or_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vidload.loader.faults.os.access", lambda path, mode: path != tmp_path)
    arguments: dict[str, Any] = {"on_error": "replace", "max_error_rate": 1, "num_workers": 0, "collate_fn": list}
    with pytest.raises(ArgumentError, match=r"error_log='.*/a/errors.jsonl' can't be written"):
        VideoLoader(Arrays(6), error_log=tmp_path / "a/errors.jsonl", **arguments)
    log = tmp_path / "b" / "errors.jsonl"
    log.parent.mkdir()
    dataset = Plain(6, Fate((2,), faulty.fail, tmp_path))
    with VideoLoader(dataset, error_log=log, **arguments) as loader:
        log.mkdir()
        assert len(list(loader)) == 6
    assert "errors.jsonl can't be written" in caplog.text
    assert "out of luck" in caplog.text


# The rate


def run(loader: VideoLoader) -> None:
    for _ in range(2):
        for _ in loader:
            pass


@one_of_each
@pytest.mark.parametrize(("rate", "allowed"), [(0, 0), (0.02, 2), (0.05, 5)])
def test_more_errors_than_the_rate_allows_end_the_run(
    kind: dict[str, Any], rate: float, allowed: int, tmp_path: Path
) -> None:
    log = tmp_path / "errors.jsonl"

    def loader(errors: int, epochs: int) -> VideoLoader:
        dataset = Plain(100, Fate(tuple(range(0, errors * 10, 10)), faulty.fail, tmp_path))
        arguments = {"on_error": "replace", "max_error_rate": rate, "error_log": log, "epochs": epochs} | kind
        return VideoLoader(dataset, 4, collate_fn=list, **arguments)

    with loader(allowed, 1) as bearable:
        assert sum(map(len, bearable)) == 100
    log.unlink(missing_ok=True)
    with loader(allowed + 1, 9) as unbearable:
        with pytest.raises(ErrorRateExceeded) as caught:
            run(unbearable)
        with pytest.raises(ErrorRateExceeded):
            run(unbearable)
    summary = str(caught.value)
    assert summary.startswith(f"{allowed + 1} of ")
    assert f"samples couldn't be loaded, more than max_error_rate={rate} allows; all are listed in {log}." in summary
    assert summary.count("raised ValueError: out of luck") == min(allowed + 1, 5)
    assert len(log.read_text().splitlines()) >= allowed + 1


@one_of_each
def test_a_rate_of_one_ends_no_run(kind: dict[str, Any], tmp_path: Path) -> None:
    dataset = Plain(20, Fate(tuple(range(10)), faulty.fail, tmp_path))
    with VideoLoader(
        dataset, 4, collate_fn=list, on_error="replace", max_error_rate=1, error_log=None, seed=1, **kind
    ) as loader:
        got = [sample for _ in range(10) for batch in loader for sample in batch]
    assert len(got) == 200
    assert set(got) == set(range(10, 20))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"on_error": "ignore"}, "on_error='ignore': there are 'raise' and 'replace'"),
        ({"max_error_rate": 1.5}, "max_error_rate=1.5: give a share of 0 to 1"),
        ({"max_error_rate": -0.1}, "max_error_rate=-0.1"),
        ({"max_error_rate": True}, "max_error_rate=True"),
        ({"max_error_rate": float("nan")}, "max_error_rate=nan"),
        ({"clip_timeout": 0}, "clip_timeout=0: give seconds above 0, or None"),
        ({"clip_timeout": float("nan")}, "clip_timeout=nan"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], match: str) -> None:
    make: Callable[..., VideoLoader] = VideoLoader
    with pytest.raises(vidload.errors.ArgumentError, match=match):
        make(Plain(4), **arguments)
