"""Makes a tree of JPEG files that resembles ImageNet, and checks any tree of JPEG files.

The figures of a training run depend on how many pixels and bytes an image has, not on what it shows. `size=imagenet`
follows ILSVRC2012: 400x350 pixels and 110 KB on average, many 500x375, coded at a quality near 96 without chroma
subsampling, as most of its files are [1]. `size=256` is how the Caffe users of 2017 stored it: squashed to 256x256;
35 KB on average, which is what these pictures take at a quality near 90 (no published figure is known to us).
Each file depends on seed, class and index only, not on the number of processes or on interruptions. Complete files are
kept, so starting again continues an interrupted run.

[1] https://www.terryalanunlimited.com/compression-in-the-imagenet-dataset/
"""

import colorsys
import errno
import io
import multiprocessing
import os
import signal
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from resnetx.config import check_images
from resnetx.errors import ConfigError, unknown_name
from resnetx.host import cores, dying_with, interrupts_held
from resnetx.inputs import folders, jpeg
from resnetx.loading import File
from resnetx.record import whole

# ---- scenes ---------------------------------------------------------------------------------------------------------
# Pictures with the statistics of photographs, each drawn from three numbers: seed, class and index.
#
# A photograph is mostly surfaces that hide one another, lit from one side, seen through a lens and a sensor. So a
# picture here is a sky, ridges that recede into haze, and objects in front of them whose sizes follow r**-3 (a "dead
# leaves" picture); each surface has a colour of its class and a texture whose amplitude falls as 1/frequency; then come
# a shadow, a blurred background, uneven light and grain. Together they give a JPEG coder the work that photographs give
# it: smooth areas beside sharp edges beside fine texture. A class has colours, textures, shapes and crowding of its
# own, so that a network can learn to tell classes apart.
#
# References: Field 1987 (1/f spectrum of natural images); Lee, Mumford and Huang 2001 (dead leaves with r**-3 sizes);
# Baradad et al. 2021 (networks learn useful features from such pictures).

Field = NDArray[np.float32]  # one value per pixel, about zero mean and unit variance

_SIDE = 512  # pixels: textures repeat after this many, so a picture of any size can be cut out of them
_OBJECTS = (6, 25, 80, 160)  # how crowded a class is, on average
_SKIES = ((0.35, 0.55, 0.85), (0.5, 0.65, 0.85), (0.7, 0.7, 0.7), (0.8, 0.65, 0.5))  # linear light
_MOST_OBJECTS = 240  # labels are bytes


@dataclass(frozen=True)
class _Style:
    """What the pictures of one class have in common."""

    palette: Field  # (colours, 3), linear light
    textures: tuple[Field, ...]  # rough, fine, grained
    clouds: Field
    grain: Field
    shape: int  # 0 rock, 1 ellipse, 2 leaf
    ridges: int
    objects: float


@dataclass(frozen=True)
class _Surfaces:
    """The properties of every surface; a label image says which surface a pixel shows."""

    colour: Field  # (surfaces, 3)
    texture: Field  # (surfaces, textures): how strongly each texture shows
    bulge: Field  # (surfaces,): how much the light turns over it
    x: Field  # (surfaces,) centre and size, pixels
    y: Field
    size: Field


def picture(seed: int, label: int, index: int, width: int, height: int, detail: float) -> Image.Image:
    """The picture number `index` of class `label`; `detail` (about 1) scales its texture and grain."""
    style = _style(seed, label)
    rng = np.random.default_rng([seed, label, index, 1])
    sun = rng.uniform(0, 2 * np.pi)
    horizon = rng.uniform(0.15, 0.7) * height

    far_labels, far = _landscape(rng, style, width, height, horizon, detail)
    background = _to_image(_paint(rng, style, far_labels, far, sun))
    background = background.filter(ImageFilter.GaussianBlur(min(4.0, rng.exponential(0.8) * width / 500)))
    near_labels, near = _objects(rng, style, width, height, horizon, detail)
    mask = near_labels.point([0] + [255] * 255)
    light = np.square(np.asarray(background, dtype=np.float32) / 170)  # linear again
    light = light * _shadow(mask, sun)[..., None]
    light = np.where(np.asarray(mask)[..., None] > 0, _paint(rng, style, near_labels, near, sun), light)
    return _photograph(rng, style, light, detail)


@lru_cache(maxsize=2)  # pictures are made class by class
def _style(seed: int, label: int) -> _Style:
    """How the pictures of one class look: palette, textures and shapes, drawn from the seed and the label."""
    rng = np.random.default_rng([seed, label, 0, 0])  # the last number keeps this stream apart from the pictures'
    hue = rng.choice([rng.normal(0.09, 0.03), rng.normal(0.27, 0.06), rng.random()])  # earth, plants, anything
    spread = rng.uniform(0.02, 0.1)
    palette = [
        # now and then the opposite hue: a flower in the grass
        colorsys.hsv_to_rgb(
            (hue + rng.normal(0, spread) + 0.5 * (rng.random() < 0.15)) % 1, rng.beta(2, 3.5), rng.uniform(0.15, 0.9)
        )
        for _ in range(6)
    ]
    stretch = rng.uniform(1.5, 5) ** rng.choice([-1, 1])
    return _Style(
        palette=np.square(np.asarray(palette, dtype=np.float32)),
        textures=(_relief(_noise(rng, 1.9)), _relief(_noise(rng, 1.6)), _noise(rng, rng.uniform(0.9, 1.2), stretch)),
        clouds=_noise(rng, 1.8),
        grain=rng.standard_normal((_SIDE, _SIDE), dtype=np.float32),
        shape=int(rng.integers(3)),
        ridges=int(rng.integers(1, 5)),
        objects=float(rng.choice(_OBJECTS)),
    )


def _noise(rng: np.random.Generator, slope: float, stretch: float = 1.0) -> Field:
    """Random texture whose amplitude falls as frequency**-slope, drawn out along one axis by `stretch`."""
    frequency = np.hypot(np.fft.fftfreq(_SIDE)[:, None] * stretch, np.fft.rfftfreq(_SIDE) / stretch)
    frequency[0, 0] = np.inf
    amplitude = (frequency**-slope).astype(np.float32)
    phase = rng.standard_normal(amplitude.shape, dtype=np.float32)
    wave = amplitude * (phase + 1j * rng.standard_normal(amplitude.shape, dtype=np.float32))
    return _unit(np.fft.irfft2(wave))


def _relief(height: Field) -> Field:
    """How bright a bumpy surface is when light falls on it from one side."""
    return _unit(np.roll(height, -1, axis=1) + 0.6 * np.roll(height, -1, axis=0) - 1.6 * height)


def _unit(field: NDArray[np.floating]) -> Field:
    unit: Field = (field / field.std()).astype(np.float32)
    return unit


def _cut(rng: np.random.Generator, field: Field, height: int, width: int) -> Field:
    """A random piece of a texture, which repeats in both directions."""
    rows = (rng.integers(_SIDE) + np.arange(height)) % _SIDE
    columns = (rng.integers(_SIDE) + np.arange(width)) % _SIDE
    return field.take(rows, axis=0).take(columns, axis=1)


# ---- surfaces -------------------------------------------------------------------------------------------------------


def _landscape(
    rng: np.random.Generator, style: _Style, width: int, height: int, horizon: float, detail: float
) -> tuple[Image.Image, _Surfaces]:
    """The sky (label 0) and ridges, the nearer the lower, the less hazy and the more textured."""
    count = style.ridges
    labels = Image.new("L", (width, height))
    draw = ImageDraw.Draw(labels)
    depth = np.arange(count + 1, dtype=np.float32) / count  # 0 sky, 1 nearest
    for ridge in range(1, count + 1):
        base = horizon + (height - horizon) * ((ridge - 1) / count) ** 1.3
        crest = 0.08 * _cut(rng, style.clouds, 1, width)[0] + 0.01 * _cut(rng, style.textures[2], 1, width)[0]
        top = base + height * (1.2 - depth[ridge]) * crest
        edge = np.column_stack([np.arange(width), top]).ravel().tolist()
        draw.polygon([*edge, width, height, 0, height], fill=ridge)
    haze = np.asarray(_SKIES[rng.integers(len(_SKIES))], dtype=np.float32)
    own = style.palette[: count + 1]
    share = depth[:, None] ** 0.7
    amplitude = rng.gamma(6, 0.06) * detail
    return labels, _Surfaces(
        colour=(own * share + haze * (1 - share)).astype(np.float32),
        texture=np.outer(depth, [1.0, 0.6, 0.4]).astype(np.float32) * np.float32(amplitude),
        bulge=np.where(depth == 0, 0.4, 0).astype(np.float32),
        x=np.full(count + 1, width / 2, dtype=np.float32),
        y=np.full(count + 1, height, dtype=np.float32),
        size=np.full(count + 1, height, dtype=np.float32),
    )


def _objects(
    rng: np.random.Generator, style: _Style, width: int, height: int, horizon: float, detail: float
) -> tuple[Image.Image, _Surfaces]:
    """Objects from label 1 on, the larger behind the smaller on the whole; 0 is where none is."""
    count = min(_MOST_OBJECTS, 1 + int(rng.gamma(3, style.objects / 3)))
    side = min(width, height)
    smallest, largest = 0.02 * side, 0.5 * side
    size = (smallest**-2 - rng.random(count) * (smallest**-2 - largest**-2)) ** -0.5  # density r**-3
    size = size[np.argsort(-size * np.exp(rng.normal(0, 0.5, count)))]
    x = rng.uniform(-0.05, 1.05, count) * width
    y = rng.uniform(0.8 * horizon if style.ridges > 1 else 0, 1.1 * height, count)
    labels = Image.new("L", (width, height))
    draw = ImageDraw.Draw(labels)
    for label in range(count):
        shape = style.shape if rng.random() < 0.8 else int(rng.integers(3))
        draw.polygon(_outline(rng, x[label], y[label], size[label], shape), fill=label + 1)
    tint = np.exp(rng.normal(0, 0.3, (count + 1, 1)) + rng.normal(0, 0.08, (count + 1, 3)))
    amplitude = rng.gamma(6, 0.06) * detail
    return labels, _Surfaces(
        colour=(style.palette[rng.integers(len(style.palette), size=count + 1)] * tint).astype(np.float32),
        texture=(rng.gamma(2, 0.5, (count + 1, 3)) * amplitude).astype(np.float32),
        bulge=np.full(count + 1, 0.7, dtype=np.float32),
        x=np.append(0, x).astype(np.float32),
        y=np.append(0, y).astype(np.float32),
        size=np.append(1, size).astype(np.float32),
    )


def _outline(rng: np.random.Generator, x: float, y: float, size: float, shape: int) -> list[float]:
    """The corners of one object as x0, y0, x1, y1, ..."""
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    if shape == 0:
        waves = np.arange(2, 6)
        radius = 1 + np.cos(np.outer(angle, waves) + rng.uniform(0, 2 * np.pi, 4)) @ rng.normal(0, 0.25 / waves)
    else:
        radius = np.ones_like(angle) if shape == 1 else np.abs(np.sin(angle))
    across = radius * np.sin(angle) * rng.uniform(0.35, 1)  # a leaf ends in two points
    corner = size * ((radius if shape == 0 else 1) * np.cos(angle) + 1j * across)
    corner = corner * np.exp(1j * rng.uniform(0, np.pi)) + complex(x, y)
    return np.column_stack([corner.real, corner.imag]).ravel().tolist()


# ---- light ----------------------------------------------------------------------------------------------------------


def _paint(rng: np.random.Generator, style: _Style, labels: Image.Image, surfaces: _Surfaces, sun: float) -> Field:
    """Linear light (height, width, 3) of the labelled surfaces."""
    label = np.asarray(labels).astype(np.intp)  # converted once, not in every take
    height, width = label.shape
    size = surfaces.size.take(label)
    dx = (np.arange(width, dtype=np.float32) - surfaces.x.take(label)) / size
    dy = (np.arange(height, dtype=np.float32)[:, None] - surfaces.y.take(label)) / size
    shade = float(np.cos(sun)) * dx + float(np.sin(sun)) * dy - 0.5 * (dx * dx + dy * dy)
    shade *= surfaces.bulge.take(label)
    for kind, texture in enumerate(style.textures):
        shade += surfaces.texture[:, kind].take(label) * _cut(rng, texture, height, width)
    return surfaces.colour.take(label, axis=0) * np.exp(shade)[..., None]


def _shadow(mask: Image.Image, sun: float) -> Field:
    """What share of the light objects leave to what lies behind them."""
    width, height = mask.size
    offset = (1, 0, 0.02 * width * float(np.cos(sun)), 0, 1, -0.03 * height)
    soft = mask.transform(mask.size, Image.Transform.AFFINE, offset).filter(ImageFilter.GaussianBlur(0.02 * width))
    return 1 - np.asarray(soft, dtype=np.float32) * np.float32(0.55 / 255)


def _to_image(light: Field) -> Image.Image:
    return Image.fromarray((np.sqrt(light) * 170).clip(0, 255).astype(np.uint8))


def _photograph(rng: np.random.Generator, style: _Style, light: Field, detail: float) -> Image.Image:
    """Uneven light, exposure, a highlight roll-off, a lens that is not quite sharp, and grain."""
    height, width, _ = light.shape
    x, y = np.linspace(-0.5, 0.5, width, dtype=np.float32), np.linspace(-0.5, 0.5, height, dtype=np.float32)
    lamp = np.exp(0.3 * _cut(rng, style.clouds, height, width) - 0.8 * (x * x + (y * y)[:, None]))
    light = light * lamp[..., None]
    light *= rng.uniform(0.35, 0.6) / float(np.quantile(light[::8, ::8], 0.8))
    values = 255 * np.sqrt((1.5 * light / (1 + 0.6 * light)).clip(0, 1))
    sharp = Image.fromarray(values.astype(np.uint8)).filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.6)))
    grain = _cut(rng, style.grain, height, width)[..., None] * float(rng.gamma(4, 0.8) * detail)
    return Image.fromarray((np.asarray(sharp, dtype=np.float32) + grain).clip(0, 255).astype(np.uint8))


# ---- image tree -----------------------------------------------------------------------------------------------------

OnProgress = Callable[[int], None]  # called with the number of images just finished

_MARK = "resnetx-images.txt"  # marks trees made by resnetx, and identifies their pictures
_CHUNK = 16  # images per task, all of one class: a class's textures are made once per task at most
_CHECKED = 64  # files per task
_QUALITIES = (50, 60, 68, 75, 80, 84, 87, 90, 92, 94, 95, 96, 97, 98)


@dataclass(frozen=True)
class Spread:
    mean: float
    p5: float
    p50: float
    p95: float


@dataclass(frozen=True)
class MadeImages:
    """What a tree contains after `make`; widths and heights are in pixels."""

    images: int
    kept: int  # of them, made by an earlier run
    duration_s: float
    width: Spread
    height: Spread
    size_bytes: Spread

    @property
    def images_per_s(self) -> float:
        return (self.images - self.kept) / self.duration_s


@dataclass(frozen=True, slots=True)
class _File:
    width: int
    height: int
    size_bytes: int
    kept: bool


def make(
    root: Path,
    *,
    classes: int,
    per_class: int,
    size: str,
    seed: int,
    workers: int | None = None,
    progress: OnProgress | None = None,
) -> MadeImages:
    """Fills `root` with `classes` x `per_class` images, `root/n00000000/n00000000_00000.JPEG` and so on.

    `workers`: processes, one per core by default. A full disk raises a `ConfigError`; no file is ever partly written.
    """
    workers = cores() if workers is None else workers
    check_images(classes=classes, per_class=per_class, seed=seed, workers=workers)
    if size not in _SHAPES:
        raise unknown_name("size of images", size, _SHAPES, "images.size")
    start = time.perf_counter()
    tasks = (
        (label, range(first, min(first + _CHUNK, per_class)))
        for label in range(classes)
        for first in range(0, per_class, _CHUNK)
    )
    count = min(workers, classes * -(-per_class // _CHUNK))  # this process alone, if there is only one task
    make_some = partial(_make_some, root, size, seed)
    try:
        _claim(root, size, seed)
        files: list[_File] = []
        for some in map(make_some, tasks) if count == 1 else results(make_some, tasks, count):
            files += some
            if progress:
                progress(len(some))
    except CrashError:
        raise ConfigError(
            f"a worker process died (out of memory?); start again with fewer than images.workers={workers}"
        ) from None
    except OSError as error:
        raise _unwritable(root, error) from None
    return MadeImages(
        images=len(files),
        kept=sum(file.kept for file in files),
        duration_s=time.perf_counter() - start,
        width=_spread(file.width for file in files),
        height=_spread(file.height for file in files),
        size_bytes=_spread(file.size_bytes for file in files),
    )


def verify(root: Path, workers: int | None = None, progress: OnProgress | None = None) -> list[str]:
    """A sentence for every file of a tree that cannot be decoded and every class folder without images, sorted.

    Decoding takes place in other processes: at most as many pixels as `jpeg.check` allows are in the memory of each,
    and a file that crashes its decoder is listed like any other.
    """
    faults: list[str] = []
    for checked, new_faults in _verified(_to_verify(root, faults), workers or cores()):
        faults += new_faults
        if progress:
            progress(checked)
    return sorted(faults)


def _to_verify(root: Path, faults: list[str]) -> Iterator[list[Path]]:
    """The files of a tree in batches; problems with folders are added to `faults`."""
    for name in folders.class_folders(root):
        try:
            paths = [root / name / image for image in folders.image_names(root / name)]
        except ConfigError as error:
            faults.append(str(error))
            continue
        if not paths:
            faults.append(f"{root / name}: the class folder contains no JPEG file")
        yield from (paths[first : first + _CHECKED] for first in range(0, len(paths), _CHECKED))


Verified = tuple[int, list[str]]  # the number of files checked, and the faults found


def _verified(tasks: Iterator[list[Path]], workers: int, waiting: int = 1) -> Iterator[Verified]:
    """The result of each task; files that a process was working on when it died are checked one by one.

    Each of these has a process of its own (`waiting` is 0): if that dies, the file is the cause.
    """
    while True:
        try:
            yield from results(_verify_some, tasks, workers, waiting)
            return
        except CrashError as crash:
            if waiting:
                yield from _verified(([path] for path in chain.from_iterable(crash.tasks)), workers=1, waiting=0)
            else:
                ((path,),) = crash.tasks
                yield 1, [f"{path}: decoding it ends the process (it crashes the decoder, or there is no memory left)"]


def _verify_some(paths: list[Path]) -> Verified:
    return len(paths), [fault for path in paths if (fault := jpeg.of(path))]


def _spread(values: Iterable[int]) -> Spread:
    array = np.fromiter(values, dtype=np.float64)
    p5, p50, p95 = (float(value) for value in np.percentile(array, (5, 50, 95)))
    return Spread(float(array.mean()), p5, p50, p95)


# ---- one image ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shape:
    """How large one image is to be, in pixels and bytes."""

    width: int
    height: int
    size_bytes: float


def _imagenet(rng: np.random.Generator) -> _Shape:
    """Half of the images have one of the shapes that photo sites scaled to, the others any; 400x350 on average."""
    common = {(500, 375): 0.26, (375, 500): 0.07, (500, 333): 0.09, (333, 500): 0.03, (500, 500): 0.02}
    pick = int(np.searchsorted(np.cumsum(list(common.values())), rng.random()))
    side = 286 * np.exp(rng.normal(0, 0.45))
    aspect = np.exp(rng.normal(0.1, 0.3))
    free = int(np.clip(side * aspect**0.5, 60, 2000)), int(np.clip(side / aspect**0.5, 60, 2000))
    width, height = [*common, free][pick]
    return _Shape(width, height, width * height / 8 * _bits_per_pixel(rng, mean=6.0))


def _squashed(rng: np.random.Generator) -> _Shape:
    return _Shape(256, 256, 256 * 256 / 8 * _bits_per_pixel(rng, mean=3.9))


def _bits_per_pixel(rng: np.random.Generator, mean: float) -> float:
    spread = 0.35  # of its logarithm
    return float(mean * np.exp(rng.normal(-spread * spread / 2, spread)))


_SHAPES = {"imagenet": _imagenet, "256": _squashed}

_Task = tuple[int, range]  # a class, and which of its images


def _make_some(root: Path, size: str, seed: int, task: _Task) -> list[_File]:
    label, indices = task
    folder = root / f"n{label:08d}"
    folder.mkdir(exist_ok=True)
    return [_make_one(folder / f"n{label:08d}_{index:05d}.JPEG", size, seed, label, index) for index in indices]


def _make_one(path: Path, size: str, seed: int, label: int, index: int) -> _File:
    if kept := _pixels(path):
        return _File(*kept, path.stat().st_size, kept=True)
    shape = _SHAPES[size](np.random.default_rng([seed, label, index, 2]))
    data = _jpeg(_picture(seed, label, index, shape), shape.size_bytes)
    _write(path, data)
    return _File(shape.width, shape.height, len(data), kept=False)


def _pixels(path: Path) -> tuple[int, int] | None:
    """Width and height of an image made earlier; None where there is none, or something that is no image."""
    try:
        image_header = jpeg.of_file(path)
        jpeg.check(image_header)
    except (OSError, jpeg.DamageError):
        return None
    return image_header.width, image_header.height


def _picture(seed: int, label: int, index: int, shape: _Shape) -> Image.Image:
    bits_per_pixel = 8 * shape.size_bytes / (shape.width * shape.height)
    # More bytes are mostly a busier picture, less a higher quality: photo sites use one quality for all.
    return picture(seed, label, index, shape.width, shape.height, detail=(bits_per_pixel / 3.8) ** 0.8)


def _jpeg(image: Image.Image, size_bytes: float) -> bytes:
    """The image at the lowest quality that reaches the wanted number of bytes."""
    index = bisect_left(
        _QUALITIES, size_bytes, hi=len(_QUALITIES) - 1, key=lambda quality: len(_encode(image, quality))
    )
    return _encode(image, _QUALITIES[index])


def _encode(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, subsampling="4:4:4")
    return buffer.getvalue()


# ---- files and processes --------------------------------------------------------------------------------------------


def _claim(root: Path, size: str, seed: int) -> None:
    """Refuses a folder with other people's files, or with other pictures of ours."""
    wanted = f"images.size={size} images.seed={seed}"
    mark = root / _MARK
    root.mkdir(parents=True, exist_ok=True)
    if mark.exists():
        recipe = File(mark, "a mark of `resnetx images`", 2**12).text().strip()
        if recipe != wanted:
            raise ConfigError(f"{root} holds images of {recipe}, {wanted} were requested: use those, or another folder")
    elif any(not path.name.startswith(".") for path in root.iterdir()):
        raise ConfigError(f"{root} has files that `resnetx images` did not make: give it an empty or a new folder")
    else:
        _write(mark, f"{wanted}\n".encode())


def _write(path: Path, data: bytes) -> None:
    with whole(path, f".{path.name}.part") as part:
        part.write_bytes(data)


def _unwritable(root: Path, error: OSError) -> ConfigError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ConfigError(
            f"{root}: the disk is full ({error.strerror}); free some space and start again (what is complete is kept), "
            "choose another folder, or make fewer images (images.classes, images.per_class)"
        )
    return ConfigError(f"{error.filename or root}: cannot be written ({error.strerror}); choose another folder")


# Work in other processes, some tasks at a time. When a process dies, it is known what it may have been working on.

Task = TypeVar("Task")
Result = TypeVar("Result")


class CrashError(Exception):
    """A process died: killed, or crashed in native code. One of `tasks` did it, or none; all of them are undone."""

    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks


def results(work: Callable[[Task], Result], tasks: Iterable[Task], workers: int, waiting: int = 1) -> Iterator[Result]:
    """The result of every task, as they come, from `workers` processes, or a `CrashError`.

    Tasks are taken as they are needed, so that there may be millions: each process has one, and `waiting` more wait.
    """
    context = multiprocessing.get_context("spawn")  # a progress display runs a thread, which a fork would break
    at_once = workers * (1 + waiting)
    submitted: dict[Future[Result], Task] = {}
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(os.getpid(),)) as pool:
        try:
            for task in tasks:
                try:
                    with _caller_hidden(), interrupts_held():  # submitting starts processes
                        submitted[pool.submit(work, task)] = task
                except BrokenProcessPool:
                    raise CrashError([*submitted.values(), task]) from None
                if len(submitted) == at_once:
                    yield from _first(submitted)
            while submitted:
                yield from _first(submitted)
        except BrokenProcessPool:
            raise CrashError(list(submitted.values())) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _caller_hidden() -> Iterator[None]:
    """While the block lasts, processes that start do not import the program that calls us: they would run it again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _first(submitted: dict[Future[Result], Task]) -> Iterator[Result]:
    """The results that are there first."""
    for future in wait(submitted, return_when=FIRST_COMPLETED).done:
        result = future.result()
        del submitted[future]
        yield result


def _start_worker(parent: int) -> None:
    """Leaves Ctrl-C to the parent, and ends with it even when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    dying_with(parent)()
