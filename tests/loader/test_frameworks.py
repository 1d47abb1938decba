"""Lightning and Accelerate take a loader as it is, and hand its state back: what docs/distributed.md says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import Numbers
from vidload import VideoLoader

SAMPLES, EPOCHS = 12, 2


def make(**arguments: Any) -> VideoLoader:
    return VideoLoader(Numbers(SAMPLES), 2, num_workers=2, worker_kind="thread", shuffle=True, seed=3, **arguments)


@pytest.fixture
def whole() -> list[list[int]]:
    with make(epochs=EPOCHS) as loader:
        return [batch.tolist() for _ in range(EPOCHS) for batch in loader]


def test_lightning_trains_on_it_and_goes_on_in_mid_epoch(whole: list[list[int]], tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[list[int]] = []

        def training_step(self, batch: torch.Tensor, step: int) -> torch.Tensor:
            self.seen.append(batch.tolist())
            loss: torch.Tensor = self.layer(batch[:, None].float()).square().mean()
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 1e-6)

    def fit(path: Path | None, keep: Any = None) -> list[list[int]]:
        trainer = lightning.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            logger=False,
            callbacks=[] if keep is None else [keep],
            enable_checkpointing=keep is not None,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        module = Module()
        with make() as loader:
            trainer.fit(module, loader, ckpt_path=path, weights_only=False)
        return module.seen

    keep = lightning.callbacks.ModelCheckpoint(
        dirpath=tmp_path, filename="{step}", every_n_train_steps=4, save_top_k=-1, save_on_train_epoch_end=False
    )
    assert fit(None, keep) == whole
    for step in (4, 8):
        assert fit(tmp_path / f"step={step}.ckpt") == whole[step:]


def test_accelerate_takes_it_and_keeps_its_state(whole: list[list[int]], tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    for stop in (0, 4, len(whole) // EPOCHS, len(whole) - 1):
        seen = []
        for part in range(2):
            accelerator = accelerate.Accelerator(cpu=True)
            with make(epochs=EPOCHS) as made:
                loader = accelerator.prepare(made)
                accelerator.register_for_checkpointing(loader)
                if part:
                    accelerator.load_state(str(tmp_path / str(stop)))
                else:
                    accelerator.save_state(str(tmp_path / str(stop)))
                while loader.epoch < EPOCHS and not (not part and len(seen) == stop):
                    for batch in loader:
                        seen.append(batch.tolist())
                        if not part and len(seen) == stop:
                            accelerator.save_state(str(tmp_path / str(stop)))
                            break
            accelerator.free_memory()
        assert seen == whole
