"""What a loader leaves behind (nothing), and what it takes (no more than it says): real processes and real signals."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vidload
from tests.films import FilmFolder
from tests.loader.datasets import Numbers
from tests.loader.faulty import Arrays, contents, stack, wait_until
from tests.loader.processes import ROOT, children, has_ended, loader_threads, open_files, run_python
from vidload import ClipDataset, RandomClips, VideoLoader
from vidload.errors import DecodeError
from vidload.synthetic import write_film

ENDINGS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}
SECONDS = 3
"""For what takes one second, on a machine that has other things to do."""


@pytest.fixture(params=["process", "thread"])
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A trainer whose workers are all at work, and the process ids of these; see tests/loader/trainer.py."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.loader.trainer", request.param, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    first, *workers = process.stdout.readline().split()
    assert first == "busy"
    assert len(workers) == (3 if request.param == "process" else 0)
    yield process, [int(worker) for worker in workers]
    process.kill()
    process.communicate()


@pytest.mark.parametrize("how", ENDINGS)
def test_a_trainer_that_is_ended_leaves_nothing(how: str, trainer: tuple[subprocess.Popen[str], list[int]]) -> None:
    process, workers = trainer
    shared = set(os.listdir("/dev/shm"))
    process.send_signal(ENDINGS[how])
    _, complaints = process.communicate(timeout=SECONDS)
    if how == "Ctrl-C":
        assert complaints.rstrip().endswith("KeyboardInterrupt")
        assert complaints.count("Traceback") == 1
    else:
        assert process.returncode == -ENDINGS[how]
    assert all(has_ended(worker, SECONDS) for worker in workers)
    assert set(os.listdir("/dev/shm")) <= shared


def test_a_small_dev_shm_changes_nothing(tmp_path: Path) -> None:
    unshare = ["unshare", "--map-root-user", "--mount"]
    mount = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
    if shutil.which("unshare") is None or subprocess.run([*unshare, "sh", "-c", mount], check=False).returncode:
        pytest.skip("a mount namespace of one's own isn't permitted here")
    script = (
        "import os\n"
        "from tests.loader.faulty import Arrays, contents, stack\n"
        "from vidload import VideoLoader\n"
        "stats = os.statvfs('/dev/shm')\n"
        "assert stats.f_blocks * stats.f_frsize == 1 << 20\n"
        "with VideoLoader(Arrays(200), 100, epochs=2, collate_fn=stack) as loader:\n"
        "    print(*contents(loader))\n"
        "print(len(os.listdir('/dev/shm')))\n"
    )
    done = subprocess.run(
        [*unshare, "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with VideoLoader(Arrays(200), 100, epochs=2, collate_fn=stack) as loader:  # batches of 2 MB
        assert done.stdout.split() == [*contents(loader), "0"]


@pytest.mark.parametrize(("worker_kind", "times"), [("thread", 190), ("process", 10)])
def test_loaders_started_and_stopped_leave_no_descriptor_and_no_thread(worker_kind: Any, times: int) -> None:
    def start_and_stop(taken: int) -> None:
        with VideoLoader(Numbers(8), 2, num_workers=2, worker_kind=worker_kind, collate_fn=list) as loader:
            assert [batch for batch, _ in zip(loader, range(taken), strict=False)] == [[0, 1], [2, 3]][:taken]

    processes = children()
    start_and_stop(1)
    files = open_files()
    for number in range(times):
        start_and_stop(number % 3)
    assert open_files() == files
    assert not loader_threads()
    assert children() == processes


def test_clip_loaders_started_and_stopped_leave_no_descriptor(index_path: Path) -> None:
    dataset = ClipDataset(index_path, RandomClips(num_frames=2, clips_per_video=2), 16, "pyav")

    def start_and_stop(worker_kind: Any) -> None:
        with VideoLoader(dataset, 2, worker_kind=worker_kind) as loader:
            assert len(next(iter(loader))) == 2

    for kind in ("thread", "process"):
        start_and_stop(kind)
    files = open_files()
    for kind in ("thread",) * 20 + ("process",) * 5:
        start_and_stop(kind)
    assert open_files() == files
    assert not loader_threads()


@pytest.mark.parametrize("decoder", ["pyav", "decord"])
def test_a_worker_has_few_files_open_however_many_films_there_are(decoder: Any, tmp_path: Path) -> None:
    film = write_film(tmp_path / "film.mp4", 8, width=64, height=64, gop=4)
    paths = [shutil.copy(film, tmp_path / f"{number}.mp4") for number in range(80)]
    vidload.build_index(paths, tmp_path / "films.index", num_workers=0).close()
    dataset = ClipDataset(tmp_path / "films.index", RandomClips(num_frames=2, stride=1), 16, decoder)
    before = children()
    most, seen = 0, set()
    with VideoLoader(dataset, 4, num_workers=1) as loader:
        for batch in loader:
            seen.update(batch.video_id.tolist())
            (worker,) = children() - before
            most = max(most, len(os.listdir(f"/proc/{worker}/fd")))
    assert len(seen) == 80
    assert most < 40


@pytest.mark.parametrize("size", [16, None])
@pytest.mark.parametrize(
    "kind", [{"num_workers": 0}, {"worker_kind": "thread"}, {}], ids=["inline", "thread", "process"]
)
def test_a_picture_larger_than_max_pixels_is_refused(
    kind: dict[str, Any], size: int | None, film_file: FilmFolder, tmp_path: Path
) -> None:
    path = film_file("h264_bframes")  # 256 x 128
    vidload.build_index([path], tmp_path / "films.index", num_workers=0).close()
    message = re.escape(f"{path}: its picture of 256×128 is larger than max_pixels=32767 allows")
    clips = RandomClips(num_frames=4)
    dataset = ClipDataset(tmp_path / "films.index", clips, size, "pyav", max_pixels=256 * 128 - 1)
    with VideoLoader(dataset, **kind) as loader, pytest.raises(DecodeError, match=message):
        next(iter(loader))
    dataset = ClipDataset(tmp_path / "films.index", clips, size, "pyav", max_pixels=256 * 128)
    with VideoLoader(dataset, **kind) as loader:
        next(iter(loader))


def test_max_pixels_is_8192_by_8192_and_refuses_before_memory_is_taken(film_file: FilmFolder, tmp_path: Path) -> None:
    vidload.build_index([film_file("h264_bframes")], tmp_path / "films.index", num_workers=0).close()
    clips = RandomClips(num_frames=16)
    assert ClipDataset(tmp_path / "films.index", clips, None).max_pixels == 8192 * 8192
    taken = {}
    for max_pixels in (1000, 256 * 128):
        dataset = ClipDataset(tmp_path / "films.index", clips, None, "pyav", max_pixels=max_pixels)
        tracemalloc.start()
        try:
            dataset[0]
        except DecodeError:
            assert max_pixels == 1000
        taken[max_pixels] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    clip = 16 * 256 * 128 * 3
    assert taken[1000] < clip / 4
    assert taken[256 * 128] > clip


@pytest.mark.parametrize("worker_kind", ["process", "thread"])
def test_memory_is_flat_over_epochs(worker_kind: str) -> None:
    """The soak of benchmarks/soak.py, abridged."""
    done = run_python(ROOT / "benchmarks" / "soak.py", "--epochs=25", f"--worker-kind={worker_kind}", "--decoder=pyav")
    assert done.returncode == 0, done.stdout + done.stderr


def test_workers_end_when_their_loader_is_collected() -> None:
    processes = children()
    loader = VideoLoader(Numbers(8), 2, collate_fn=list)
    wait_until(lambda: len(children() - processes) == 2)
    del loader
    wait_until(lambda: children() == processes and not loader_threads())
