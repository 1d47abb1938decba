"""Backend ``dali``: decodes the clips of a batch together, with NVDEC on a GPU or libavcodec on the CPU.

DALI's dynamic mode is used: in its pipeline mode one unreadable file ends the pipeline for good, here it raises for the
call that has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vidload.decode.encoded import DecodedClips, EncodedClip, EncodedPart
from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import HIDDEN, Video

if TYPE_CHECKING:
    import torch

__all__ = ["DaliDecoder", "dali_reason"]

_CPU_CODECS = frozenset({"mjpeg", "vp8", "vp9"})

# Codecs, and the smallest picture that NVDEC decodes: NVIDIA's NVDEC programming guide, table of capabilities.
_CUDA_CODECS = {
    "av1": (128, 128),
    "h264": (48, 16),
    "hevc": (144, 144),
    "mpeg4": (48, 16),
    "vp8": (48, 16),
    "vp9": (128, 128),
}

_FORMATS = frozenset({"yuv420p", "yuvj420p"})
_CPU_FORMATS = _FORMATS | {"yuvj422p", "yuvj444p", "yuv422p", "yuv444p"}

_CHUNK_BYTES = 1 << 29
"""Whole pictures that are held at a time, at most, if a single clip doesn't take more."""

_DEFAULT_ENGINES = 4


def dali_reason(device_type: str, video: Video) -> str | None:
    """Why DALI can't decode a film on a type of device; None if it can. Doesn't need DALI.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        video: The film.
    """
    if device_type not in ("cpu", "cuda"):
        return f"it knows no device {device_type}"
    on_gpu = device_type == "cuda"
    if video.codec not in (_CUDA_CODECS if on_gpu else _CPU_CODECS):
        return f"it has no decoder for codec {video.codec} there"
    if video.pix_fmt not in (_FORMATS if on_gpu else _CPU_FORMATS):
        return f"it isn't checked on pixel format {video.pix_fmt}"
    if on_gpu:
        width, height = _CUDA_CODECS[video.codec]
        if video.width < width or video.height < height:
            return f"NVDEC takes no {video.codec} below {width}×{height} pixels"
    if np.any(video.packet_flags & HIDDEN):
        return "it has packets that no frame comes out of, and frames are counted"
    return None


class DaliDecoder:
    """Decodes clips with DALI's video decoder.

    On a GPU decoding is work of the caller's current stream, and so is what is done with its result: memory comes and
    goes in that stream's order. The host waits where DALI parses and where it fetches frames from NVDEC, in the thread
    that calls `decode`, never in the one that trains.

    Args:
        device: ``"cpu"``, or a CUDA device such as ``"cuda:0"``.

    Raises:
        ArgumentError: If DALI isn't installed, or there is no such device.
    """

    name = "dali"

    def __init__(self, device: str) -> None:
        import torch

        try:
            import nvidia.dali.experimental.dynamic as dynamic
        except ImportError as error:
            raise ArgumentError(
                f"decoder='dali': DALI can't be loaded ({error}); install it with pip install 'vidload[dali]'"
            ) from error
        self._dali = dynamic
        self._device = torch.device(device)
        if self._device.type not in ("cpu", "cuda"):
            raise ArgumentError(f"decoder='dali' on {device!r}: DALI decodes on 'cpu' and on CUDA devices")
        arguments: dict[str, Any] = {"num_threads": len(os.sched_getaffinity(0))}
        if self._device.type == "cuda":
            from vidload.decode.nvdec import count_engines

            # A thread has a decoder at a time: no more than there are engines.
            engines = count_engines(self._device.index or 0) or _DEFAULT_ENGINES
            arguments = {"num_threads": engines, "device_id": self._device.index or 0}
            arguments["cuda_stream"] = torch.cuda.current_stream(self._device)
        self._context: Any = dynamic.EvalContext(**arguments)

    def decode(self, clips: Sequence[EncodedClip], size: tuple[int, int]) -> DecodedClips:
        """See `vidload.decode.encoded.DeviceDecoder.decode`."""
        import torch

        from vidload.decode.place import place

        video = torch.empty((len(clips), len(clips[0].numbers), *size, 3), dtype=torch.uint8, device=self._device)
        errors: dict[int, DecodeError] = {}
        for chunk in _chunks(clips):
            for (number, part), found in zip(chunk, self._decode_parts([part for _, part in chunk]), strict=True):
                clip = clips[number]
                if isinstance(found, str):
                    errors.setdefault(number, clip.undecoded(self.name, part.rows.tolist(), found))
                elif found.shape[1:] != (clip.height, clip.width, 3):
                    came = f"came out as {tuple(found.shape)}, not {clip.width}×{clip.height} pixels"
                    errors.setdefault(number, clip.undecoded(self.name, part.rows.tolist(), came))
                else:
                    _, at = np.unique(part.frames, return_inverse=True)
                    placed = place(found, clip)
                    video[number, torch.from_numpy(part.rows)] = placed[torch.from_numpy(at)]
        if errors:
            video = video[[number for number in range(len(clips)) if number not in errors]]
        return DecodedClips(video, errors)

    def close(self) -> None:
        """Let go of the decoders."""
        self._context = None

    def _decode_parts(self, parts: Sequence[EncodedPart]) -> list[torch.Tensor | str]:
        """uint8[N, H, W, 3] of each part's distinct frames in the order of their numbers; or why there are none."""
        try:
            return list(self._call(parts))
        except RuntimeError as error:
            if len(parts) == 1:
                return [_reason(error)]
        return [self._decode_parts([part])[0] for part in parts]  # to find those that it failed on

    def _call(self, parts: Sequence[EncodedPart]) -> list[torch.Tensor]:
        import torch

        numbers = [np.unique(part.frames).astype(np.int32) for part in parts]
        with self._context:
            decoded = self._dali.decoders.video(
                self._dali.batch([part.data for part in parts]),
                frames=self._dali.batch(numbers),
                pad_mode="none",  # beyond the end is an error, not the last frame again
                device="cpu" if self._device.type == "cpu" else "gpu",
            ).evaluate()
            tensors = [torch.utils.dlpack.from_dlpack(tensor) for tensor in decoded.tensors]
        for tensor, wanted in zip(tensors, numbers, strict=True):
            if len(tensor) != len(wanted):
                raise RuntimeError(f"{len(tensor)} frames came out of {len(wanted)}")
        return tensors


def _chunks(clips: Sequence[EncodedClip]) -> Iterator[list[tuple[int, EncodedPart]]]:
    """(clip, part) of all parts, as many at a time as `_CHUNK_BYTES` of whole pictures allow."""
    chunk: list[tuple[int, EncodedPart]] = []
    size = 0
    for number, clip in enumerate(clips):
        for part in clip.parts:
            needed = len(np.unique(part.frames)) * clip.width * clip.height * 3
            if chunk and size + needed > _CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
            chunk.append((number, part))
            size += needed
    if chunk:
        yield chunk


def _reason(error: RuntimeError) -> str:
    """The line of DALI's message that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "failed" in line.lower() or "error" in line.lower()]
    return f"can't be decoded: {(told or lines or [type(error).__name__])[-1]}"
