"""What GPUs send each other in a step, by the way in which gradients are exchanged: a matrix, and bytes on links.

    sizes = [gradient.size_bytes for gradient in subject.gradients]
    matrix = through_owners(sizes, round_robin(sizes, 8), 8)     # [i][j]: bytes that GPU j sends to GPU i
    bytes_by_link(load("dgx1-v100"), range(8), matrix)           # (from, to) -> bytes, along the paths of copies

The matrix has the destination first, as that of Anderson et al. 2018 (section 2.2). TensorFlow's benchmarks
(tf_cnn_benchmarks, 2017) exchange in two ways of one form, in which each variable has an owner: every other GPU sends
the variable's gradient there, and gets the sum, or the updated variable, back from there.

    variable_update=replicated         owners take turns, variable by variable (`round_robin`;
                                       variable_mgr_util.aggregate_gradients_using_copy_with_device_selection)
    variable_update=parameter_server   with variables on GPUs, each belongs to the GPU that has least so far
                                       (`least_loaded`; variable_mgr_util.ParamServerDeviceSetter)

A server on one GPU (`strategy=server strategy.device=gpu`) owns all of them; with variables in the host's memory GPUs
send each other nothing. `of_all_reduces` is what collectives send along rings and trees.

These are bytes, not times: `train` has no strategy of this form, and predictions take nothing from here. `steering`
takes them as what links are to be arranged for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.collectives.rings import directions
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.link_search import LinkFlow
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import System

Matrix = tuple[tuple[float, ...], ...]  # [i][j]: bytes that GPU j sends to GPU i
Links = dict[tuple[str, str], float]  # (from, to) -> bytes in this direction


def round_robin(sizes_bytes: Sequence[float], gpus: int) -> tuple[int, ...]:
    """The owner of each variable: one GPU after the other."""
    return tuple(index % gpus for index in range(len(sizes_bytes)))


def least_loaded(sizes_bytes: Sequence[float], gpus: int) -> tuple[int, ...]:
    """The owner of each variable, in the order in which they are made: the GPU with the fewest bytes until then."""
    loads = [0.0] * gpus
    owners = []
    for size_bytes in sizes_bytes:
        owners.append(loads.index(min(loads)))
        loads[owners[-1]] += size_bytes
    return tuple(owners)


def to_owners(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> Matrix:
    """The gradient of each variable, from every other GPU to its owner."""
    owned = _owned(sizes_bytes, owners, gpus)
    return tuple(tuple(owned[to] if to != sender else 0.0 for sender in range(gpus)) for to in range(gpus))


def from_owners(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> Matrix:
    """What comes back of each variable, from its owner to every other GPU."""
    return tuple(zip(*to_owners(sizes_bytes, owners, gpus), strict=True))


def through_owners(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> Matrix:
    """Each variable goes from every other GPU to its owner, and back from there to every other."""
    return added_up([way(sizes_bytes, owners, gpus) for way in (to_owners, from_owners)])


def _owned(sizes_bytes: Sequence[float], owners: Sequence[int], gpus: int) -> list[float]:
    """The bytes of each GPU's own variables."""
    owned = [0.0] * gpus
    for size_bytes, owner in zip(sizes_bytes, owners, strict=True):
        owned[owner] += size_bytes
    return owned


def around_rings(
    rings: Sequence[tuple[Sequence[int], float]], size_bytes: float, gpus: int, factor: float | None = None
) -> Matrix:
    """Collectives of so many bytes: each ring carries its share, and each step is a neighbour's.

    `rings`: (order of GPUs, bandwidth) of each; shares are those of the bandwidths. `factor`: what each GPU sends, over
    the size; unless given, that of an all-reduce on as many GPUs as a ring has.
    """
    sent = [[0.0] * gpus for _ in range(gpus)]
    whole = sum(bandwidth for _, bandwidth in rings)
    for order, bandwidth in rings:
        of_size = 2 * (len(order) - 1) / len(order) if factor is None else factor
        for sender, to in directions(tuple(order)):
            sent[to][sender] += of_size * size_bytes * bandwidth / whole
    return tuple(map(tuple, sent))


def along_chains(chains: Sequence[tuple[Sequence[int], float]], size_bytes: float, gpus: int) -> Matrix:
    """All-reduces by trees, which are chains inside a node: each carries its share up to its root, and down again."""
    sent = [[0.0] * gpus for _ in range(gpus)]
    whole = sum(bandwidth for _, bandwidth in chains)
    for order, bandwidth in chains:
        for a, b in pairwise(order):
            sent[a][b] += size_bytes * bandwidth / whole
            sent[b][a] += size_bytes * bandwidth / whole
    return tuple(map(tuple, sent))


def of_all_reduces(plan: CollectivePlan, sizes_bytes: Sequence[float]) -> Matrix:
    """What all-reduces of these sizes send, by the rings or trees that the library takes for each size.

    Rows and columns are all GPUs of the plan's system.
    """
    gpus = len(plan.system.gpus)
    found = []
    for size_bytes, count in Counter(sizes_bytes).items():
        taken = plan.fastest(size_bytes).name
        if taken == "ring":
            found.append(
                around_rings([(ring.order, ring.bandwidth_Bps) for ring in plan.rings], count * size_bytes, gpus)
            )
        elif taken == "tree":
            chains = [(chain.order, chain.bandwidth_Bps) for chain in plan.chains]
            found.append(along_chains(chains, count * size_bytes, gpus))
        else:
            raise ConfigError(
                f"library={plan.library}: all-reduces on {plan.system.name} are summed up in switches ({taken}), and "
                "no GPU sends another anything; expected a system whose GPUs are linked"
            )
    return added_up(found)


def added_up(matrices: Sequence[Matrix]) -> Matrix:
    """The traffic of several phases together."""
    return tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*matrices, strict=True))


def on_devices(matrix: Matrix, devices: Sequence[int], gpus: int) -> Matrix:
    """The traffic of ranks, as that of the GPUs that they run on."""
    place = {device: rank for rank, device in enumerate(devices)}
    return tuple(
        tuple(matrix[place[to]][place[by]] if to in place and by in place else 0.0 for by in range(gpus))
        for to in range(gpus)
    )


def over_links(matrix: Matrix, joined: Sequence[Sequence[bool]]) -> Matrix:
    """What goes over links between GPUs; the rest is staged in the host, where nothing can be steered."""
    return tuple(
        tuple(sent if link else 0.0 for sent, link in zip(row, links, strict=True))
        for row, links in zip(matrix, joined, strict=True)
    )


def bytes_by_link(system: System, devices: Sequence[int], matrix: Matrix, transport: Transport = "auto") -> Links:
    """What each direction of a described link carries; `devices`: the GPU ids of the matrix's rows and columns."""
    return carried(
        (paths.flow(system, sender, to, transport), size_bytes)
        for to, row in zip(devices, matrix, strict=True)
        for sender, size_bytes in zip(devices, row, strict=True)
        if size_bytes
    )


def carried(loads: Iterable[tuple[LinkFlow, float]]) -> Links:
    """The bytes of flows, added up over the links that they take."""
    links: Links = {}
    for flow, size_bytes in loads:
        for before, after, _ in flow.steps:
            links[before, after] = links.get((before, after), 0.0) + size_bytes
    return links
