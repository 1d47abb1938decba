"""Read many edited films: ``make fuzz``, or

    python -m tests.fuzz --inputs 10000 --seed 1

What fails is made as small as hypothesis can and stays in the folder; put it into tests/fuzz/found/ with the cure.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.edits import Edit, edits
from tests.fuzz.reading import Reader


def main() -> None:
    """Read as many as asked for, and say what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {args.seed}")
    start = time.monotonic()
    with Reader(args.folder) as reader:

        @seed(args.seed)
        @settings(
            max_examples=args.inputs,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(edits)
        def read(edited: tuple[str, list[Edit]]) -> None:
            reader.read(*edited)

        read()
        total = sum(reader.outcomes.values())
        print(f"{total} inputs in {time.monotonic() - start:.0f} s: {dict(reader.outcomes.most_common())}")
        print(f"the slowest took {reader.slowest:.2f} s; {reader.largest} MB at most, with libraries")


if __name__ == "__main__":
    main()
