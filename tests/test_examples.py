from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import vidload
from tests.films import FilmFolder
from vidload.synthetic import write_film

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


def run_example(name: str, *arguments: str | Path) -> str:
    # A wide screen that isn't a terminal: tables come out whole and without colours.
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, EXAMPLES / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_summary(out: Path, epochs: int) -> None:
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary) == ["vidload", "dataloader"]
    for figures in summary.values():
        assert list(figures) == ["epochs"]
        assert len(figures["epochs"]) == epochs
        for epoch in figures["epochs"]:
            assert list(epoch) == ["first_wait_s", "mean_wait_s", "clips_per_s"]
            assert all(value > 0 for value in epoch.values())
    assert (out / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_demo_compares_both_loaders_on_the_same_clips(tmp_path: Path) -> None:
    small = ["--films=2", "--seconds=4", "--epochs=2", "--clips-per-video=3", "--batch-size=2", "--num-frames=4"]
    printed = run_example("demo.py", "--out", tmp_path, *small, "--size=64", "--width=4")
    check_summary(tmp_path, epochs=2)
    assert "vidload" in printed
    assert "DataLoader + decord" in printed
    assert str(tmp_path / "summary.json") in printed
    assert str(tmp_path / "timeline.png") in printed
    clips = re.search(r"of (\d+) clips, (\d+) came out differently", printed)
    assert clips
    # decord itself, on whole films and a busy machine, may give a wrong frame now and then.
    assert int(clips[1]) == 2 * 3 * 2
    assert int(clips[2]) <= 3


def test_demo_takes_a_folder_of_videos_without_labels(film_file: FilmFolder, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for name in ("h264_bframes", "h264_mkv", "vp9"):
        (videos / film_file(name).name).symlink_to(film_file(name))
    out = tmp_path / "out"
    small = ["--epochs=1", "--clips-per-video=2", "--batch-size=2", "--num-frames=4", "--size=32", "--width=4"]
    run_example("demo.py", "--out", out, "--videos", videos, *small)
    check_summary(out, epochs=1)
    assert not (out / "films").exists()


def test_demo_refuses_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "demo.py", "--out", tmp_path / "out", "--videos", tmp_path / "nowhere"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_train_learns_to_tell_two_films_apart(tmp_path: Path) -> None:
    for look in (0, 3):
        (tmp_path / "videos" / f"look{look}").mkdir(parents=True)
        film = tmp_path / "videos" / f"look{look}" / "film.mp4"
        write_film(film, 60, width=128, height=128, moving=True, look=look)
    index = tmp_path / "videos.index"
    vidload.build_index(tmp_path / "videos", index, label_from="folder").close()
    small = ["--epochs=6", "--batch-size=8", "--clips-per-video=16", "--num-frames=4", "--stride=2", "--size=64"]
    printed = run_example("train.py", index, *small, "--device=cpu")
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", printed)]
    assert printed.count("of 32 clips") == len(losses) == 6
    assert losses[-1] < 0.8 * losses[0]


def test_forum_thread_shows_what_is_loaded_and_when() -> None:
    printed = run_example("forum_thread.py", "--items=4", "--load=0.05", "--step=0.1")
    # Five runs of 1, 1, 2, 2 and 1 epochs of four items; all of them are trained on.
    assert len(re.findall(r"epoch \d trains on \[\d\]", printed)) == 4 * 7
    rows = [re.split(r"\s{2,}", line.strip()) for line in printed[printed.index("in vain") :].splitlines()[2:]]
    loaded = {(row[0], row[1]): (int(row[4]), int(row[5])) for row in rows if len(row) == 6}
    for loader in ("DataLoader", "VideoLoader"):
        assert loaded[loader, "1"] == (4, 0)
        assert loaded[loader, "2"] == (8, 0)
    count, in_vain = loaded["VideoLoader, endless", "1"]
    assert 0 < in_vain <= 4
    assert count == 4 + in_vain
    assert len(re.findall(r"worker \d+ loads \d", printed)) == 4 * 2 + 8 * 2 + count

    # The next epoch's first item is loaded before this one's last is trained on, but not by DataLoader.
    runs = re.split(r"\n(?=\w[^\n]*epochs?\n)", printed)
    for loader, ahead in (("VideoLoader", True), ("DataLoader", False)):
        run = next(run for run in runs if run.startswith(f"{loader}, 2 epochs"))
        events = re.findall(r"loads \d|epoch \d trains on \[\d\]", run)
        second_time = events.index("loads 0", events.index("loads 0") + 1)
        assert (second_time < events.index("epoch 0 trains on [3]")) == ahead
