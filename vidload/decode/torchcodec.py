"""Backend ``torchcodec``: slices as files in memory, on the CPU in workers, or with NVDEC in the loader's process."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vidload.decode.container import mux_slice, split_runs
from vidload.decode.encoded import DecodedClips, EncodedClip
from vidload.decode.orient import as_coded, as_shown
from vidload.decode.protocol import Frames, Slice, undecoded
from vidload.decode.scale import crop_and_scale
from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import REFRESH, Video
from vidload.transforms.geometry import Placement

if TYPE_CHECKING:
    import torch

__all__ = ["TorchcodecDecoder", "TorchcodecDeviceDecoder", "torchcodec_device_reason", "torchcodec_reason"]

# Codecs that it was checked on; see docs/decoders.md.
_CODECS = frozenset({"av1", "ffv1", "h264", "hevc", "mjpeg", "mpeg2video", "mpeg4", "vp8", "vp9"})

# What NVDEC takes, and what came out of torchcodec's documentation for it; see vidload.decode.dali for sizes.
_CUDA_CODECS = {"av1": 128, "h264": 48, "hevc": 144, "vp9": 128}
_CUDA_FORMATS = frozenset({"yuv420p", "yuvj420p"})


def torchcodec_reason(video: Video) -> str | None:
    """Why torchcodec isn't to be used for a film on the CPU, or None if it may be."""
    if video.codec == "av1" and _decord_was_first():
        return "decord was loaded in this process before it, and its dav1d in place of FFmpeg's crashes the process"
    return _film_reason(video)


def _film_reason(video: Video) -> str | None:
    if video.codec not in _CODECS:
        return f"it isn't checked on codec {video.codec}"
    if video.has_hidden:
        return "it has packets that no frame comes out of, and frames are counted"
    if np.any(video.packet_flags & REFRESH):
        return "its frames become whole little by little after a keyframe, and torchcodec gives them before"
    return None


def _decord_was_first() -> bool:
    """Whether decord's libraries, whose symbols it makes global, come before those of torchcodec's FFmpeg."""
    names = list(sys.modules)
    return "decord" in names and ("torchcodec" not in names or names.index("decord") < names.index("torchcodec"))


def torchcodec_device_reason(video: Video) -> str | None:
    """Why torchcodec can't decode a film on a CUDA device; None if it can. Doesn't need torchcodec."""
    least = _CUDA_CODECS.get(video.codec)
    if least is None:
        return f"it isn't checked on codec {video.codec} there"
    if video.pix_fmt not in _CUDA_FORMATS:
        return f"it isn't checked on pixel format {video.pix_fmt} there"
    if min(video.width, video.height) < least:
        return f"NVDEC takes no {video.codec} of {video.width}×{video.height} pixels"
    return _film_reason(video)


class TorchcodecDecoder:
    """Decodes slices with torchcodec on the CPU. Whole pictures come out; libswscale crops and scales them.

    Args:
        threads: FFmpeg's threads per decoder; 1 where several workers share the cores.

    Raises:
        ArgumentError: If torchcodec can't be loaded.
    """

    name = "torchcodec"

    def __init__(self, threads: int = 1) -> None:
        self.convert_seconds = 0.0
        self.reused = self.opened = 0
        self._open = _Opener("cpu", threads)

    def decode(self, piece: Slice, placement: Placement, out: Frames, *, lenient: bool = False) -> None:
        """See `vidload.decode.protocol.Decoder.decode`; it can't be told to be stricter or more lenient than it is."""
        coded = as_coded(piece.video, placement)
        x, y, width, height = coded.window
        for part, rows in split_runs(piece):
            file = mux_slice(part)
            size = (piece.video.width, piece.video.height)
            found = self._open.frames(file.data, file.frames, part.plan.num_packets, size)
            if isinstance(found, str):
                raise undecoded(piece, self.name, part.plan.wanted.tolist(), found)
            self.opened += 1
            start = time.perf_counter()
            frames, at = found
            pictures = [
                as_shown(piece.video, placement, crop_and_scale(frame, coded)[y : y + height, x : x + width])
                for frame in frames.numpy()
            ]
            for row, number in zip(rows.tolist(), at.tolist(), strict=True):
                out[row] = pictures[number]
            self.convert_seconds += time.perf_counter() - start

    def close(self) -> None:
        """Nothing is kept open."""


class TorchcodecDeviceDecoder:
    """Decodes the clips of a batch with torchcodec, one after another, as work of the caller's current stream.

    Args:
        device: A CUDA device such as ``"cuda:0"``, or ``"cpu"``.

    Raises:
        ArgumentError: If torchcodec can't be loaded.
    """

    name = "torchcodec"

    def __init__(self, device: str) -> None:
        self._device = device
        self._open = _Opener(device, 1)

    def decode(self, clips: Sequence[EncodedClip], size: tuple[int, int]) -> DecodedClips:
        """See `vidload.decode.encoded.DeviceDecoder.decode`."""
        import torch

        video = torch.empty((len(clips), len(clips[0].numbers), *size, 3), dtype=torch.uint8, device=self._device)
        errors: dict[int, DecodeError] = {}
        for number, clip in enumerate(clips):
            error = self._decode(clip, video[number])
            if error is not None:
                errors[number] = error
        if errors:
            video = video[[number for number in range(len(clips)) if number not in errors]]
        return DecodedClips(video, errors)

    def _decode(self, clip: EncodedClip, out: torch.Tensor) -> DecodeError | None:
        import torch

        from vidload.decode.place import place

        for part in clip.parts:
            found = self._open.frames(part.data.tobytes(), part.frames, None, (clip.width, clip.height))
            if isinstance(found, str):
                return clip.undecoded(self.name, part.rows.tolist(), found)
            frames, at = found
            out[torch.from_numpy(part.rows)] = place(frames, clip)[torch.from_numpy(at)]
        return None

    def close(self) -> None:
        """Nothing is kept open."""


class _Opener:
    """Opens files in memory, and checks what comes out of them."""

    def __init__(self, device: str, threads: int) -> None:
        try:
            from torchcodec.decoders import VideoDecoder
        except ModuleNotFoundError as error:
            raise ArgumentError(
                "decoder='torchcodec': torchcodec isn't installed; pip install 'vidload[torchcodec]'"
            ) from error
        except (ImportError, OSError, RuntimeError) as error:
            raise ArgumentError(
                "decoder='torchcodec': torchcodec is installed but can't be loaded: it needs FFmpeg's libraries (on "
                f"Debian the package ffmpeg), and the torch that it was built for. {str(error).splitlines()[0]}"
            ) from error
        self._decoder: Any = VideoDecoder
        self._device = device
        self._threads = threads

    def frames(
        self, data: bytes, wanted: npt.NDArray[np.int64], packets: int | None, size: tuple[int, int]
    ) -> tuple[torch.Tensor, npt.NDArray[np.intp]] | str:
        """Distinct frames, uint8[N, H, W, 3], and for each wanted one its place among them; or what is wrong.

        Args:
            data: The file.
            wanted: Frame numbers in it.
            packets: How many frames it has to have, if that is known.
            size: (width, height) that they have to have.
        """
        distinct, at = np.unique(wanted, return_inverse=True)
        try:
            decoder = self._decoder(
                data, dimension_order="NHWC", num_ffmpeg_threads=self._threads, device=self._device, seek_mode="exact"
            )
            if packets is not None and decoder.metadata.num_frames != packets:
                return f"torchcodec finds {decoder.metadata.num_frames} frames in {packets} packets"
            batch = decoder.get_frames_at(distinct.tolist())
        except (RuntimeError, ValueError, IndexError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return f"can't be decoded: {reason}"
        if tuple(batch.data.shape) != (len(distinct), size[1], size[0], 3):
            return f"torchcodec gave {tuple(batch.data.shape)}, not {len(distinct)} frames of {size[0]}×{size[1]}"
        # Times in the file count frames: 1/25 s each.
        times = np.round(batch.pts_seconds.numpy() * 25).astype(np.int64)
        if not np.array_equal(times - times[0], distinct - distinct[0]):
            return "torchcodec gave frames of other times than those asked for"
        frames: torch.Tensor = batch.data
        return frames, at
