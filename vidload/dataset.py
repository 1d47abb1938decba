"""The clip data set: an index, a sampler, a geometry and a decoder, as one map-style data set.

May import everything below it (errors, index, transforms, decode, clips); the loader imports it.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vidload.clips.random import clip_uniform
from vidload.clips.samplers import ClipSampler, RandomClips
from vidload.decode.backends import (
    MAX_PIXELS,
    Backends,
    Concealed,
    DecoderName,
    DecodeTimes,
    check_concealed,
    check_decoder,
    check_pixels,
    needs_pyav,
    work_of,
)
from vidload.decode.device import check_installed, device_reason, device_slice_reason
from vidload.decode.encoded import EncodedClip, encode_slice
from vidload.decode.protocol import Frames
from vidload.decode.shown import plan_placement, turned
from vidload.decode.source import read_slice
from vidload.errors import ArgumentError, DecodeError, VideoTooShortError
from vidload.index.reader import VideoIndex
from vidload.transforms.geometry import Geometry, Placement, make_geometry
from vidload.transforms.planar import DTYPES, PlaneColour, Wire, clip_shape

if TYPE_CHECKING:
    import torch

    from vidload.index.video import Video

__all__ = ["Clip", "ClipDataset", "ClipFacts", "ClipPlan"]

Uniform = Callable[[], float]


def _check_dtype(dtype: Any) -> str:
    """Name of a type of values, given by name or as torch's or numpy's type.

    Raises:
        ArgumentError: If clips can't be of it.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    if name not in DTYPES:
        raise ArgumentError(
            f"dtype={dtype!r}: there are {', '.join(map(repr, DTYPES))}; DeviceTransform makes floating point of them"
        )
    return name


class Clip(NamedTuple):
    """One clip, in the form that ``torch.utils.data.default_collate`` makes batches of.

    Attributes:
        video: uint8[C, T, H, W], or uint16 if the data set was told so, RGB; a view of T×H×W×C memory.
        label: Class number, -1 where the index has none.
        pts: float64[T], presentation times in seconds.
        video_id: Row of the video in the index.
        frames: int64[T], frame numbers in the video.
        extra: The further columns of the index.
    """

    video: torch.Tensor
    label: int
    pts: torch.Tensor
    video_id: int
    frames: torch.Tensor
    extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """What is known of a decoded clip besides its pixels; see `Clip`."""

    label: int
    pts: npt.NDArray[np.float64]
    video_id: int
    frames: npt.NDArray[np.int64]
    extra: dict[str, Any]
    times: DecodeTimes
    fallback: str | None = None  # why a CPU backend decoded it in place of the device

    @property
    def colour(self) -> PlaneColour | None:
        """What the numbers of a clip decoded to planes mean; None for RGB."""
        return self.times.colour


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """A clip that is chosen but not decoded."""

    video: Video
    frames: npt.NDArray[np.int64]
    placement: Placement

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(T, H, W, 3) of the clip's frames."""
        return len(self.frames), self.placement.window[3], self.placement.window[2], 3

    def wire_shape(self, wire: Wire) -> tuple[int, ...]:
        """Shape of the clip's memory: `shape`, or (T, H * 3 // 2, W) for planes.

        Raises:
            ArgumentError: If ``wire="yuv420"`` and a side is odd.
        """
        return clip_shape(wire, *self.shape[:3])


class ClipDataset:
    """Clips of indexed videos.

    A map-style data set: ``dataset[i]`` gives a `Clip`, ``len(dataset)`` counts them; sample i is clip
    ``i % clips_per_video`` of a video where all videos give as many. `VideoLoader` takes it, and so does
    ``torch.utils.data.DataLoader``. What is random in a clip (its start, crop and flip) comes from the loader's seed
    under `VideoLoader`; under ``dataset[i]`` it comes from Python's `random`, anew at each access (DataLoader seeds
    that in its workers).

    Args:
        index: An index, or the path of one.
        clips: Which frames make up clips; ``RandomClips(num_frames=16, stride=4)`` by default.
        size: A side or (height, width) in pixels (short side scaled to it, centre cut out); None for native size; or a
            geometry such as ``RandomResizedCrop(224)``.
        decoder: ``"auto"`` (PyAV: it takes every film, is fastest and notices most damage), ``"pyav"``, ``"decord"``
            or ``"torchcodec"``; or ``"dali"``, with which workers only read and `VideoLoader` decodes on its device, as
            it does with torchcodec where that device isn't the CPU.
        fallback: With a decoder on the device: whether PyAV decodes a clip that it can't; if not, that is an error.
        max_pixels: Largest picture (width times height, as coded) that is decoded; a larger one is a `DecodeError`
            before memory is taken for it.
        drop_disposable: Leave out packets that no wanted frame needs; the pixels are the same either way.
        apply_rotation: Turn and mirror pictures as the container says, as players do; if not, they come as coded.
        square_pixels: Stretch or squeeze columns by the stream's sample aspect ratio before `size` is applied; if not,
            the ratio is ignored.
        deinterlace: Make frames that are coded as two fields pictures of their first field's moment (PyAV's decoder
            only); if not, they come woven, as coded.
        concealed: ``"error"``: a frame that is damaged, or refers to one that is, is a `DecodeError`. ``"allow"``: it
            comes as its decoder painted it over, as long as it comes; counted in ``stats()["concealed"]``.
        dtype: ``"uint8"``, or ``"uint16"`` for 0 to 65535 out of films of more than 8 bits (PyAV's decoder only).
        transform: Called with each `Clip` where it was decoded; what it returns is the sample. `VideoLoader` then
            treats this like any other data set: batches are what its `collate_fn` makes of the samples.

    Raises:
        ArgumentError: If an argument can't work, or no video gives a clip.
        VideoTooShortError: If a video is too short and the sampler was told ``short="error"``.
        IndexFormatError: If the index can't be read.
    """

    def __init__(
        self,
        index: VideoIndex | str | os.PathLike[str],
        clips: ClipSampler | None = None,
        size: int | tuple[int, int] | Geometry | None = 224,
        decoder: DecoderName | Literal["dali"] = "auto",
        *,
        fallback: bool = True,
        max_pixels: int = MAX_PIXELS,
        drop_disposable: bool = True,
        apply_rotation: bool = True,
        square_pixels: bool = False,
        deinterlace: bool = False,
        concealed: Concealed = "error",
        dtype: Any = "uint8",
        transform: Callable[[Clip], Any] | None = None,
    ) -> None:
        if decoder == "dali":
            check_installed(decoder)
        else:
            check_decoder(decoder)
        if transform is not None and not callable(transform):
            raise ArgumentError(f"transform={transform!r}: give a function of a clip, or None")
        self.index = index if isinstance(index, VideoIndex) else VideoIndex(index)
        self.clips: ClipSampler = RandomClips() if clips is None else clips
        if not all(hasattr(self.clips, name) for name in ("num_frames", "clips_in", "frames")):
            raise ArgumentError(f"clips={clips!r}: give a sampler such as vidload.RandomClips(num_frames=16, stride=4)")
        self.geometry = make_geometry(size)
        self.decoder: str = decoder
        self.fallback = fallback
        if isinstance(max_pixels, bool) or not isinstance(max_pixels, int) or max_pixels < 1:
            raise ArgumentError(f"max_pixels={max_pixels!r}: give a number of pixels, at least 1")
        self.max_pixels = max_pixels
        self.drop_disposable = drop_disposable
        self.apply_rotation = apply_rotation
        self.square_pixels = square_pixels
        self.deinterlace = deinterlace
        check_concealed(concealed)
        self.concealed: Concealed = concealed
        self.dtype = _check_dtype(dtype)
        if deinterlace:
            needs_pyav(decoder, "deinterlace=True")
        if self.dtype != "uint8":
            needs_pyav(decoder, f"dtype={self.dtype!r}")
        self.transform = transform
        self._local = threading.local()
        if not len(self):
            raise ArgumentError(
                f"{self.index.path}: not one of its {len(self.index)} videos gives a clip of {self.clips}; ask for "
                "fewer frames or a smaller stride, or choose short='repeat_last'"
            )

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        """For every video the number of the sample after its last."""
        try:
            counts = self.clips.clips_in(self.index.num_frames, self.index.duration, self.index.fps)
        except VideoTooShortError as error:
            row = error.args[1] if len(error.args) > 1 else None
            where = f"{self.index[row].path}: " if row is not None else ""
            raise VideoTooShortError(f"{where}{error} (short='error')") from error
        return np.cumsum(counts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def classes(self) -> list[str]:
        """Names of the classes by number; empty where labels are numbers or there are none."""
        return self.index.classes

    @property
    def clip_shape(self) -> tuple[int, int, int, int] | None:
        """(T, H, W, 3) of every clip's frames in memory, or None where it depends on the video."""
        size = self.geometry.output_size
        return None if size is None else (self.clips.num_frames, *size, 3)

    def wire_shape(self, wire: Wire) -> tuple[int, ...] | None:
        """Shape of every clip's memory, or None where it depends on the video.

        Args:
            wire: As `vidload.transforms.planar.Wire`.

        Raises:
            ArgumentError: If there is no such form, or planes are asked for and a side is odd or `decoder` can't give
                them.
        """
        if wire == "yuv420":
            needs_pyav(self.decoder, "wire='yuv420'")
        height, width = self.geometry.output_size or (2, 2)
        shape = clip_shape(wire, self.clips.num_frames, height, width)
        return None if self.geometry.output_size is None else shape

    def wire(self, wanted: Wire = "rgb") -> Wire:
        """How clips' pixels lie in memory, where a loader is told `wanted`.

        Raises:
            ArgumentError: If that doesn't go with `dtype`.
        """
        if wanted == "rgb":
            return DTYPES[self.dtype]
        if wanted == "rgb48" or self.dtype != "uint8":
            raise ArgumentError(
                f"wire={wanted!r} with ClipDataset(dtype={self.dtype!r}): planes are of 8 bits; 16 bits travel with "
                "wire='rgb'"
            )
        return wanted

    def clip_bytes(self, wire: Wire = "rgb") -> int | None:
        """Bytes of every clip's frames, or None where it depends on the video.

        Raises:
            ArgumentError: As `wire_shape`.
        """
        shape = self.wire_shape(wire)
        return None if shape is None else math.prod(shape)

    def locate(self, sample: int) -> tuple[int, int]:
        """(row of the video, number of the clip in it) of a sample.

        Raises:
            IndexError: If there is no such sample.
        """
        if not 0 <= sample < len(self):
            raise IndexError(f"sample {sample} of a data set of {len(self)}")
        row = int(np.searchsorted(self._ends, sample, side="right"))
        return row, sample - (int(self._ends[row - 1]) if row else 0)

    def plan(self, row: int, clip: int, uniform: Uniform) -> ClipPlan:
        """Choose a clip's frames and placement, from its random numbers.

        Args:
            row: The video's row in the index.
            clip: Number of the clip in the video.
            uniform: Gives the clip's next random number.
        """
        video = turned(self.index[row], self.apply_rotation)
        frames = np.asarray(self.clips.frames(video, clip, uniform), np.int64)
        placement = plan_placement(
            video, self.geometry, uniform, square_pixels=self.square_pixels, max_pixels=self.max_pixels
        )
        return ClipPlan(video, frames, placement)

    def decode(self, plan: ClipPlan, out: Frames, wire: Wire = "rgb") -> ClipFacts:
        """Decode a planned clip into memory that is given.

        Args:
            plan: The clip.
            out: uint8 of the plan's `wire_shape`; in one piece for planes.
            wire: As `wire` gives it.

        Raises:
            ArgumentError: If the memory has another shape, or a form is asked for that needs even sides, or that
                `decoder` can't give.
            StaleIndexError: If the file isn't the one that was indexed.
            DecodeError: If a frame can't be decoded, or comes out damaged.
        """
        return self._decode(plan, out, wire, self.decoder)

    def _decode(self, plan: ClipPlan, out: Frames, wire: Wire, decoder: str) -> ClipFacts:
        kept: dict[str, Backends] = self._local.__dict__.setdefault("backends", {})
        if decoder not in kept:
            kept[decoder] = Backends(
                decoder, max_pixels=self.max_pixels, deinterlace=self.deinterlace, concealed=self.concealed
            )
        times = kept[decoder].decode(
            plan.video, plan.frames, plan.placement, out, drop_disposable=self.drop_disposable, wire=wire
        )
        return self._facts(plan, times)

    def read(self, plan: ClipPlan, device_type: str, *, on_cpu: bool = False) -> tuple[ClipFacts, EncodedClip | Frames]:
        """Read a planned clip for a backend that decodes on the device; or decode it, where that backend can't.

        Args:
            plan: The clip.
            device_type: ``"cuda"``, for one.
            on_cpu: Decode it here in any case.

        Returns:
            What is known of it, and its slice, or its frames: uint8[T, H, W, 3].

        Raises:
            StaleIndexError: If the file isn't the one that was indexed.
            DecodeError: If it can't be decoded here, or not on the device and `fallback` is off.
        """
        video = plan.video
        check_pixels(video, self.max_pixels)
        reason = "it failed there" if on_cpu else device_reason(self.decoder, device_type, video)
        if reason is None:
            started = time.monotonic()
            strict = self.concealed == "error"
            piece = read_slice(video, plan.frames, drop_disposable=self.drop_disposable, check=strict)
            reason = device_slice_reason(self.decoder, device_type, piece)
            if reason is None:
                clip = encode_slice(piece, plan.placement)
                read = time.monotonic()
                return self._facts(plan, DecodeTimes(started, read, read, work=work_of(piece))), clip
        if not on_cpu and not self.fallback:
            raise DecodeError(
                f"{video.path}: decoder {self.decoder} can't decode it on {device_type}: {reason}; with fallback=True "
                "a CPU backend does"
            )
        # PyAV takes every codec, and notices damage best.
        out = np.empty(plan.shape, np.uint8)
        return replace(self._decode(plan, out, "rgb", "pyav"), fallback=reason), out

    def _facts(self, plan: ClipPlan, times: DecodeTimes) -> ClipFacts:
        video = plan.video
        return ClipFacts(video.label, video.pts(plan.frames), video.id, plan.frames, dict(video.extra), times)

    def __getitem__(self, sample: int) -> Any:
        """Decode one clip; what is random in it comes from Python's `random`.

        Returns:
            A `Clip`, or what `transform` makes of it.

        Raises:
            IndexError: If there is no such sample. Negative ones count from the end.
            StaleIndexError: If the file isn't the one that was indexed.
            DecodeError: If a frame can't be decoded, or comes out damaged.
        """
        return self.sample(sample, random.random)

    def sample(self, sample: int, uniform: Uniform) -> Any:
        """Like ``dataset[sample]``, with the random numbers given."""
        if self.decoder == "dali":
            raise ArgumentError(
                "decoder='dali' decodes the batches of a VideoLoader, not single clips; use decoder='auto' for these"
            )
        number = sample + len(self) if sample < 0 else sample
        plan = self.plan(*self.locate(number), uniform)
        check_pixels(plan.video, self.max_pixels)  # a clip of native size takes as much memory
        wire = self.wire()
        out = np.empty(plan.wire_shape(wire), np.uint8)
        facts = self.decode(plan, out, wire)
        clip = make_clip(out, facts)
        return clip if self.transform is None else self.transform(clip)

    def seeded_sample(self, sample: int, seed: int, epoch: int) -> Any:
        """Like ``dataset[sample]``, but a pure function of its arguments: the clip that `VideoLoader` gives.

        Args:
            sample: Number of the sample.
            seed: The loader's seed.
            epoch: The epoch, from 0.
        """
        return self.sample(sample, clip_uniform(seed, epoch, sample))

    def close(self) -> None:
        """Close this thread's decoders; they are opened again when needed."""
        for backends in self._local.__dict__.get("backends", {}).values():
            backends.close()

    def __repr__(self) -> str:
        return f"<ClipDataset of {len(self)} clips, {self.clips}, from {self.index.path!r}>"

    def __getstate__(self) -> dict[str, Any]:
        # Decoders stay where they are; so does the table of samples, as workers are told the video of each.
        return {name: value for name, value in self.__dict__.items() if name not in ("_local", "_ends")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()


def make_clip(frames: Frames, facts: ClipFacts) -> Clip:
    """A clip's tensors, as views of the arrays."""
    import torch

    video = torch.from_numpy(frames)
    if frames.shape[-1] == 6:
        video = video.view(torch.uint16)
    return Clip(
        video=video.permute(3, 0, 1, 2),
        label=facts.label,
        pts=torch.from_numpy(facts.pts),
        video_id=facts.video_id,
        frames=torch.from_numpy(facts.frames),
        extra=facts.extra,
    )
