"""Fits rooflines to published one-GPU rates, and says how far off they are on rates that were left out.

    python -m resnetx.prediction.fitting        writes results/published/roofline.yaml, and prints each rate's error

Three figures are fitted (see `roofline`) by least squares of the logarithm of predicted over measured step times,
within bounds that physics sets. There is one fit to all GPUs, and one to each generation with enough rates of enough
networks. A rate is predicted whole: all layers, forward and backward, and the update; no input, no host.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from resnetx.prediction.published import Rate, rates
from resnetx.prediction.roofline import (
    ALL,
    FILE,
    MEMORY_EFFICIENCY,
    UPDATE_PASSES,
    Floats,
    LayerWork,
    Parameters,
    Roofline,
    Roofs,
    passes_s,
    roofs,
    work,
)
from resnetx.workloads.counts import BYTES_PER_PARAMETER

# Of a generation that gets a fit of its own: enough to determine three figures.
FEWEST_NETWORKS, FEWEST_RATES = 3, 6

# (first guess, least, most); a share of the peak is at most 1, and Winograd's algorithm saves at most a factor of 4
# with the tiles that libraries use (F(4x4, 3x3) of Lavin & Gray 2016).
_MATMUL_EFFICIENCY = (0.5, 0.02, 1.0)
_SQUARE_SPEEDUP = (2.0, 1.0, 4.0)
_PASS_S = (60e-6, 1e-6, 1e-3)
_DIGITS = 5  # significant ones that the file keeps


@dataclass(frozen=True)
class RateToFit:
    """A published rate, and what its prediction needs."""

    rate: Rate
    work: LayerWork
    roofs: Roofs

    @property
    def generation(self) -> str:
        return self.rate.entry.generation

    def predicted_s(self, parameters: Parameters) -> float:
        """Seconds of a step: all passes, and the update."""
        update_bytes = UPDATE_PASSES * BYTES_PER_PARAMETER * self.work.parameters[0].sum()
        update_s = parameters.pass_s + update_bytes / (MEMORY_EFFICIENCY * self.roofs.memory_Bps)
        return float(passes_s(parameters, self.work, self.rate.batch_size, self.roofs).sum() + update_s)

    def error(self, parameters: Parameters) -> float:
        """Predicted over measured step time, less one."""
        return self.predicted_s(parameters) / self.rate.step_s - 1


def rows() -> list[RateToFit]:
    """All published rates of one GPU."""
    found = []
    for rate in rates():
        entry = rate.entry
        of_torchvision = work(entry.table(entry.image_size), entry.image_size)
        trained = replace(of_torchvision, flop=of_torchvision.flop * entry.flop_ratio)
        found.append(RateToFit(rate, trained, roofs(entry.part, entry.precision, entry.clock_Hz)))
    return found


def fit(chosen: Sequence[RateToFit]) -> Parameters:
    """The figures with the least squared logarithm of predicted over measured."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    first, least, most = np.log(np.array([_MATMUL_EFFICIENCY, _SQUARE_SPEEDUP, _PASS_S])).T

    def residuals(logarithms: Floats) -> list[float]:
        parameters = Parameters(*np.exp(logarithms).tolist())
        return [float(np.log1p(row.error(parameters))) for row in chosen]

    return Parameters(*np.exp(least_squares(residuals, first, bounds=(least, most)).x).tolist())


def held_out_errors(chosen: Sequence[RateToFit], group: Callable[[RateToFit], object]) -> list[float]:
    """Each row's error by a fit to the rows of all other groups."""
    errors = []
    for key in dict.fromkeys(map(group, chosen)):
        others = fit([row for row in chosen if group(row) != key])
        errors += [row.error(others) for row in chosen if group(row) == key]
    return errors


def roofline(generation: str, chosen: Sequence[RateToFit]) -> Roofline:
    """The fit to these rows, with its errors."""
    parameters = fit(chosen)
    left_out = np.abs(held_out_errors(chosen, id))
    networks = np.abs(held_out_errors(chosen, lambda row: row.rate.entry.network))
    several = len({row.generation for row in chosen}) > 1
    generations = np.abs(held_out_errors(chosen, lambda row: row.generation)) if several else None
    return Roofline(
        generation=generation,
        matmul_efficiency=_rounded(parameters.matmul_efficiency),
        square_speedup=_rounded(parameters.square_speedup),
        pass_s=_rounded(parameters.pass_s),
        rows=len(chosen),
        fit_error=_rounded(np.mean([abs(row.error(parameters)) for row in chosen])),
        error=_rounded(left_out.mean()),
        worst_error=_rounded(left_out.max()),
        unseen_network_error=_rounded(networks.mean()),
        unseen_gpu_error=None if generations is None else _rounded(generations.mean()),
    )


def rooflines(all_rows: Sequence[RateToFit]) -> list[Roofline]:
    """The fit to all GPUs, but for rows that say why they are outside, and those to single generations."""
    inside = [row for row in all_rows if row.rate.entry.outside is None]
    found = [roofline(ALL, inside)]
    for generation in sorted({row.generation for row in all_rows}):
        own = [row for row in all_rows if row.generation == generation and _fits_its_own(row)]
        networks = {row.rate.entry.network for row in own}
        if len(own) >= FEWEST_RATES and len(networks) >= FEWEST_NETWORKS:
            found.append(roofline(generation, own))
    return found


def _fits_its_own(row: RateToFit) -> bool:
    return row.rate.entry.outside is None or row.rate.entry.own_fit


def _rounded(value: float | np.floating) -> float:
    return float(f"{value:.{_DIGITS}g}")


# ---- the command


def _text(fits: Iterable[Roofline]) -> str:
    import yaml

    head = "# Fitted to training.yaml by `python -m resnetx.prediction.fitting`, which writes this file: do not edit.\n"
    return head + yaml.safe_dump({"fits": msgspec.to_builtins(list(fits))}, sort_keys=False)


def main() -> None:
    all_rows = rows()
    found = rooflines(all_rows)
    FILE.write_text(_text(found))
    by_generation = {each.generation: each for each in found}
    for row in all_rows:
        errors = [
            f"{name} {row.error(by_generation[name].parameters):+.0%}"
            for name in (ALL, row.generation)
            if name in by_generation
        ]
        print(f"{row.rate.what}: {row.rate.images_per_s:g} images/s; error by the fits: {', '.join(errors)}")
    for each in found:
        print(each.source)


if __name__ == "__main__":
    main()
