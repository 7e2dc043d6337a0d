import numpy as np
import pytest

from resnetx.inputs import image_tree


def test_a_picture_depends_on_its_three_numbers_only() -> None:
    def pixels(seed: int, label: int, index: int) -> bytes:
        return image_tree.picture(seed, label, index, 64, 48, detail=1).tobytes()

    first = pixels(0, 1, 2)
    assert pixels(0, 1, 3) != first
    assert pixels(0, 2, 2) != first
    assert pixels(1, 1, 2) != first
    assert pixels(0, 1, 2) == first


def test_any_size_can_be_drawn() -> None:
    for width, height in ((60, 60), (1300, 70), (70, 1300)):
        assert image_tree.picture(0, 0, 0, width, height, detail=1).size == (width, height)


@pytest.mark.slow
def test_pictures_have_the_spectrum_of_photographs() -> None:
    """Photographs: the amplitude falls as frequency**-1.2, give or take 0.3 (Tolhurst, Tadmor and Chao 1992)."""
    power = np.zeros((256, 256))
    window = np.outer(np.hanning(256), np.hanning(256))
    for label in range(4):
        for index in range(3):
            grey = np.asarray(image_tree.picture(0, label, index, 256, 256, detail=1).convert("L"), dtype=float)
            power += np.abs(np.fft.fft2((grey - grey.mean()) * window)) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(256), np.fft.fftfreq(256)))
    rings = [(frequency > low) & (frequency <= 1.3 * low) for low in 0.02 * 1.3 ** np.arange(9)]
    amplitude = [np.sqrt(power[ring].mean()) for ring in rings]
    slope, _ = np.polyfit(np.log([frequency[ring].mean() for ring in rings]), np.log(amplitude), 1)
    assert -1.6 < slope < -0.8


@pytest.mark.slow
def test_classes_can_be_told_apart_by_their_colours() -> None:
    """Nearest mean of the other pictures of a class, by mean and spread of the three channels."""
    features = np.array(
        [
            [
                np.concatenate([pixels.mean(axis=(0, 1)), pixels.std(axis=(0, 1))])
                for index in range(8)
                for pixels in [np.asarray(image_tree.picture(0, label, index, 128, 96, detail=1), dtype=float)]
            ]
            for label in range(4)
        ]
    )
    right = 0
    for label in range(4):
        for index in range(8):
            centres = [np.delete(features[k], index, axis=0).mean(axis=0) if k == label else features[k].mean(axis=0)
                       for k in range(4)]  # fmt: skip
            right += int(np.argmin([np.linalg.norm(features[label, index] - centre) for centre in centres]) == label)
    assert right / 32 > 0.5  # chance is 0.25
