"""The CPU backends that tests run on: those that are always there, and torchcodec where it is."""

from __future__ import annotations

import importlib
import os

import pytest

__all__ = ["BACKENDS", "NEEDS_TORCHCODEC"]


def _missing() -> str | None:
    """Why torchcodec can't be used; None if it can."""
    try:
        importlib.import_module("torchcodec.decoders")
    except (ImportError, OSError, RuntimeError) as error:
        if os.environ.get("VIDLOAD_REQUIRE_TORCHCODEC") == "1":
            raise
        return f"torchcodec can't be loaded: {str(error).splitlines()[0]}"
    return None


_MISSING = _missing()

NEEDS_TORCHCODEC = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))

BACKENDS = ["pyav", "decord", pytest.param("torchcodec", marks=NEEDS_TORCHCODEC)]
