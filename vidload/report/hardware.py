"""Checks of the machine: GPU, memory, limits."""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import os
import resource

from vidload.loader.machine import cpu_quota, memory_limit, usable_cores
from vidload.report.checks import Result

__all__ = ["cores", "cuda", "files", "memfd", "memory", "nvdec", "pinning", "shm"]

_NO_DRIVER = "no NVIDIA driver here (libcuda.so.1)"
_GPU_FIX = "for GPUs: install NVIDIA's driver; in a container, start it with its GPUs (docker run --gpus all)"
_FEWEST_FILES = 1024


def _driver() -> int | None:
    """The CUDA version that the driver supports, as CUDA numbers them; None without a driver.

    Raises:
        OSError: If there is one that doesn't work.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    code = library.cuInit(0)
    if code:
        raise OSError(f"cuInit gives error {code}")
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    return version.value


def cuda() -> Result:
    """A driver, a GPU, and a torch that can use it."""
    try:
        version = _driver()
    except OSError as error:
        return "broken", f"the driver doesn't start: {error}", _GPU_FIX
    if version is None:
        return "missing", _NO_DRIVER, _GPU_FIX
    supports = f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}"
    if importlib.util.find_spec("torch") is None:
        return "missing", f"{supports}; torch isn't installed", "pip install torch"
    import torch

    if not torch.version.cuda:
        return "missing", f"{supports}, but torch {torch.__version__} is built without", "install a CUDA build of torch"
    if not torch.cuda.is_available():
        return "broken", f"{supports}, torch is for {torch.version.cuda} and sees no GPU", "bring both to one version"
    found = []
    for number in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(number)
        found.append(f"{device.name} ({device.major}.{device.minor}, {device.total_memory / 2**30:.0f} GiB)")
    float(torch.ones(2, device="cuda").sum())
    return "ok", f"{', '.join(found)}; {supports}, torch is for {torch.version.cuda}", ""


def nvdec() -> Result:
    """The GPU's video engines can be reached."""
    try:
        version = _driver()
    except OSError as error:
        return "broken", f"the driver doesn't start: {error}", _GPU_FIX
    if version is None:
        return "missing", _NO_DRIVER, _GPU_FIX
    try:
        ctypes.CDLL("libnvcuvid.so.1")
    except OSError:
        given = os.environ.get("NVIDIA_DRIVER_CAPABILITIES", "not set")
        return (
            "broken",
            "there is a driver, but not its library libnvcuvid.so.1",
            "in a container, its video capability is missing: set NVIDIA_DRIVER_CAPABILITIES=compute,utility,video "
            f"(it is {given})",
        )
    import torch

    from vidload.decode.nvdec import decoder_caps

    if not torch.cuda.is_available():
        return "broken", "the library is there, but torch sees no GPU", "see the line about cuda"
    torch.empty(0, device="cuda")
    decodes, engines = [], 0
    for codec in ("h264", "hevc", "av1", "vp9", "vp8"):
        caps = decoder_caps(codec)
        if caps.is_supported:
            decodes.append(f"{codec} to {caps.max_width}×{caps.max_height}")
            engines = max(engines, caps.num_engines)
    if not decodes:
        return "broken", "the GPU decodes none of the codecs asked for", "decode on the CPU: decoder='auto'"
    return "ok", f"{engines} engine{'s' if engines != 1 else ''}: {', '.join(decodes)}", ""


def pinning() -> Result:
    """Slots can be registered with CUDA."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "no limit" if soft == resource.RLIM_INFINITY else f"{soft // 1024} KiB"
    if importlib.util.find_spec("torch") is None:
        return "missing", "torch isn't installed", "pip install torch"
    import torch

    if not torch.cuda.is_available():
        return "missing", f"no GPU to pin memory for (locked memory: {limit})", ""
    from vidload.loader import cuda as registering
    from vidload.loader.memory import Mapping, MemoryFile

    size = 64 << 20
    mapping = Mapping(MemoryFile.make("vidload-doctor", size), size)
    registering.register(mapping)
    if mapping.before_unmapping is None:
        return "broken", f"64 MiB can't be pinned (locked memory: {limit})", "raise it: ulimit -l unlimited"
    return "ok", f"64 MiB pinned (locked memory: {limit})", ""


def memfd() -> Result:
    """Files in memory, that slots are."""
    descriptor = os.memfd_create("vidload-doctor", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, 1 << 20)
        with mmap.mmap(descriptor, 1 << 20) as mapped:
            mapped[:7] = b"vidload"
            right = os.pread(descriptor, 7, 0) == b"vidload"
    finally:
        os.close(descriptor)
    return ("ok", "works", "") if right else ("broken", "what is written there isn't read", "use another kernel")


def shm() -> Result:
    """/dev/shm: how large it is, which doesn't matter."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return "ok", "there is none; vidload doesn't need it", ""
    return "ok", f"{found.f_blocks * found.f_frsize / 2**20:.0f} MiB; vidload doesn't need it", ""


def files() -> Result:
    """How many files may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FEWEST_FILES:
        return "broken", f"{soft} may be open at a time", f"raise it: ulimit -n {min(hard, 65536)}"
    return "ok", f"{'any number' if soft == resource.RLIM_INFINITY else soft} may be open at a time", ""


def cores() -> Result:
    """Processors that this process may use: affinity, and the container's share."""
    quota = cpu_quota()
    share = "" if quota is None else f", of which the container may use {quota:g}"
    return "ok", f"{usable_cores()} of {os.cpu_count()}{share}: about as many workers", ""


def memory() -> Result:
    """Memory of the machine, and the container's limit."""
    limit = memory_limit()
    told = "" if limit is None else f"; the container may use {limit / 2**30:.1f} GiB"
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return "ok", f"{total / 2**30:.1f} GiB{told}", ""
