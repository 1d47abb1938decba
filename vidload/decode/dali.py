"""Backend ``dali``: a batch's clips decoded together by NVIDIA DALI, on the device that batches are on.

On a GPU that is NVDEC; on the CPU DALI decodes VP8, VP9 and MJPEG by the same calls. DALI's dynamic mode is used: a
file that it can't decode fails that call and nothing else, where it would end a DALI pipeline for good. Operators and
their threads are made once and kept. See docs/dali.md for what was found in DALI 2.4, on which the choices here rest.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vidload.decode.container import starts_afresh
from vidload.decode.encoded import DecodedClips, EncodedClip
from vidload.decode.nvdec import count_engines
from vidload.decode.protocol import Slice
from vidload.decode.repeats import count_pictures, shows_again
from vidload.decode.sizes import picture_sizes
from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import REFRESH, Video
from vidload.transforms.planar import MATRICES

if TYPE_CHECKING:
    import torch

    from vidload.decode.dali_clips import DaliClips, PlacedClips

__all__ = ["DaliDecoder", "dali_reason", "dali_slice_reason", "dali_video_reason"]

_CPU_CODECS = frozenset({"mjpeg", "vp8", "vp9"})
# (width, height) of the smallest and largest picture that NVDEC is sent. The driver has the last word: DALI asks it,
# and what it refuses is an error of that clip.
_NVDEC_SIZES = {
    "av1": ((128, 128), (8192, 8192)),
    "h264": ((48, 16), (4096, 4096)),
    "hevc": ((144, 144), (8192, 8192)),
    "vp8": ((48, 16), (4096, 4096)),
    "vp9": ((128, 128), (8192, 8192)),
}
_FULL_RANGE = 2  # AVCOL_RANGE_JPEG
# By AVColorSpace number, the name in `MATRICES`; where a stream states none, or RGB's, BT.601 is what is taken.
_MATRIX_NAMES = {
    0: "bt601",
    1: "bt709",
    2: "bt601",
    4: "fcc",
    5: "bt601",
    6: "bt601",
    7: "smpte240m",
    9: "bt2020",
}

_MAX_BYTES = 1 << 30  # of decoded frames of full size at once
_BUFFERED = 8  # frames that DALI's GPU decoder keeps beside those asked for, for each file
_GPU_THREADS = 4  # where the driver doesn't say how many engines there are


def dali_reason(device_type: str, codec: str, pix_fmt: str, width: int, height: int) -> str | None:
    """Why DALI can't decode a stream on a type of device, or None if it can. Imports no DALI.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        codec: As libavcodec names it.
        pix_fmt: As libavutil names it.
        width: Of the coded picture, in pixels.
        height: Likewise.
    """
    if device_type == "cpu":
        if codec not in _CPU_CODECS:
            return f"on the CPU DALI decodes {', '.join(sorted(_CPU_CODECS))}, not {codec}"
        return None
    if device_type != "cuda":
        return f"DALI runs on CUDA devices and on the CPU, not on {device_type}"
    limits = _NVDEC_SIZES.get(codec)
    if limits is None:
        return f"on a GPU it decodes {', '.join(sorted(_NVDEC_SIZES))}, not {codec}"
    if pix_fmt not in ("yuv420p", "yuvj420p"):
        return f"on a GPU it decodes yuv420p, not {pix_fmt}"
    (min_width, min_height), (max_width, max_height) = limits
    if not (min_width <= width <= max_width and min_height <= height <= max_height):
        return (
            f"NVDEC decodes {codec} of {min_width}×{min_height} to {max_width}×{max_height} pixels, "
            f"not {width}×{height}"
        )
    if width % 2 or height % 2:
        return f"on a GPU it decodes pictures of even sides, not {width}×{height}"
    return None


def dali_video_reason(device_type: str, video: Video) -> str | None:
    """Like `dali_reason`, with all that is known of a film."""
    reason = dali_reason(device_type, video.codec, video.pix_fmt, video.width, video.height)
    if reason is not None:
        return reason
    if video.has_hidden:
        return "it has packets that no frame comes out of, and DALI counts packets"
    if np.any(video.packet_flags & REFRESH):
        return "its frames become whole little by little after a keyframe, and DALI gives them before"
    if video.color_space not in _MATRIX_NAMES:
        return f"no conversion for AVColorSpace {video.color_space}"
    if device_type == "cpu" and video.color_range == _FULL_RANGE and not video.pix_fmt.startswith("yuvj"):
        return f"on the CPU DALI takes {video.pix_fmt} for limited range, and this is full range"
    return None


def dali_slice_reason(device_type: str, piece: Slice) -> str | None:
    """Like `dali_video_reason`, for a slice that is read.

    DALI takes all pictures to be of the size that the file states. On a GPU it takes pictures as NVDEC decodes them,
    one for each packet; one that is only shown again isn't decoded, and one that isn't shown is.
    """
    video = piece.video
    for _, packet in piece.packets():
        for size in picture_sizes(video.codec, packet):
            if size != (video.width, video.height):
                return f"the picture is {size[0]}×{size[1]} here, but {video.width}×{video.height} elsewhere"
    if device_type != "cuda":
        return None
    if any(shows_again(piece.video.codec, packet) for _, packet in piece.packets()):
        return "it has packets that only show an earlier picture again, and DALI takes a decoded one for each packet"
    if any(count_pictures(video.codec, packet) != 1 for _, packet in piece.packets()):
        return "it has packets with pictures that aren't shown, and DALI counts all pictures that are decoded"
    if piece.video.codec == "h264" and not all(starts_afresh(piece, number) for number in range(len(piece.data))):
        return "it starts at a keyframe that is no IDR picture, and DALI gives NVDEC parameter sets with these only"
    return None


class DaliDecoder:
    """Decodes clips of a batch with DALI.

    Args:
        device: ``"cpu"``, ``"cuda:0"``, …
        threads: Files decoded at once; all cores on the CPU, 4 on a GPU by default, where each has an NVDEC decoder.

    Raises:
        ArgumentError: If DALI isn't installed, or the device isn't there.
    """

    name = "dali"

    def __init__(self, device: str, threads: int | None = None) -> None:
        import torch

        from vidload.decode.dali_clips import DaliClips

        self._device = torch.device(device)
        if self._device.type not in ("cpu", "cuda"):
            raise ArgumentError(f"device={device!r}: DALI decodes on 'cpu' and on CUDA devices such as 'cuda:0'")
        dali = _import_dali()
        self._stream: torch.cuda.Stream | None = None
        if self._device.type == "cuda":
            if not torch.cuda.is_available():
                raise ArgumentError(f"device={device!r}: torch finds no CUDA device here")
            index = torch.cuda.current_device() if self._device.index is None else self._device.index
            self._device = torch.device("cuda", index)
            # Of its own: DALI waits for its stream after each frame, and shouldn't wait for a training step.
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            # Each thread has a decoder: no more than there are engines.
            threads = threads or count_engines(index) or _GPU_THREADS
            context = dali.EvalContext(num_threads=threads, device_id=index, cuda_stream=self._stream)
        else:
            with dali.device("cpu"):  # else it would be a context of a GPU, if there is one
                context = dali.EvalContext(num_threads=threads or len(os.sched_getaffinity(0)))
        self._clips: DaliClips | None = DaliClips(dali, context, self._device)

    def decode(self, clips: Sequence[EncodedClip], size: tuple[int, int]) -> DecodedClips:
        """See `vidload.decode.encoded.DeviceDecoder.decode`.

        On a GPU the tensor is memory of torch's, safe to read on the stream that is current for the calling thread.

        Raises:
            ArgumentError: If it is closed.
        """
        import torch

        if self._clips is None:
            raise ArgumentError("this DaliDecoder is closed; make another")
        if self._stream is None:
            return self._decode(self._clips, clips, size)
        reader = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            decoded = self._decode(self._clips, clips, size)
        reader.wait_stream(self._stream)
        decoded.video.record_stream(reader)
        return decoded

    def _decode(self, decoder: DaliClips, clips: Sequence[EncodedClip], size: tuple[int, int]) -> DecodedClips:
        import torch

        errors: dict[int, DecodeError] = {}
        video: torch.Tensor | None = None
        right = 0
        for chunk in _chunks(clips, self._device.type):
            for places, placed in self._attempts(decoder, clips, chunk, size, errors):
                if len(places) == len(clips) and placed.dense is not None and self._stream is None:
                    return DecodedClips(placed.dense, {})
                if video is None:
                    shape = (len(clips), len(clips[0].numbers), *size, 3)
                    video = torch.empty(shape, dtype=torch.uint8, device=self._device)
                placed.write(video[right : right + len(places)])
                right += len(places)
        if video is None:
            video = torch.empty((0, len(clips[0].numbers), *size, 3), dtype=torch.uint8, device=self._device)
        return DecodedClips(video[:right], errors)

    def _attempts(
        self,
        decoder: DaliClips,
        clips: Sequence[EncodedClip],
        chunk: Sequence[int],
        size: tuple[int, int],
        errors: dict[int, DecodeError],
    ) -> Iterator[tuple[Sequence[int], PlacedClips]]:
        """All clips of a chunk together; if that fails, each alone.

        Raises:
            MemoryError: If there is no memory for one.
        """
        try:
            placed = decoder.place([clips[place] for place in chunk], size)
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            if len(chunk) == 1:
                if isinstance(error, MemoryError):
                    raise
                clip = clips[chunk[0]]
                errors[chunk[0]] = clip.undecoded(self.name, range(len(clip.numbers)), _reason(error))
                return
        else:
            yield chunk, placed
            return
        for place in chunk:
            yield from self._attempts(decoder, clips, [place], size, errors)

    def close(self) -> None:
        """Let go of DALI's operators and threads."""
        self._clips = None


def colour_matrix(color_space: int) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    """float32[3, 3], what makes RGB of RGB that DALI took for BT.601; None where it is that.

    Args:
        color_space: AVColorSpace of the stream; one that `dali_video_reason` has no objection to.
    """
    name = _MATRIX_NAMES[color_space]
    if name == "bt601":
        return None
    wrong, right = (_yuv_to_rgb(*MATRICES[which]) for which in ("bt601", name))
    return (right @ np.linalg.inv(wrong)).astype(np.float32)


def _yuv_to_rgb(red: float, blue: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """R, G and B from Y, Cb and Cr by the shares of red and blue in luma; see `vidload.transforms.colour`."""
    green = 1 - red - blue
    return np.array(
        [
            [1, 0, 2 * (1 - red)],
            [1, -2 * blue * (1 - blue) / green, -2 * red * (1 - red) / green],
            [1, 2 * (1 - blue), 0],
        ]
    )


def _chunks(clips: Sequence[EncodedClip], device_type: str) -> Iterator[list[int]]:
    """Places of clips that are decoded together, within `_MAX_BYTES` or one by one."""
    buffered = _BUFFERED if device_type == "cuda" else 0
    chunk: list[int] = []
    held = 0
    for place, clip in enumerate(clips):
        frames = sum(len(np.unique(part.frames)) + buffered for part in clip.parts)
        size = frames * clip.width * clip.height * 3
        if chunk and held + size > _MAX_BYTES:
            yield chunk
            chunk, held = [], 0
        chunk.append(place)
        held += size
    yield chunk


def _reason(error: BaseException) -> str:
    """What DALI says in the first place; it wraps what happens in its threads."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(("Stacktrace", "[frame"))]
    return f"DALI fails: {' '.join(lines)[:300]}"


def _import_dali() -> Any:
    try:
        return importlib.import_module("nvidia.dali.experimental.dynamic")
    except ImportError as error:
        raise ArgumentError(
            f"decoder='dali' needs NVIDIA DALI 2.4 or later ({error}); pip install 'vidload[dali]'"
        ) from error
