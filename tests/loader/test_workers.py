"""What worker processes are: fresh interpreters that need nothing of the script but what is sent to them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.loader.datasets import Mapped, ModuleReport, Numbers
from tests.loader.processes import run_python
from vidload import ClipDataset, VideoLoader

HELPER = """
def helper(sample):
    return sample ** 2
"""
SCRIPT = f"""
import vidload

class Squares:  # of this script alone
    def __init__(self, factor):
        self.factor = factor
    def __len__(self):
        return 4
    def __getitem__(self, sample):
        return helper(sample) * self.factor
{HELPER}
print("runs once")
loader = vidload.VideoLoader(Squares(3), batch_size=2, num_workers=2, epochs=1, collate_fn=list)
print(list(loader))
"""
OUTPUT = "runs once\n[[0, 3], [12, 27]]\n"


def test_a_script_needs_no_main_guard_and_modules_beside_it_are_found(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def helper(sample):\n    return sample ** 2\n")
    script = tmp_path / "script.py"
    script.write_text("from beside import helper\n" + SCRIPT.replace(HELPER, ""))
    done = run_python(script)
    assert (done.stdout, done.stderr) == (OUTPUT, "")


def test_a_script_may_come_from_standard_input() -> None:
    done = run_python("-", script=SCRIPT)
    assert (done.stdout, done.stderr) == (OUTPUT, "")


def test_workers_do_not_read_what_the_script_is_given() -> None:
    code = """
import sys, vidload
from tests.loader.datasets import Mapped
loader = vidload.VideoLoader(Mapped(2, lambda _: sys.stdin.read()), num_workers=1, epochs=1, collate_fn=list)
print(list(loader), input())
"""
    done = run_python("-c", code, script="for the script")
    assert (done.stdout, done.stderr) == ("[[''], ['']] for the script\n", "")


def test_files_of_the_working_directory_hide_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("queue", "socket", "pickle", "numpy", "cloudpickle", "vidload"):
        Path(f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with VideoLoader(Numbers(2), num_workers=1, epochs=1, collate_fn=list) as loader:
        assert list(loader) == [[0], [1]]


def test_workers_of_a_clip_data_set_import_no_torch(index_path: Path, tmp_path: Path) -> None:
    for decoder in ("pyav", "decord"):
        report = tmp_path / decoder
        dataset = ClipDataset(index_path, ModuleReport(4, path=str(report)), (32, 64), decoder)  # type: ignore[arg-type]
        with VideoLoader(dataset, num_workers=1, epochs=1) as loader:
            assert len(list(loader)) == 2
        modules = set(report.read_text().split())
        assert "vidload.loader.worker" in modules
        assert modules.isdisjoint({"torch", "pandas", "typer", "rich", "pydantic", "yaml", "matplotlib"})


def test_workers_are_processes_of_their_own_with_one_thread_for_libraries() -> None:
    def look(_: int) -> tuple[int, int, str]:
        return os.getpid(), os.getsid(0), os.environ["OMP_NUM_THREADS"]

    with VideoLoader(Mapped(20, look), num_workers=2, epochs=1, collate_fn=list) as loader:
        seen = {row for batch in loader for row in batch}
    assert os.getpid() not in {process for process, *_ in seen}
    assert all(process == session for process, session, _ in seen)  # Ctrl-C in a terminal doesn't reach them
    assert {threads for *_, threads in seen} == {"1"}


def test_the_environments_own_number_of_threads_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    dataset = Mapped(1, lambda _: os.environ["OMP_NUM_THREADS"])
    with VideoLoader(dataset, num_workers=1, epochs=1, collate_fn=list) as loader:
        assert list(loader) == [["3"]]


def test_a_data_set_larger_than_a_socket_holds_is_sent_to_all() -> None:
    ballast = os.urandom(3_000_000)
    dataset = Mapped(6, lambda sample: ballast[sample])
    with VideoLoader(dataset, num_workers=3, epochs=1, collate_fn=list) as loader:
        assert list(loader) == [[ballast[sample]] for sample in range(6)]


def test_samples_and_batches_larger_than_a_socket_holds() -> None:
    """Both directions full at once: neither side may wait for the other to read."""
    dataset = Mapped(40, lambda sample: [bytes([sample]) * 15_000] * 1 + [bytes(15_000) for _ in range(20)])
    with VideoLoader(dataset, 5, num_workers=2, epochs=1, collate_fn=list, prefetch_batches=6) as loader:
        assert [sample[0][0] for batch in loader for sample in batch] == list(range(40))


def test_spans_of_workers_are_on_the_loaders_clock() -> None:
    spans = []
    start = time.monotonic()
    with VideoLoader(Numbers(4), 2, num_workers=2, epochs=1, collate_fn=list, trace=spans.append) as loader:
        list(loader)
    end = time.monotonic()
    assert {span.kind for span in spans} == {"sample", "collate", "wait"}
    assert all(start <= span.start <= span.end <= end for span in spans)
