"""Run by torchrun: trains a small net on all ranks, and leaves what each rank saw in a file.

torchrun --nproc-per-node 2 tests/loader/ddp_script.py FOLDER GLOBAL_BATCH_SIZE [STATE]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from tests.loader.datasets import Numbers
from vidload import VideoLoader

SAMPLES = 23
EPOCHS = 2
SEED = 5


def main(folder: Path, global_batch_size: int, state: Path | None) -> None:
    by_variables = VideoLoader(Numbers(4), num_workers=0)  # before torch.distributed is there
    torch.distributed.init_process_group("gloo")
    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    assert (by_variables.rank, by_variables.world_size) == (rank, world_size)
    for name in ("RANK", "WORLD_SIZE"):
        del os.environ[name]
    torch.manual_seed(rank)  # DistributedDataParallel starts all ranks with the parameters of the first
    net = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    loader = VideoLoader(
        Numbers(SAMPLES),
        global_batch_size // world_size,
        epochs=EPOCHS,
        num_workers=1,
        shuffle=True,
        seed=SEED,
    )
    assert (loader.rank, loader.world_size) == (rank, world_size)
    if state is not None:
        loader.load_state_dict(json.loads(state.read_text()))
    seen = []
    with loader:
        while loader.epoch < EPOCHS:
            epoch = loader.epoch
            for batch in loader:
                repeated = [False] * len(batch) if loader.repeated is None else loader.repeated.tolist()
                seen.append([epoch, batch.tolist(), repeated])
                optimizer.zero_grad()
                net(batch[:, None].float()).square().mean().backward()
                optimizer.step()
                if len(seen) == 3 and rank == 0:
                    (folder / "state.json").write_text(json.dumps(loader.state_dict()))
    parameters = [parameter.item().hex() for parameter in net.parameters()]
    (folder / f"rank{rank}.json").write_text(json.dumps({"seen": seen, "parameters": parameters}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
