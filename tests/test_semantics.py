"""What docs/video.md says of each kind of film; the films are those of tests/cases/ and a few made here."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import vidload
from tests.backends import BACKENDS
from tests.cases.frameid import BARS, bar_error, make_frame, read_bars, read_id, read_oriented
from tests.films import FilmFolder
from tests.index.test_checksums import change
from tests.reading_cases import FOLDER
from vidload.decode.backends import Backends
from vidload.decode.film import open_video
from vidload.decode.protocol import AnyFrames
from vidload.errors import ArgumentError, DecodeError, NoVideoStreamError, VideoTooShortError
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.synthetic import read_number, write_film

Index = Callable[..., vidload.VideoIndex]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Builds an index of films in tests/cases/."""

    def build(*names: str, **arguments: Any) -> vidload.VideoIndex:
        return vidload.build_index([FOLDER / name for name in names], tmp_path / "i", num_workers=0, **arguments)

    return build


def write(path: Path, pictures: list[AnyFrames], codec: str, pix_fmt: str, **options: str) -> Path:
    """Encode pictures, uint8[H, W, 3] each, or uint16, at 25 a second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pix_fmt
        for picture in pictures:
            kind = "rgb48le" if picture.dtype == np.uint16 else "rgb24"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, kind)))
        container.mux(stream.encode(None))
    return path


class TestRotation:
    @pytest.mark.parametrize("decoder", BACKENDS)
    @pytest.mark.parametrize(("name", "turn"), [("rot90.mp4", "rot90cw"), ("rot270.mp4", "rot90ccw")])
    def test_pictures_are_turned_unless_told_otherwise(self, name: str, turn: str, decoder: Any) -> None:
        with open_video(FOLDER / name, decoder) as film:
            assert (film.width, film.height) == (128, 256)
            shown = film.frames([3])[0]
            assert shown.shape == (256, 128, 3)
            number = read_id(shown)
            assert number > 0
        with open_video(FOLDER / name, decoder, apply_rotation=False) as film:
            assert (film.width, film.height) == (256, 128)
            coded = film.frames([3])[0]
            # Undone, the coded picture's turn against the shown one is the opposite of the display matrix'.
            assert read_oriented(coded) == (number, {"rot90cw": "rot90ccw", "rot90ccw": "rot90cw"}[turn])

    def test_a_data_set_does_either(self, index: Index) -> None:
        videos = index("rot90.mp4")
        clips = vidload.RandomClips(num_frames=2, stride=1)
        sizes = [
            tuple(vidload.ClipDataset(videos, clips, size=None, apply_rotation=apply)[0].video.shape[2:])
            for apply in (True, False)
        ]
        assert sizes == [(256, 128), (128, 256)]

    def test_mirrored_films_are_mirrored(self, film_file: FilmFolder, tmp_path: Path) -> None:
        from tests.films import remux

        path = remux(film_file("h264_bframes"), tmp_path / "m.mp4", rotation=(0, True))
        with open_video(path) as film, open_video(path, apply_rotation=False) as coded:
            assert np.array_equal(film.frames([5])[0], coded.frames([5])[0][:, ::-1])


class TestSampleAspect:
    @pytest.mark.parametrize("decoder", BACKENDS)
    def test_pixels_are_kept_unless_they_are_to_be_square(self, decoder: Any) -> None:
        with open_video(FOLDER / "sar.mp4", decoder) as film:
            assert film.video.sample_aspect_ratio == 2
            assert film.frames([0]).shape == (1, 128, 256, 3)
            number = read_id(film.frames([0])[0])
        with open_video(FOLDER / "sar.mp4", decoder, square_pixels=True) as film:
            assert (film.width, film.height) == (512, 128)
            frame = film.frames([0])[0]
            assert frame.shape == (128, 512, 3)
            assert read_id(frame) == number
            # The middle square of the shown picture is a quarter of the coded one's columns.
            middle = film.frames([0], size=128)[0]
            assert np.abs(middle.astype(int) - frame[:, 192:320]).mean() < 2

    @pytest.mark.parametrize("suffix", [".mp4", ".mov"])
    def test_the_container_may_state_it_alone(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"x{suffix}"
        with av.open(str(FOLDER / "cfr_h264.mp4")) as film, av.open(str(path), "w") as copy:
            stream = film.streams.video[0]
            out = copy.add_stream_from_template(stream, opaque=True)
            out.sample_aspect_ratio = Fraction(3, 2)
            for packet in film.demux(stream):
                if packet.size:
                    packet.stream = out
                    copy.mux(packet)
        assert demux_video(path).sample_aspect_ratio == Fraction(3, 2)

    def test_a_data_set_does_so_for_any_size(self, index: Index) -> None:
        videos = index("sar.mp4")
        clips = vidload.RandomClips(num_frames=2, stride=1)
        square = vidload.ClipDataset(videos, clips, size=None, square_pixels=True)
        assert square[0].video.shape[2:] == (128, 512)
        cut = vidload.ClipDataset(videos, clips, size=vidload.RandomResizedCrop(64), square_pixels=True)
        for sample in range(20):
            x, y, width, height = cut.plan(0, 0, np.random.default_rng(sample).random).placement.crop
            assert x >= 0 and y >= 0 and width >= 2 and height >= 2  # noqa: PT018
            assert x + width <= 256
            assert y + height <= 128
            assert (x % 2, width % 2) == (0, 0)
        assert cut[0].video.shape[1:] == (2, 64, 64)

    def test_turned_films_are_stretched_along_their_coded_columns(self) -> None:
        video = dataclasses.replace(demux_video(FOLDER / "sar.mp4"), rotation=90)
        with vidload.decode.film.Film(video, square_pixels=True) as film:
            assert film.frames([0]).shape == (1, 512, 128, 3)

    def test_an_absurd_ratio_is_an_error_that_names_the_film(self) -> None:
        video = dataclasses.replace(demux_video(FOLDER / "sar.mp4"), sample_aspect_ratio=Fraction(10**6))
        with (
            vidload.decode.film.Film(video, square_pixels=True) as film,
            pytest.raises(DecodeError, match=r"sar\.mp4.*256000000×128, larger than max_pixels"),
        ):
            film.frames([0])


class TestFields:
    def test_frames_come_woven_unless_told_otherwise(self) -> None:
        with (
            open_video(FOLDER / "interlaced.mp4") as film,
            open_video(FOLDER / "interlaced.mp4", deinterlace=True) as one,
        ):
            assert len(film) == len(one) == 25
            woven, made = film.frames(range(25)), one.frames(range(25))
            ids = [26600 + 2 * number for number in range(25)]
            # Each frame holds two moments: the lines of the second one's number are those of the bottom field.
            assert [read_id(frame[::2]) for frame in woven] == ids
            assert [read_id(frame[1::2]) for frame in woven] == [number + 1 for number in ids]
            assert [read_id(frame[::2]) for frame in made] == [read_id(frame[1::2]) for frame in made] == ids

    def test_a_frame_does_not_depend_on_the_clip_it_is_in(self) -> None:
        with open_video(FOLDER / "interlaced.mp4", deinterlace=True) as film:
            whole = film.frames(range(25))
            for number in (7, 3, 24, 0):
                assert np.array_equal(film.frames([number])[0], whole[number])

    def test_frames_that_are_whole_stay_as_they_are(self) -> None:
        with open_video(FOLDER / "cfr_h264.mp4") as film, open_video(FOLDER / "cfr_h264.mp4", deinterlace=True) as same:
            assert np.array_equal(film.frames([1, 9]), same.frames([1, 9]))

    def test_planes_are_made_of_one_field_too(self, index: Index) -> None:
        videos = index("interlaced.mp4")
        clips = vidload.RandomClips(num_frames=2, stride=1)
        dataset = vidload.ClipDataset(videos, clips, size=(128, 256), deinterlace=True)
        with vidload.VideoLoader(dataset, batch_size=1, num_workers=0, wire="yuv420", epochs=1) as loader:
            batch = next(iter(loader))
        frame = batch.video[0].permute(1, 2, 3, 0)[0].numpy()
        number = 26600 + 2 * int(batch.frames[0, 0])
        assert read_id(frame[::2]) == read_id(frame[1::2]) == number

    @pytest.mark.parametrize("decoder", ["decord", "torchcodec", "dali"])
    def test_only_pyav_does_it(self, index: Index, decoder: Any) -> None:
        if decoder == "dali":
            pytest.importorskip("nvidia.dali")
        elif decoder == "torchcodec":
            pytest.importorskip("torchcodec")
        with pytest.raises(ArgumentError, match=r"deinterlace=True with decoder='\w+'.*use decoder='pyav'"):
            vidload.ClipDataset(index("interlaced.mp4"), decoder=decoder, deinterlace=True)


class TestDepth:
    @pytest.mark.parametrize(("codec", "suffix"), [("libx265", ".mp4"), ("ffv1", ".mkv")])
    def test_sixteen_bits_keep_what_eight_lose(self, tmp_path: Path, codec: str, suffix: str) -> None:
        ramp = np.linspace(0, 65535, 1024).astype(np.uint16)
        picture = np.repeat(np.repeat(ramp[None, :, None], 64, 0), 3, 2)
        pix_fmt = "gbrp10le" if codec == "ffv1" else "yuv444p10le"
        options = {} if codec == "ffv1" else {"x265-params": "log-level=error:lossless=1"}
        path = write(tmp_path / f"ramp{suffix}", [picture] * 3, codec, pix_fmt, **options)
        with open_video(path, dtype="uint16") as film, open_video(path) as eight:
            deep, flat = film.frames([1])[0], eight.frames([1])[0]
            assert (deep.dtype, deep.shape) == (np.uint16, picture.shape)
            assert flat.dtype == np.uint8
            assert len(np.unique(deep[32])) > 700
            assert len(np.unique(flat[32])) <= 256
            assert np.abs(deep[32].astype(int) - picture[32]).max() <= 3 * 64  # three of 1024 levels
            assert np.abs(flat[32].astype(int) * 257 - picture[32].astype(int)).max() <= 3 * 257

    @pytest.mark.parametrize("name", ["hi10.mp4", "main10.mp4", "cfr_h264.mp4", "full_range.mp4", "alpha.mov"])
    def test_sixteen_bits_show_the_same_picture(self, name: str) -> None:
        with open_video(FOLDER / name, dtype="uint16") as film, open_video(FOLDER / name) as eight:
            deep, flat = film.frames([2, 0]), eight.frames([2, 0])
            assert [read_id(frame) for frame in deep] == [read_id(frame) for frame in flat]
            assert np.abs(deep / 257 - flat).max() < 4

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_a_loader_gives_them(self, index: Index, num_workers: int) -> None:
        dataset = vidload.ClipDataset(
            index("main10.mp4"), vidload.RandomClips(num_frames=4, stride=1), size=(128, 256), dtype=torch.uint16
        )
        assert dataset[0].video.dtype == torch.uint16
        with vidload.VideoLoader(dataset, batch_size=1, num_workers=num_workers, epochs=1) as loader:
            batch = next(iter(loader))
        assert (batch.video.dtype, batch.video.shape) == (torch.uint16, (1, 3, 4, 128, 256))
        for frame, number in zip(batch.video[0].permute(1, 2, 3, 0).numpy(), batch.frames[0].tolist(), strict=True):
            assert read_id(frame) == 19760 + number

    def test_samples_of_any_size_are_given_too(self, index: Index) -> None:
        dataset = vidload.ClipDataset(
            index("main10.mp4"), vidload.RandomClips(num_frames=2, stride=1), size=None, dtype="uint16"
        )
        with vidload.VideoLoader(dataset, batch_size=1, num_workers=0, epochs=1) as loader:
            clip = next(iter(loader))
        assert clip.video.dtype == torch.uint16

    def test_a_device_transform_takes_them(self, index: Index) -> None:
        values = []
        for dtype in ("uint8", "uint16"):
            dataset = vidload.ClipDataset(
                index("main10.mp4"), vidload.RandomClips(num_frames=2, stride=1), size=(128, 256), dtype=dtype
            )
            transform = vidload.DeviceTransform(dtype="float32")
            with vidload.VideoLoader(
                dataset, batch_size=1, num_workers=0, epochs=1, seed=3, device_transform=transform
            ) as loader:
                values.append(next(iter(loader)).video)
        assert values[1].dtype == torch.float32
        assert float((values[0] - values[1]).abs().max()) < 3 / 255
        assert len(torch.unique(values[1])) > len(torch.unique(values[0]))

    def test_what_does_not_go_together_is_refused(self, index: Index) -> None:
        videos = index("main10.mp4")
        with pytest.raises(ArgumentError, match=r"dtype='uint16' with decoder='decord'"):
            vidload.ClipDataset(videos, decoder="decord", dtype="uint16")
        with pytest.raises(ArgumentError, match=r"dtype='int16': there are 'uint8', 'uint16'"):
            vidload.ClipDataset(videos, dtype="int16")
        dataset = vidload.ClipDataset(videos, vidload.RandomClips(num_frames=2, stride=1), dtype="uint16")
        with pytest.raises(ArgumentError, match=r"wire='yuv420' with ClipDataset\(dtype='uint16'\)"):
            vidload.VideoLoader(dataset, batch_size=1, num_workers=0, wire="yuv420")

    def test_hdr_is_given_as_it_is_coded(self, tmp_path: Path) -> None:
        """BT.2020 and PQ: the matrix is undone, transfer and primaries stay; there is no tone mapping."""
        from vidload.transforms.planar import MATRICES

        red, blue = MATRICES["bt2020"]
        colour = np.array([0.6, 0.4, 0.2])
        luma = red * colour[0] + (1 - red - blue) * colour[1] + blue * colour[2]
        planes = [
            64 + 876 * luma,
            512 + 896 * (colour[2] - luma) / (2 * (1 - blue)),
            512 + 896 * (colour[0] - luma) / (2 * (1 - red)),
        ]
        with av.open(str(tmp_path / "hdr.mp4"), "w") as container:
            stream = container.add_stream(
                "libx265",
                rate=25,
                options={
                    "x265-params": "log-level=error:lossless=1:colormatrix=bt2020nc:transfer=smpte2084:colorprim=bt2020"
                },
            )
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p10le"
            frame = av.VideoFrame(64, 64, "yuv420p10le")
            for plane, value in zip(frame.planes, planes, strict=True):
                plane.update(np.full(plane.buffer_size // 2, round(value), np.uint16).tobytes())
            for _ in range(3):
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        video = demux_video(tmp_path / "hdr.mp4")
        assert (video.color_space, video.color_trc, video.color_primaries) == (9, 16, 9)
        with open_video(tmp_path / "hdr.mp4", dtype="uint16") as film:
            assert np.abs(film.frames([0])[0, 32, 32] / 65535 - colour).max() < 0.004
        with open_video(tmp_path / "hdr.mp4") as film:
            assert np.abs(film.frames([0])[0, 32, 32] / 255 - colour).max() < 0.012


class TestAlpha:
    def test_alpha_is_left_out_and_colours_stay_as_they_are_coded(self, tmp_path: Path) -> None:
        picture = np.concatenate([make_frame(77), np.full((128, 256, 1), 255, np.uint8)], 2)
        picture[:, 128:, 3] = 10
        with av.open(str(tmp_path / "a.mov"), "w") as container:
            stream = container.add_stream("qtrle", rate=25)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = 256, 128, "argb"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgba").reformat(format="argb")))
            container.mux(stream.encode(None))
        with open_video(tmp_path / "a.mov") as film:
            assert np.array_equal(film.frames([0])[0], picture[..., :3])


class TestStreams:
    def test_cover_pictures_are_not_films(self) -> None:
        video = demux_video(FOLDER / "cover_last.mp4")
        assert video.num_frames == 50
        cover = next(n for n in range(3) if n != video.stream_index and _is_video(FOLDER / "cover_last.mp4", n))
        with open_video(FOLDER / "cover_last.mp4", stream=cover) as film:
            assert (len(film), film.width, film.height) == (1, 64, 64)
            assert read_id(film.frames([0])[0]) == 47820

    def test_the_stream_that_libavformat_ranks_best_is_taken_unless_told_otherwise(self, index: Index) -> None:
        with index("two_videos.mp4") as videos:
            assert (videos[0].num_frames, videos[0].stream_index) == (50, 1)
        with index("two_videos.mp4", stream=0) as videos:
            assert (videos[0].num_frames, videos[0].width) == (30, 128)
            with vidload.decode.film.Film(videos[0]) as film:
                assert [read_id(frame) for frame in film.frames([0, 29])] == [49140, 49169]

    def test_a_stream_that_is_no_video_is_an_error(self) -> None:
        with pytest.raises(
            NoVideoStreamError, match=r"two_videos\.mp4: stream 7 is no video stream; those are \[0, 1\]"
        ):
            demux_video(FOLDER / "two_videos.mp4", stream=7)

    def test_an_index_is_updated_for_the_stream_it_is_asked_for(self, index: Index) -> None:
        index("two_videos.mp4").close()
        with index("two_videos.mp4", update=True, stream=0) as videos:
            assert videos[0].num_frames == 30
        with index("two_videos.mp4", update=True, stream=0) as videos:
            assert videos[0].num_frames == 30


def _is_video(path: Path, number: int) -> bool:
    with av.open(str(path)) as container:
        return number < len(container.streams) and container.streams[number].type == "video"


class TestTimes:
    def test_the_frame_shown_at_a_time_is_the_last_that_has_begun(self) -> None:
        with open_video(FOLDER / "vfr.mp4") as film:
            for number in (0, 1, 19, 20, 24, 25, 49):
                begun = film.pts[number]
                assert read_id(film.at(begun)) == 1520 + number
                end = film.pts[number + 1] if number < 49 else begun + 0.01
                assert read_id(film.at(begun + 0.9 * (end - begun))) == 1520 + number

    def test_times_count_from_the_films_own_zero(self) -> None:
        with open_video(FOLDER / "start_offset.mp4") as film:
            assert film.pts[0] == pytest.approx(1.5)
            assert read_id(film.at(1.5)) == 3800
            with pytest.raises(ArgumentError, match=r"1\.0 s is outside the film, which goes from 1\.5"):
                film.at(1.0)

    def test_of_frames_at_the_same_time_the_last_one_is_shown(self) -> None:
        with open_video(FOLDER / "dup_pts.mkv") as film:
            assert len(film) == 50
            assert [read_id(frame) for frame in film.frames([0, 1])] == [6840, 6841]
            twice = int(np.flatnonzero(np.diff(film.pts) == 0)[0])
            assert read_id(film.at(film.pts[twice])) == 6840 + twice + 1

    def test_an_edit_list_hides_frames(self) -> None:
        with open_video(FOLDER / "trim_editlist.mp4") as film:
            assert len(film) == 42
            assert film.pts[0] == 0
            assert read_id(film.frames([0])[0]) == 8393

    def test_times_that_go_backward_stand_still_instead(self, film_file: FilmFolder, tmp_path: Path) -> None:
        """A muxer refuses such times; here they are set in the index's own way of finding frames."""
        from vidload.index.packets import Packets

        pts = np.array([0, 40, 30, 80], np.int64)
        empty = np.zeros(4, np.int64)
        packets = Packets(pts, pts, empty, empty, np.array([1, 0, 0, 0], np.uint8), empty, empty[:0], True, True)
        packets.set_frames(np.arange(4, dtype=np.int32), 25.0, Fraction(1, 1000), trust=True)
        assert packets.pts.tolist() == [0, 40, 40, 80]

    @pytest.mark.parametrize("decoder", BACKENDS)
    @pytest.mark.parametrize("open_gop", [False, True])
    def test_a_clock_that_begins_anew_goes_on(self, tmp_path: Path, decoder: Any, open_gop: bool) -> None:
        """Transport streams put one behind the other, as downloaders of segments do."""
        part = write_film(tmp_path / "part.ts", 60, first_number=500, open_gop=open_gop)
        (tmp_path / "whole.ts").write_bytes(part.read_bytes() * 3)
        with open_video(tmp_path / "whole.ts", decoder) as film:
            assert len(film) == 180
            assert np.allclose(np.diff(film.pts), 0.04, atol=0.0011)
            numbers = [*range(500, 560)] * 3
            assert [read_number(frame) for frame in film.frames(range(180))] == numbers
            for number in (59, 60, 61, 73, 119, 120, 121, 179):
                assert read_number(film.frames([number])[0]) == numbers[number]
                assert read_number(film.at(film.pts[number])) == numbers[number]


class TestSizes:
    def test_a_size_that_changes_is_an_error_with_pyav(self) -> None:
        with open_video(FOLDER / "res_change.webm", "pyav") as film:
            assert read_id(film.frames([24])[0]) == 18264
            with pytest.raises(DecodeError, match=r"frame 30: the picture is 128×64 here, but 256×128 elsewhere"):
                film.frames([30])


class TestEnds:
    def test_a_clip_beyond_the_end_is_what_was_asked_for(self, index: Index) -> None:
        videos = index("five_frames.mp4")
        repeated = vidload.ClipDataset(videos, vidload.RandomClips(num_frames=16, stride=1, short="repeat_last"))
        assert repeated[0].frames.tolist() == [0, 1, 2, 3, 4, *[4] * 11]
        with pytest.raises(VideoTooShortError, match=r"five_frames\.mp4"):
            vidload.ClipDataset(videos, vidload.RandomClips(num_frames=16, stride=1, short="error"))
        with open_video(FOLDER / "five_frames.mp4") as film, pytest.raises(ArgumentError, match="frame 5 is outside"):
            film.frames([5])


class TestColours:
    @pytest.mark.parametrize(
        "name", ["bt601.mp4", "bt709.mp4", "full_range.mp4", "rgb_h264.mp4", "mjpeg.avi", "hi10.mp4"]
    )
    def test_matrix_and_range_are_undone(self, name: str) -> None:
        with open_video(FOLDER / name) as film:
            frame = film.frames([0])[0]
            assert bar_error(frame) <= 8, (read_bars(frame), BARS)


class TestConcealed:
    def test_damaged_frames_are_errors_unless_allowed(self, index: Index) -> None:
        with open_video(FOLDER / "corrupt_mid.mp4") as film:
            with pytest.raises(DecodeError, match=r"corrupt_mid\.mp4: frame 14: .*\(decoder pyav\)"):
                film.frames([14])
            assert read_id(film.frames([30])[0]) == 56270
        with open_video(FOLDER / "corrupt_mid.mp4", concealed="allow") as film:
            given = 0
            for number in range(12, 24):
                try:
                    given += film.frames([number]).shape == (1, 128, 256, 3)
                except DecodeError as error:
                    assert "doesn't come out" in str(error)  # noqa: PT017
            assert given
            assert read_id(film.frames([30])[0]) == 56270
        with pytest.raises(ArgumentError, match=r"concealed='maybe': there are 'error', 'allow'"):
            open_video(FOLDER / "corrupt_mid.mp4", concealed="maybe")  # type: ignore[arg-type]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_they_are_counted(self, film_file: FilmFolder, tmp_path: Path, num_workers: int) -> None:
        path = Path(shutil.copy(film_file("hevc"), tmp_path))
        with vidload.build_index(path, tmp_path / "i", checksums=True, num_workers=0) as index:
            change(path, index[0], 5)
        clips = vidload.UniformClips(num_frames=20, stride=1, clips_per_video=3)
        dataset = vidload.ClipDataset(tmp_path / "i", clips, concealed="allow", size=64)
        with vidload.VideoLoader(dataset, batch_size=1, num_workers=num_workers, epochs=1, shuffle=False) as loader:
            batches = list(loader)
            stats = loader.stats()
        assert len(batches) == 3
        assert stats["concealed"] == 1
        strict = vidload.ClipDataset(tmp_path / "i", clips, size=64)
        with pytest.raises(DecodeError, match="checksum"):
            strict[0]
        assert strict[1].video.shape == (3, 20, 64, 64)


class TestBounds:
    def test_a_picture_that_only_the_packets_make_large_takes_no_memory(self, film_file: FilmFolder) -> None:
        """The header may lie: the codec refuses, by its own option max_pixels."""
        video: Video = demux_video(film_file("h264_bframes"))
        backends = Backends("pyav", max_pixels=64 * 64)
        small = dataclasses.replace(video, width=64, height=64)
        out = np.empty((1, 64, 64, 3), np.uint8)
        placement = vidload.transforms.geometry.NativeSize().plan(64, 64, lambda: 0.5)
        with pytest.raises(DecodeError, match="decoding packet 0 fails"):
            backends.decode(small, [0], placement, out)
