"""The configuration's shape: which keys there are, and of which kind.

A key is an argument of the class that it configures, by the same name. Defaults live in those classes and nowhere else:
a key that isn't set isn't passed on. Only `run`, which configures no class, has defaults of its own.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

__all__ = [
    "CLIPS",
    "SIZES",
    "ColorJitterConfig",
    "Config",
    "DatasetConfig",
    "DeviceTransformConfig",
    "LoaderConfig",
    "RunConfig",
    "Settings",
]


class Settings(BaseModel):
    """One mapping of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def given(self) -> dict[str, Any]:
        """The keys that are set, with their values, but for the one that chooses among kinds (`type`)."""
        names = [name for name in type(self).model_fields if name in self.model_fields_set and name != "type"]
        return {name: getattr(self, name) for name in names}


def _key(description: str, **limits: Any) -> Any:
    """A key that may be left out. Its default is never looked at."""
    return Field(default_factory=lambda: None, description=description, **limits)


Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
HeightWidth = Annotated[list[Count], Field(min_length=2, max_length=2)]
Range = Annotated[list[Positive], Field(min_length=2, max_length=2)]
Channels = Annotated[list[float], Field(min_length=3, max_length=3)]
Short = Literal["repeat_last", "loop", "drop", "error"]

# Tags tell members of a union apart in a ValidationError's location; no key of a file looks like one.


def _number_tag(value: Any) -> str:
    return "<int>" if isinstance(value, int) else "<float>"


def _side_tag(value: Any) -> str:
    return "<pair>" if isinstance(value, list) else "<side>"


def _auto_tag(value: Any) -> str:
    return "<auto>" if value == "auto" else "<count>"


def _type_tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return f"<{kind}>" if isinstance(kind, str) else None


def _size_tag(value: Any) -> str | None:
    if value is None:
        return "<native>"
    if isinstance(value, (list, int)) and not isinstance(value, bool):
        return _side_tag(value)
    return _type_tag(value)


Number = Annotated[Annotated[Positive, Tag("<float>")] | Annotated[Count, Tag("<int>")], Discriminator(_number_tag)]
Change = Annotated[
    Annotated[float, Tag("<side>")] | Annotated[list[float], Field(min_length=2, max_length=2), Tag("<pair>")],
    Discriminator(_side_tag),
]
Size = Annotated[Annotated[Count, Tag("<side>")] | Annotated[HeightWidth, Tag("<pair>")], Discriminator(_side_tag)]

_Auto = Annotated[Literal["auto"], Tag("<auto>")]
Workers = Annotated[Annotated[int, Field(ge=0), Tag("<count>")] | _Auto, Discriminator(_auto_tag)]
Ahead = Annotated[Annotated[Count, Tag("<count>")] | _Auto, Discriminator(_auto_tag)]

_SIDES = "Side, or [height, width], of the clip in pixels."
_FLIP = "Probability of mirroring the clip left to right."


class _WindowClips(Settings):
    num_frames: Count = _key("Frames of a clip.")
    stride: Count = _key("Frames from one to the next; not together with fps.")
    fps: Positive = _key("Frames per second on presentation times; not together with stride.")
    short: Short = _key("What to do with a video that is too short for a clip.")


class RandomClipsConfig(_WindowClips):
    """Clips that begin anywhere in the video, anew in each epoch."""

    type: Literal["random"]
    clips_per_video: Count = _key("Clips of a video in each epoch.")


class UniformClipsConfig(_WindowClips):
    """Clips that lie evenly over the video."""

    type: Literal["uniform"]
    clips_per_video: Count = _key("Clips of each video.")


class DenseClipsConfig(_WindowClips):
    """All clips of the video, a hop apart."""

    type: Literal["dense"]
    hop: Number = _key("From the beginning of one clip to the next one's: frames, or seconds where fps is set.")


class SparseFramesConfig(Settings):
    """Frames spread over the whole video."""

    type: Literal["sparse"]
    num_frames: Count = Field(description="Frames of a clip.")
    by: Literal["frames", "time"] = _key("What the parts of the video are equal in that give one frame each.")
    jitter: bool = _key("Whether to take a random frame of each part, not the middle one.")
    clips_per_video: Count = _key("Clips of a video in each epoch; more than one only with jitter.")
    short: Short = _key("What to do with a video that has fewer frames than a clip.")


class ResizeConfig(Settings):
    """The whole picture at a size, whatever becomes of its aspect."""

    type: Literal["resize"]
    size: Size = Field(description=_SIDES)


class CenterCropConfig(Settings):
    """The short side scaled, then the centre cut out."""

    type: Literal["center_crop"]
    size: Size = Field(description=_SIDES)
    resize: Count = _key("Length of the scaled picture's short side in pixels; by default it just covers the size.")
    flip: Probability = _key(_FLIP)


class RandomResizedCropConfig(Settings):
    """A random part of the picture, scaled to a size."""

    type: Literal["random_resized_crop"]
    size: Size = Field(description=_SIDES)
    scale: Range = _key("Smallest and largest share of the picture's area.")
    ratio: Range = _key("Smallest and largest aspect, width over height.")
    flip: Probability = _key(_FLIP)


CLIPS: dict[str, type[Settings]] = {
    "random": RandomClipsConfig,
    "uniform": UniformClipsConfig,
    "dense": DenseClipsConfig,
    "sparse": SparseFramesConfig,
}
"""Kinds of `dataset.clips` by their `type`."""

SIZES: dict[str, type[Settings]] = {
    "resize": ResizeConfig,
    "center_crop": CenterCropConfig,
    "random_resized_crop": RandomResizedCropConfig,
}
"""Kinds of `dataset.size` by their `type`."""

Clips = Annotated[
    Annotated[RandomClipsConfig, Tag("<random>")]
    | Annotated[UniformClipsConfig, Tag("<uniform>")]
    | Annotated[DenseClipsConfig, Tag("<dense>")]
    | Annotated[SparseFramesConfig, Tag("<sparse>")],
    Discriminator(_type_tag),
]

AnySize = Annotated[
    Annotated[None, Tag("<native>")]
    | Annotated[Count, Tag("<side>")]
    | Annotated[HeightWidth, Tag("<pair>")]
    | Annotated[ResizeConfig, Tag("<resize>")]
    | Annotated[CenterCropConfig, Tag("<center_crop>")]
    | Annotated[RandomResizedCropConfig, Tag("<random_resized_crop>")],
    Discriminator(_size_tag),
]


class DatasetConfig(Settings):
    """Arguments of `vidload.ClipDataset`."""

    index: str = Field(min_length=1, description="The index; a relative path counts from the configuration's folder.")
    clips: Clips = _key("Which frames make up the clips.")
    size: AnySize = _key("Side, [height, width], null for the picture as it is, or a geometry with its type.")
    decoder: Literal["auto", "decord", "pyav", "torchcodec", "dali"] = _key("The backend, or auto.")
    fallback: bool = _key("Whether clips that the device can't decode are decoded on the CPU.")
    max_pixels: Count = _key("Largest picture that is decoded, in pixels.")
    drop_disposable: bool = _key("Whether packets that no wanted frame needs are left out.")
    apply_rotation: bool = _key("Whether pictures are turned and mirrored as the container says.")
    square_pixels: bool = _key("Whether pixels that aren't square are made so.")
    deinterlace: bool = _key("Whether frames of two fields become pictures of their first one.")
    concealed: Literal["error", "allow"] = _key("Whether frames that are damaged are an error, or come as they are.")
    dtype: Literal["uint8", "uint16"] = _key("Type of the values.")


class ColorJitterConfig(Settings):
    """Random changes of colour, the same for all frames of a clip."""

    brightness: Change = _key("How far brightness may go from 1, or [smallest, largest] factor.")
    contrast: Change = _key("Likewise for contrast.")
    saturation: Change = _key("Likewise for saturation.")
    hue: Change = _key("How far the hue may turn, as a share of the circle, or [smallest, largest].")


class DeviceTransformConfig(Settings):
    """What is made of clips on the device: arguments of `vidload.DeviceTransform`."""

    mean: Channels | None = _key("Subtracted from red, green and blue, of values in 0 to 1.")
    std: Channels | None = _key("What they are then divided by.")
    dtype: Literal["float32", "float16", "bfloat16", "uint8"] = _key("Type of the values.")
    layout: Literal["BCTHW", "BTCHW"] = _key("Order of the axes.")
    flip: Probability = _key(_FLIP)
    jitter: ColorJitterConfig | None = _key("Random changes of colour.")
    compile: bool = _key("Whether torch.compile fuses it.")


class LoaderConfig(Settings):
    """Arguments of `vidload.VideoLoader`."""

    batch_size: Count = _key("Clips of a batch.")
    epochs: Count | None = _key("Epochs of the run; nothing is loaded beyond the last. Null: not known.")
    num_workers: Workers = _key("Workers; 0 decodes in the calling thread. auto: by what clips cost, cores and memory.")
    worker_kind: Literal["process", "thread"] = _key("What a worker is.")
    prefetch_batches: Ahead | None = _key("Batches loaded ahead of the one in use; by default, enough for all workers.")
    shuffle: bool = _key("Whether each epoch has a random order of its own.")
    drop_last: bool = _key("Whether to leave out an epoch's last batch where it would be smaller.")
    seed: Annotated[int, Field(ge=0)] = _key("Seed of the order and of all that is random in the clips.")
    in_order: bool = _key("Whether batches come in the schedule's order.")
    on_error: Literal["raise", "replace"] = _key("What becomes of a clip that can't be loaded.")
    max_error_rate: Probability = _key("Share of such clips, of 100 or more tried, beyond which the run ends.")
    error_log: str | None = _key("File that gets a line of JSON for each clip that was replaced.")
    clip_timeout: Positive | None = _key("Seconds a worker may take for a clip. Null: no limit.")
    rank: Annotated[int, Field(ge=0)] | None = _key(
        "This process's rank; by default torch.distributed's or torchrun's."
    )
    world_size: Count | None = _key("How many ranks there are; likewise.")
    device: str = _key("Where batches are given: cpu, cuda, cuda:1, …")
    wire: Literal["rgb", "yuv420"] = _key("How clips travel to the device; the latter is half the bytes.")
    device_transform: DeviceTransformConfig | None = _key("What is made of clips there; by default nothing.")
    device_prefetch: Count = _key("Batches copied to the device ahead of the one in use.")


class RunConfig(Settings):
    """What `vidload run` does with the loader."""

    step_seconds: Annotated[float, Field(ge=0, description="Length of a made-up training step.")] = 0.0
    epochs: Count = _key("Epochs to run; by default those of the loader, or one.")
    steps: Count = _key("Batches of each epoch to run; by default all.")


class Config(Settings):
    """A configuration file: a data set, a loader, and how `vidload run` tries them out."""

    dataset: DatasetConfig = Field(description="The clips.")
    loader: LoaderConfig = Field(default_factory=lambda: LoaderConfig(), description="The batches.")
    run: RunConfig = Field(default_factory=lambda: RunConfig(), description="A trial run.")
