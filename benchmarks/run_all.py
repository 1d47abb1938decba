"""Run all benchmarks with modest settings, one after the other, and collect their figures in one file.

python benchmarks/run_all.py --out build/bench
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

BENCHMARKS: dict[str, list[str]] = {
    "epochs": ["--rounds=3"],
    "throughput": ["--rounds=3"],
    "index_scale": [],
    "worker_memory": [],
    "wire": ["--rounds=3"],
    "balance": [],
    "floor": ["--rounds=3"],
}
"""Each benchmark's program and arguments; all take ``--out`` for their files and ``--json`` for their figures."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run this one; may be given several times")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    results, failed = {}, []
    for name in args.only or BENCHMARKS:
        print(f"\n=== {name}", flush=True)
        figures, start = args.out / f"{name}.json", time.monotonic()
        script = Path(__file__).with_name(f"{name}.py")
        command = [sys.executable, str(script), f"--out={args.out}", f"--json={figures}", *BENCHMARKS[name]]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
        else:
            results[name] = json.loads(figures.read_text())
            print(f"({time.monotonic() - start:.0f} s)", flush=True)
    collected = args.out / "results.json"
    collected.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nFigures: {collected}")
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
