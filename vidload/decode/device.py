"""Backends that decode in the loader's process, on the device that batches are on."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from vidload.decode.encoded import DeviceDecoder
from vidload.decode.protocol import Slice
from vidload.errors import ArgumentError
from vidload.index.video import Video

__all__ = [
    "DEVICE_DECODERS",
    "DeviceBackend",
    "check_installed",
    "decodes_on_device",
    "device_reason",
    "device_slice_reason",
]


@dataclass(frozen=True, slots=True)
class DeviceBackend:
    """One of them.

    Attributes:
        on_cpu: Whether it is used where batches are on the CPU, too; if not, workers decode there.
        reason: Why it can't decode a film on a type of device; None if it can. Opens no device.
        make: Makes it, for a device such as ``"cuda:0"``.
        slice_reason: Like `reason`, of a slice that is read; None where nothing in a slice matters.
    """

    on_cpu: bool
    reason: Callable[[str, Video], str | None]
    make: Callable[[str], DeviceDecoder]
    slice_reason: Callable[[str, Slice], str | None] | None = None
    package: str | None = None
    """What has to be installed for it."""


def _dali_reason(device_type: str, video: Video) -> str | None:
    from vidload.decode.dali import dali_video_reason

    return dali_video_reason(device_type, video)


def _dali_slice_reason(device_type: str, piece: Slice) -> str | None:
    from vidload.decode.dali import dali_slice_reason

    return dali_slice_reason(device_type, piece)


def _make_dali(device: str) -> DeviceDecoder:
    from vidload.decode.dali import DaliDecoder

    return DaliDecoder(device)


def _torchcodec_reason(device_type: str, video: Video) -> str | None:
    from vidload.decode.torchcodec import torchcodec_device_reason

    return torchcodec_device_reason(video)


def _make_torchcodec(device: str) -> DeviceDecoder:
    from vidload.decode.torchcodec import TorchcodecDeviceDecoder

    return TorchcodecDeviceDecoder(device)


DEVICE_DECODERS: dict[str, DeviceBackend] = {
    "dali": DeviceBackend(True, _dali_reason, _make_dali, _dali_slice_reason, "nvidia.dali"),
    # The reasons of a slice are NVDEC's, whoever asks it.
    "torchcodec": DeviceBackend(False, _torchcodec_reason, _make_torchcodec, _dali_slice_reason, "torchcodec"),
}
"""By the name that a data set has them by."""


def check_installed(decoder: str) -> None:
    """Refuse a decoder of `DEVICE_DECODERS` that isn't installed.

    Raises:
        ArgumentError: If it isn't.
    """
    package = DEVICE_DECODERS[decoder].package
    try:
        found = package is None or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        found = False
    if not found:
        raise ArgumentError(f"decoder={decoder!r}: {package} isn't installed; pip install 'vidload[{decoder}]'")


def decodes_on_device(decoder: str, device_type: str) -> bool:
    """Whether a decoder, where batches are on such a device, decodes there and not in workers."""
    backend = DEVICE_DECODERS.get(decoder)
    return backend is not None and (backend.on_cpu or device_type != "cpu")


def device_reason(decoder: str, device_type: str, video: Video) -> str | None:
    """Why a decoder of `DEVICE_DECODERS` can't decode a film on such a device; None if it can."""
    return DEVICE_DECODERS[decoder].reason(device_type, video)


def device_slice_reason(decoder: str, device_type: str, piece: Slice) -> str | None:
    """Like `device_reason`, for a slice that is read."""
    reason = DEVICE_DECODERS[decoder].slice_reason
    return None if reason is None else reason(device_type, piece)
