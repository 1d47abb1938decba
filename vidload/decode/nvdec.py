"""What the video engines of a GPU can do, asked of NVIDIA's driver."""

from __future__ import annotations

import ctypes

__all__ = ["CODECS", "DecoderCaps", "count_engines", "decoder_caps"]

CODECS = {"mpeg2video": 1, "mpeg4": 2, "h264": 4, "mjpeg": 5, "hevc": 8, "vp8": 9, "vp9": 10, "av1": 11}
"""Numbers of cudaVideoCodec, by libavcodec's names: NVIDIA's Video Codec SDK, cuviddec.h."""

_CHROMA_420 = 1


class DecoderCaps(ctypes.Structure):
    """CUVIDDECODECAPS of cuviddec.h."""

    _fields_ = (
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bit_depth_minus_8", ctypes.c_uint),
        ("reserved1", ctypes.c_uint * 3),
        ("is_supported", ctypes.c_ubyte),
        ("num_engines", ctypes.c_ubyte),
        ("output_formats", ctypes.c_ushort),
        ("max_width", ctypes.c_uint),
        ("max_height", ctypes.c_uint),
        ("max_macroblocks", ctypes.c_uint),
        ("min_width", ctypes.c_ushort),
        ("min_height", ctypes.c_ushort),
        ("has_histogram", ctypes.c_ubyte),
        ("counter_bit_depth", ctypes.c_ubyte),
        ("max_histogram_bins", ctypes.c_ushort),
        ("reserved3", ctypes.c_uint * 10),
    )


def decoder_caps(codec: str, bit_depth: int = 8) -> DecoderCaps:
    """What the current CUDA context's device decodes of a codec, in 4:2:0.

    Args:
        codec: One of `CODECS`.
        bit_depth: 8, 10 or 12.

    Raises:
        OSError: If the driver's library isn't there (in a container: its ``video`` capability), or refuses.
    """
    library = ctypes.CDLL("libnvcuvid.so.1")
    caps = DecoderCaps(codec=CODECS[codec], chroma=_CHROMA_420, bit_depth_minus_8=bit_depth - 8)
    code = library.cuvidGetDecoderCaps(ctypes.byref(caps))
    if code:
        raise OSError(f"cuvidGetDecoderCaps gives error {code} for {codec}")
    return caps


def count_engines(device: int) -> int | None:
    """How many decoding engines a GPU has; None where the driver doesn't say."""
    import torch

    with torch.cuda.device(device):
        torch.empty(0, device="cuda")  # a context
        try:
            return int(decoder_caps("h264").num_engines) or None
        except OSError:
            return None
