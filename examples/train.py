"""Train a small 3-D conv net to tell the videos of an index apart by their labels.

vidload index videos/ --labels-from-folder -o videos.index
python examples/train.py videos.index --epochs 5
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import vidload

MEAN = (0.45, 0.45, 0.45)
STD = (0.225, 0.225, 0.225)


def small_net(num_classes: int, width: int = 16) -> nn.Module:
    """Build a net that takes clips float32[B, 3, T, H, W] and gives scores float32[B, num_classes]."""

    def block(inputs: int, outputs: int, stride: tuple[int, int, int]) -> list[nn.Module]:
        return [
            nn.Conv3d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
        ]

    return nn.Sequential(
        *block(3, width, (1, 2, 2)),
        *block(width, 2 * width, (2, 2, 2)),
        *block(2 * width, 4 * width, (2, 2, 2)),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(4 * width, num_classes),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="index with labels, as `vidload index --labels-from-folder` writes it")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--clips-per-video", type=int, default=4)
    parser.add_argument("--num-frames", type=int, default=16)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    with vidload.VideoIndex(args.index) as index:
        classes = index.classes
    if len(classes) < 2:
        parser.error(f"{args.index} has {len(classes)} classes: train on an index with two or more")
    clips = vidload.RandomClips(num_frames=args.num_frames, stride=args.stride, clips_per_video=args.clips_per_video)
    dataset = vidload.ClipDataset(args.index, clips=clips, size=args.size)
    model = small_net(len(classes)).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate)

    loader = vidload.VideoLoader(
        dataset,
        args.batch_size,
        epochs=args.epochs,
        num_workers=args.num_workers,
        shuffle=True,
        seed=args.seed,
        device=args.device,
        device_transform=vidload.DeviceTransform(mean=MEAN, std=STD),  # float32, made there ahead of time
    )
    with loader:
        for epoch in range(args.epochs):
            seen = right = 0
            total = 0.0
            for batch in loader:
                scores = model(batch.video)
                loss = nn.functional.cross_entropy(scores, batch.label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seen += len(batch)
                right += int((scores.argmax(1) == batch.label).sum())
                total += float(loss.detach()) * len(batch)
            print(f"epoch {epoch}: loss {total / seen:.3f}, accuracy {right / seen:.1%} of {seen} clips")


if __name__ == "__main__":
    main()
