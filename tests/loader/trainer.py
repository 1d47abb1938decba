"""A trainer for tests to end in one way or another: all its workers are at work for ever when it says so.

    python -m tests.loader.trainer process|thread FOLDER

It prints ``busy`` and the process ids of its workers once every worker is at a sample, and waits for a batch that never
comes.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.loader import faulty
from tests.loader.faulty import Arrays, Fate, Marks, stack
from tests.loader.processes import children
from vidload import VideoLoader

WORKERS = 3


def main(kind: str, folder: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    fate = Fate(tuple(range(WORKERS)), faulty.hang, Path(folder))
    loader = VideoLoader(
        Arrays(12, fate), 4, num_workers=WORKERS, worker_kind=kind, collate_fn=stack, clip_timeout=None
    )
    faulty.wait_until(lambda: sum(Marks(Path(folder)).count(sample) for sample in range(WORKERS)) == WORKERS)
    print("busy", *sorted(children()), flush=True)
    next(iter(loader))


if __name__ == "__main__":
    main(*sys.argv[1:])
