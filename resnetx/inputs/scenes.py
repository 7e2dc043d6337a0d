"""Pictures with the statistics of photographs, each drawn from three numbers: seed, class and index.

A photograph is mostly surfaces that hide one another, lit from one side, seen through a lens and a sensor. So a picture
here is a sky, ridges that recede into haze, and objects in front of them whose sizes follow r**-3 (a "dead leaves"
picture); each surface has a colour of its class and a texture whose amplitude falls as 1/frequency; then come a shadow,
a blurred background, uneven light and grain. Together they give a JPEG coder the work that photographs give it: smooth
areas beside sharp edges beside fine texture. A class has colours, textures, shapes and crowding of its own, so that a
network can learn to tell classes apart.

References: Field 1987 (1/f spectrum of natural images); Lee, Mumford and Huang 2001 (dead leaves with r**-3 sizes);
Baradad et al. 2021 (networks learn useful features from such pictures).
"""

import colorsys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

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
    light = _to_light(background) * _shadow(mask, sun)[..., None]
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


def _to_light(image: Image.Image) -> Field:
    return np.square(np.asarray(image, dtype=np.float32) / 170)


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
