"""vidload, and what people use instead: torch's DataLoader with each decoder, SPDL, DALI."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import vidload
from contenders.plan import SIZE, Clip, Plan, PlannedClips

__all__ = ["CONTENDERS", "applies"]

Batches = Iterator[torch.Tensor]

FPS = 25
_CACHED_READERS = 8


def vidload_loader(decoder: str, kind: Any) -> Callable[[Plan, int], Batches]:
    def run(plan: Plan, workers: int) -> Batches:
        clips = PlannedClips(plan)
        dataset = vidload.ClipDataset(plan.index, clips, vidload.Resize(SIZE), decoder)  # type: ignore[arg-type]
        with vidload.VideoLoader(
            dataset, plan.batch_size, epochs=1, num_workers=workers, worker_kind=kind, sampler=clips.order
        ) as loader:
            for batch in loader:
                yield batch.video.permute(0, 2, 3, 4, 1)

    return run


class Clips(Dataset):
    """A plan's clips by one of the ways that people write."""

    def __init__(self, plan: Plan, load: Callable[[str, list[int]], np.ndarray | torch.Tensor]) -> None:
        self.plan, self.load = plan, load

    def __len__(self) -> int:
        return len(self.plan.clips)

    def __getitem__(self, item: int) -> torch.Tensor:
        clip = self.plan.clips[item]
        return torch.as_tensor(self.load(self.plan.films[clip.video], clip.frames))


def data_loader(load: Callable[[str, list[int]], np.ndarray | torch.Tensor]) -> Callable[[Plan, int], Batches]:
    def run(plan: Plan, workers: int) -> Batches:
        yield from DataLoader(Clips(plan, load), plan.batch_size, num_workers=workers, persistent_workers=True)

    return run


def decord_per_clip(path: str, frames: list[int]) -> np.ndarray:
    import decord

    reader = decord.VideoReader(path, width=SIZE, height=SIZE, num_threads=1)
    pictures: np.ndarray = reader.get_batch(frames).asnumpy()
    return pictures


_readers: OrderedDict[str, Any] = OrderedDict()  # of a worker


def decord_cached(path: str, frames: list[int]) -> np.ndarray:
    import decord

    if path not in _readers:
        _readers[path] = decord.VideoReader(path, width=SIZE, height=SIZE, num_threads=1)
        if len(_readers) > _CACHED_READERS:
            _readers.popitem(last=False)
    _readers.move_to_end(path)
    pictures: np.ndarray = _readers[path].get_batch(frames).asnumpy()
    return pictures


def torchcodec_clip(path: str, frames: list[int]) -> torch.Tensor:
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    decoder = VideoDecoder(
        path,
        dimension_order="NHWC",
        num_ffmpeg_threads=1,
        seek_mode="approximate",
        transforms=[Resize((SIZE, SIZE))],
    )
    batch: torch.Tensor = decoder.get_frames_at(frames).data
    return batch


def pyav_clip(path: str, frames: list[int]) -> np.ndarray:
    import av

    out = []
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        assert stream.time_base is not None
        tick = 1 / (FPS * stream.time_base)
        start = stream.start_time or 0
        wanted = {int(frame * tick) + start for frame in frames}
        while wanted:
            container.seek(min(wanted), stream=stream)
            for frame in container.decode(stream):
                if frame.pts in wanted:
                    out.append((frame.pts, frame.reformat(SIZE, SIZE, "rgb24", interpolation="BICUBIC").to_ndarray()))
                    wanted.discard(frame.pts)
                # Jump where the next one is far away, as those do who read sparsely.
                if not wanted or min(wanted) - frame.pts > 250 * tick:
                    break
            else:
                break
    return np.stack([picture for _, picture in sorted(out, key=lambda pair: pair[0])])


def spdl_pipeline(plan: Plan, workers: int) -> Batches:
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    config = spdl.io.decode_config(decoder_options={"threads": "1"})

    def load(clip: Clip) -> np.ndarray:
        path, frames = plan.films[clip.video], clip.frames
        scale = f"scale={SIZE}:{SIZE}:flags=bicubic,format=pix_fmts=rgb24"
        if frames[-1] - frames[0] > 250:
            packets = spdl.io.demux_video(path)
            decoded = spdl.io.sample_decode_video(packets, frames, decode_config=config, filter_desc=scale)
        else:
            begin, end = (frames[0] - 0.5) / FPS, (frames[-1] + 0.5) / FPS
            packets = spdl.io.demux_video(path, timestamp=(max(0.0, begin), end))
            stride = frames[1] - frames[0] if len(frames) > 1 else 1
            select = f"trim=start={begin}:end={end},select='not(mod(n\\,{stride}))'"
            decoded = spdl.io.decode_packets(packets, f"{select},{scale}", config)
        return np.asarray(spdl.io.to_numpy(spdl.io.convert_frames(decoded)))

    def collate(clips: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(clips))

    pipeline = (
        PipelineBuilder()
        .add_source(plan.clips)
        .pipe(load, concurrency=workers, output_order="input")
        .aggregate(plan.batch_size)
        .pipe(collate)
        .add_sink(2)
        .build(num_threads=workers + 1)
    )
    with pipeline.auto_stop():
        yield from pipeline


def dali_cpu(plan: Plan, workers: int) -> Batches:
    from nvidia.dali import fn, pipeline_def

    batches = iter(plan.batches)

    def read() -> tuple[list[np.ndarray], list[np.ndarray]]:
        clips = next(batches)
        files = [np.fromfile(plan.films[clip.video], np.uint8) for clip in clips]
        return files, [np.array(clip.frames, np.int32) for clip in clips]

    @pipeline_def(batch_size=plan.batch_size, num_threads=workers, device_id=None, prefetch_queue_depth=2)
    def clips() -> Any:
        encoded, frames = fn.external_source(source=read, num_outputs=2)
        video = fn.decoders.video(encoded, frames=frames, device="cpu")
        return fn.resize(video, resize_x=SIZE, resize_y=SIZE)

    pipeline = clips()
    for _ in plan.batches:
        try:
            (out,) = pipeline.run()
        except StopIteration:
            return
        yield torch.from_numpy(out.as_array())


def dali_gpu_reader(plan: Plan, workers: int) -> Batches:
    """DALI's own video reader, as its users have it: from files, by frame ranges, on the GPU."""
    import tempfile
    from pathlib import Path

    from nvidia.dali import fn, pipeline_def

    frames = plan.clips[0].frames
    stride = frames[1] - frames[0]
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "clips.txt"
        listed.write_text(
            "".join(f"{plan.films[clip.video]} 0 {clip.frames[0]} {clip.frames[-1] + 1}\n" for clip in plan.clips)
        )

        @pipeline_def(batch_size=plan.batch_size, num_threads=workers, device_id=0)
        def clips() -> Any:
            video, _ = fn.readers.video_resize(
                device="gpu",
                file_list=str(listed),
                file_list_frame_num=True,
                sequence_length=len(frames),
                stride=stride,
                resize_x=SIZE,
                resize_y=SIZE,
                name="reader",
            )
            return video

        pipeline = clips()
        for _ in plan.batches:
            (out,) = pipeline.run()
            yield torch.from_dlpack(out.as_tensor()).cpu()


CONTENDERS: dict[str, Callable[[Plan, int], Batches]] = {
    "vidload-pyav": vidload_loader("pyav", "process"),
    "vidload-decord": vidload_loader("decord", "process"),
    "vidload-pyav-threads": vidload_loader("pyav", "thread"),
    "vidload-decord-threads": vidload_loader("decord", "thread"),
    "dataloader-decord": data_loader(decord_per_clip),
    "dataloader-decord-cached": data_loader(decord_cached),
    "dataloader-torchcodec": data_loader(torchcodec_clip),
    "dataloader-pyav": data_loader(pyav_clip),
    "spdl": spdl_pipeline,
    "dali-cpu": dali_cpu,
    "dali-gpu-reader": dali_gpu_reader,
}
"""By name: gives a plan's batches with so many workers."""


def applies(contender: str, workload: str) -> bool:
    """DALI's CPU decoder takes VP9, but no H.264; its reader needs a GPU, and clips of even strides."""
    if contender == "dali-cpu":
        return workload == "f"
    return contender != "dali-gpu-reader" or (torch.cuda.is_available() and workload != "c")
