from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.films import FilmFolder
from vidload.errors import NoVideoStreamError, UnreadableVideoError, WorkerError
from vidload.index import processes
from vidload.index.demux import demux_video
from vidload.index.format import facts_of
from vidload.index.pool import demux_all
from vidload.index.worker import Request

CRASH_ON = """
import os
import threading
from vidload.index import worker
demux_video = worker.demux_video
def crash(path, **arguments):
    if path.endswith("crash.mp4"):
        os.kill(os.getpid(), {signal})
    if path.endswith("hang.mp4"):
        threading.Event().wait()
    return demux_video(path, **arguments)
worker.demux_video = crash
worker.main()
"""


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_outcomes_come_in_the_order_of_the_paths(film_file: FilmFolder, tmp_path: Path, num_workers: int) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video at all")
    good = [str(film_file(name)) for name in ("h264_one_gop", "hevc", "h264_open_gop")]
    paths = [good[0], str(tmp_path / "bad.mp4"), good[1], str(tmp_path / "missing.mp4"), good[2]] * 4
    outcomes = list(demux_all(map(Request, paths), num_workers))
    assert len(outcomes) == len(paths)
    for path, outcome in zip(paths, outcomes, strict=True):
        if path in good:
            assert outcome.equals(facts_of([demux_video(path)]))
        else:
            assert type(outcome) is UnreadableVideoError
            assert path in str(outcome)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_film_without_video_keeps_its_class_of_error(tmp_path: Path, num_workers: int) -> None:
    import av
    import numpy as np

    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    (outcome,) = demux_all([Request(str(tmp_path / "sound.mp4"))], num_workers)
    assert type(outcome) is NoVideoStreamError


def test_a_crash_costs_its_file_only(film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_START", f"exec({CRASH_ON.format(signal=int(signal.SIGSEGV))!r})")
    good = str(film_file("mpeg4"))
    outcomes = list(demux_all(map(Request, [good, str(tmp_path / "crash.mp4"), good, good]), 1))
    assert [isinstance(outcome, pa.RecordBatch) for outcome in outcomes] == [True, False, True, True]
    assert str(outcomes[1]) == (
        f"{tmp_path}/crash.mp4: can't be read as a video: the process that read it crashed (signal 11, SIGSEGV)"
    )


def test_a_file_that_takes_too_long_costs_itself_only(
    film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_START", f"exec({CRASH_ON.format(signal=0)!r})")
    good = str(film_file("mpeg4"))
    outcomes = list(demux_all(map(Request, [good, str(tmp_path / "hang.mp4"), good]), 1, timeout=5))
    assert [isinstance(outcome, pa.RecordBatch) for outcome in outcomes] == [True, False, True]
    assert str(outcomes[1]) == (
        f"{tmp_path}/hang.mp4: can't be read as a video: the process that read it took longer than 5 s and was stopped"
    )


def test_what_a_library_prints_does_not_come_between(film_file: FilmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = "import os; from vidload.index import worker; read = worker.read_facts; "
    noise += "worker.read_facts = lambda path: (os.write(1, b'noise' * 100), read(path))[1]; worker.main()"
    monkeypatch.setattr(processes, "_START", noise)
    outcomes = list(demux_all([Request(str(film_file("mpeg4")))] * 2, 1))
    assert [isinstance(outcome, pa.RecordBatch) for outcome in outcomes] == [True, True]


def test_a_process_that_can_not_start_is_an_error(film_file: FilmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_START", "raise ImportError('no such library')")
    with pytest.raises(WorkerError, match=r"could not start: it ended with exit status 1 \(ImportError: no such lib"):
        list(demux_all([Request(str(film_file("mpeg4")))], 2))


def test_stopping_early_leaves_no_process(film_file: FilmFolder) -> None:
    outcomes = demux_all([Request(str(film_file("mpeg4")))] * 100, 2)
    next(outcomes)
    assert _children()
    outcomes.close()
    assert not _children()


def test_processes_end_with_their_parent(film_file: FilmFolder, tmp_path: Path) -> None:
    code = (
        "import itertools, os, sys\n"
        "from vidload.index.pool import demux_all\n"
        "from vidload.index.worker import Request\n"
        "outcomes = demux_all(itertools.repeat(Request(sys.argv[1])), 2)\n"
        "next(outcomes)\n"
        "me = str(os.getpid())\n"
        "stats = {pid: open(f'/proc/{pid}/stat').read().rpartition(') ')[2].split()[1] for pid in os.listdir('/proc')"
        " if pid.isdigit()}\n"
        "print(*[pid for pid, parent in stats.items() if parent == me], flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(film_file("mpeg4"))], stdout=subprocess.PIPE, text=True, check=False
    )
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 2
    for pid in workers:
        _wait_until_gone(pid)


def test_a_script_needs_no_main_guard_and_nothing_is_imported_from_its_working_folder(
    film_file: FilmFolder, tmp_path: Path
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/script.py").write_text(
        "import sys\nprint('started')\nfrom vidload.index.pool import demux_all\n"
        "from vidload.index.worker import Request\n"
        "print(next(demux_all([Request(sys.argv[1])], 1))['num_frames'][0])\n"
    )
    (tmp_path / "av.py").write_text("raise RuntimeError('taken for the library')\n")
    done = subprocess.run(
        [sys.executable, "scripts/script.py", str(film_file("mpeg4"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("started\n60\n", "")


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def _wait_until_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    assert select.select([descriptor], [], [], 30)[0], "the process goes on without its parent"
    os.close(descriptor)
