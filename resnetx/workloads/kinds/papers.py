"""What the kinds have in common that Tallent et al. 2017 measured by their names, AlexNet and GoogLeNet."""

from resnetx.choices import ModelChoice


def with_intensity(figures: dict[str, float], intensities: dict[int, float], batch_size: int) -> dict[str, float]:
    """The figures that the paper states, and the intensity of this batch size where it states one."""
    return figures | ({"intensity": intensities[batch_size]} if batch_size in intensities else {})


def differs_from_paper(model: ModelChoice, image_size: int, what: str) -> list[str]:
    """That another image size than the paper's changes the size of `what`, a part of the model; [] at the paper's."""
    if image_size == model.image_size:
        return []
    return [
        f"image_size={image_size}, not {model.image_size}: the size of {model.label}'s {what} depends on it, so "
        "its parameters and intensity differ from the paper's"
    ]
