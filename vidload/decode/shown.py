"""What of a film's picture is shown, where the container has more to say than its pixels: turning and pixel aspect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vidload.errors import DecodeError
from vidload.index.video import Video
from vidload.transforms.geometry import Geometry, Placement

__all__ = ["plan_placement", "shown_size", "turned"]


def turned(video: Video, apply_rotation: bool) -> Video:
    """The video to decode: as the container says it is turned and mirrored for showing, or as it is coded."""
    if apply_rotation or not (video.rotation or video.mirrored):
        return video
    return replace(video, rotation=0, mirrored=False)


def shown_size(video: Video, square_pixels: bool) -> tuple[int, int]:
    """(width, height) of the picture as shown.

    Args:
        video: The video, as `turned` gives it.
        square_pixels: Whether columns as coded are stretched or squeezed until pixels are square.
    """
    width, height = video.display_size
    if square_pixels:
        coded = max(1, round(video.width * video.sample_aspect_ratio))
        width, height = (width, coded) if video.rotation in (90, 270) else (coded, height)
    return width, height


def plan_placement(
    video: Video, geometry: Geometry, uniform: Callable[[], float], *, square_pixels: bool, max_pixels: int
) -> Placement:
    """Plan a placement in the picture as shown, for decoders that know only its pixels.

    Args:
        video: The video, as `turned` gives it.
        geometry: What of the picture, how large.
        uniform: Gives random numbers in [0, 1).
        square_pixels: As of `shown_size`.
        max_pixels: Largest picture that it may become.

    Raises:
        DecodeError: If the picture becomes larger than that.
    """
    shown = shown_size(video, square_pixels)
    pixels = video.display_size
    if shown == pixels:
        return geometry.plan(*pixels, uniform)
    if shown[0] * shown[1] > max_pixels:
        raise DecodeError(
            f"{video.path}: with square pixels (sample aspect {video.sample_aspect_ratio}) its picture would be "
            f"{shown[0]}×{shown[1]}, larger than max_pixels={max_pixels} allows"
        )
    placement = geometry.plan(*shown, uniform)
    x, y, width, height = placement.crop
    x, width = _scaled(x, width, shown[0], pixels[0])
    y, height = _scaled(y, height, shown[1], pixels[1])
    return replace(placement, crop=(x, y, width, height))


def _scaled(begin: int, length: int, whole: int, pixels: int) -> tuple[int, int]:
    """A stretch of `whole` in pixels, of which there are `pixels`; even where the stretch isn't all of them."""
    if whole == pixels or length == whole:
        return (begin, length) if whole == pixels else (0, pixels)
    first = round(begin * pixels / whole) & ~1
    return first, min(max(2, round(length * pixels / whole) & ~1), pixels - first)
