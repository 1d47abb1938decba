"""Checks of the machine: faults of libraries are lines, not the doctor's end."""

from __future__ import annotations

import builtins
import ctypes
import importlib.util
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch  # noqa: F401  before ctypes is another

from vidload.errors import ArgumentError
from vidload.report import checks, doctor, hardware
from vidload.report.doctor import CHECKS, Check, Finding, diagnose, is_well


def test_what_vidload_needs_works_here() -> None:
    findings = diagnose()
    assert [finding.name for finding in findings] == list(CHECKS)
    assert is_well(findings), findings
    for finding in findings:
        assert finding.detail
        assert finding.status == "ok" or CHECKS[finding.name].needed is False


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it ended by SIGSEGV: it said nothing"),
        ("import os; os._exit(7)", "it ended by status 7: it said nothing"),
        ("raise OSError('libfoo.so.1 is missing')", "it ended by status 1: OSError: libfoo.so.1 is missing"),
        ("print('[1, 2]')", "it ended by status 0"),
    ],
)
def test_a_check_that_crashes_is_broken(code: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_APART", code.replace("{", "{{").replace("}", "}}"))
    (found,) = diagnose(["decord"])
    assert found.status == "broken"
    assert told in found.detail
    assert not is_well([found])


def test_a_check_that_hangs_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_APART", "import threading; threading.Event().wait()")
    monkeypatch.setattr(doctor, "TIMEOUT", 0.3)
    (found,) = diagnose(["cuda"])
    assert (found.status, found.detail) == ("broken", "it didn't come to an end in 0.3 s")
    assert is_well([found])  # it isn't needed
    assert not is_well([found], ["cuda"])


def test_what_a_check_prints_besides_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_APART", "print('a library says hello'); " + doctor._APART)
    (found,) = diagnose(["pyav"])
    assert found.status == "ok"


def test_an_error_of_a_check_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> checks.Result:
        raise PermissionError("not for you")

    monkeypatch.setitem(CHECKS, "memfd", Check(fail, needed=True))
    (found,) = diagnose(["memfd"])
    assert (found.status, found.detail) == ("broken", "PermissionError: not for you")


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"cuddle: no such check; there are python, .*nvdec"):
        diagnose(["cuda", "cuddle"])


@pytest.mark.parametrize("check", [checks.torch, checks.decord, checks.pyav, checks.torchcodec, checks.dali])
def test_what_is_not_installed_is_missing(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, detail, fix = check()
    assert status == "missing"
    assert "isn't installed" in detail
    assert fix.startswith("pip install")


def test_a_decoder_that_gives_other_frames_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidload.synthetic.read_number", lambda frame: 3)
    assert checks.pyav()[0] == "broken"


def test_torchcodec_without_ffmpeg_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    importer = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("torchcodec"):
            raise RuntimeError("Could not load libtorchcodec.")
        return importer(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    status, detail, fix = checks.torchcodec()
    assert status == "broken"
    assert "FFmpeg's libraries" in detail
    assert "ffmpeg" in fix


# Hardware that isn't here


class Libraries:
    """Takes ctypes.CDLL's place: some libraries are there, and answer."""

    def __init__(self, there: dict[str, Any]) -> None:
        self.there = there

    def __call__(self, name: str) -> Any:
        if name not in self.there:
            raise OSError(f"{name}: cannot open shared object file")
        return self.there[name]


def driver(version: int = 13010, code: int = 0) -> Any:
    def tell(pointer: Any) -> int:
        pointer._obj.value = version
        return 0

    return SimpleNamespace(cuInit=lambda flags: code, cuDriverGetVersion=tell)


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Libraries({}))
    for check in (hardware.cuda, hardware.nvdec):
        status, detail, fix = check()
        assert (status, "no NVIDIA driver" in detail, "--gpus all" in fix) == ("missing", True, True)


def test_a_driver_that_does_not_start_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Libraries({"libcuda.so.1": driver(code=999)}))
    for check in (hardware.cuda, hardware.nvdec):
        assert check()[:2] == ("broken", "the driver doesn't start: cuInit gives error 999")


def test_a_container_without_the_video_capability_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Libraries({"libcuda.so.1": driver()}))
    monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")
    status, detail, fix = hardware.nvdec()
    assert status == "broken"
    assert "libnvcuvid.so.1" in detail
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video (it is compute,utility)" in fix


def test_a_torch_without_cuda_beside_a_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Libraries({"libcuda.so.1": driver()}))
    monkeypatch.setattr("torch.version.cuda", None)
    status, detail, _ = hardware.cuda()
    assert status == "missing"
    assert detail.startswith("the driver is for CUDA 13.1, but torch")


def test_a_torch_that_sees_no_gpu_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Libraries({"libcuda.so.1": driver()}))
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    status, detail, _ = hardware.cuda()
    assert status == "broken"
    assert "torch is for 13.0 and sees no GPU" in detail


def test_few_open_files_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    assert hardware.files() == ("broken", "256 may be open at a time", "raise it: ulimit -n 4096")


def test_a_containers_share_of_processors_and_memory_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidload.loader.machine.CGROUP", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    monkeypatch.setattr("os.cpu_count", lambda: 32)
    assert hardware.cores()[1] == "16 of 32: about as many workers"
    (tmp_path / "cpu.max").write_text("250000 100000\n")
    (tmp_path / "memory.max").write_text(f"{3 * 2**30}\n")
    assert hardware.cores()[1] == "2 of 32, of which the container may use 2.5: about as many workers"
    assert hardware.memory()[1].endswith("GiB; the container may use 3.0 GiB")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert "container" not in hardware.cores()[1] + hardware.memory()[1]


def test_another_system_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert checks.python()[0] == "broken"


def test_well_is_what_is_needed() -> None:
    fine = [Finding(name, "ok", "") for name in CHECKS]
    assert is_well(fine)
    for finding in fine:
        others = [other for other in fine if other is not finding]
        for status in ("missing", "broken"):
            bad = Finding(finding.name, status, "")  # type: ignore[arg-type]
            assert is_well([*others, bad]) is not CHECKS[finding.name].needed
            assert not is_well([*others, bad], [finding.name])
