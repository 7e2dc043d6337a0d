"""Equal nodes: found by arithmetic, and the same as if each of them were listed."""

import pytest
from msgspec.structs import replace

from resnetx.interconnect.collectives import internode
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.system import Component, Link, System


def as_listed_by_hand(
    name: str, nodes: int, network: str, nics: int
) -> tuple[list[Component], list[Link], list[tuple[str, str, str]]]:
    """All components and links of equal nodes, copied one by one from the system of one node."""
    one = system.load(name, nodes=1)
    across = [component.x for component in one.components]
    width = 2 + max(across) - min(across)
    gpus: list[Component] = []
    others: list[Component] = []
    links: list[Link] = []
    ports: list[tuple[str, str, str]] = []
    for node in range(nodes):
        for each in one.components:
            copy = replace(each, name=f"node{node}.{each.name}", x=each.x + node * width, node=node)
            (gpus if each.kind == "gpu" else others).append(copy)
        links += [replace(link, a=f"node{node}.{link.a}", b=f"node{node}.{link.b}") for link in one.links]
        cards = [each.name for each in one.components if each.kind == "nic"][:nics]
        ports += [(f"node{node}.{card}", "fabric", network) for card in cards]
    return [*gpus, *others], links, ports


def listed(made: System) -> System:
    """The same with all components and links one by one."""
    return replace(made, components=tuple(made.all_components), links=tuple(made.all_links), port=None)


@pytest.mark.parametrize(
    ("name", "nodes", "network", "nics"),
    [("dgx1-v100", 2, "edr100", 4), ("dgx-h100", 3, "ndr400", 5), ("summit", 3, "edr100", 1)],
)
def test_equal_nodes_are_found_by_arithmetic_as_if_they_were_listed(name, nodes, network, nics):
    made = system.load(name, nodes=nodes, network=network, nics=nics)
    components, links, ports = as_listed_by_hand(name, nodes, network, nics)
    *found, fabric = made.all_components
    assert found == components
    assert (fabric.name, fabric.node) == ("fabric", -1)
    links_made = made.all_links
    assert list(links_made[: len(links)]) == links
    assert [(link.a, link.b, link.part_name) for link in links_made[len(links) :]] == ports
    assert list(made.gpus) == [each for each in components if each.kind == "gpu"]
    assert made.gpus[-1] == made.gpus[len(made.gpus) - 1]
    near = listed(made).neighbours
    for component in made.all_components:
        assert made.component(component.name) == component
        assert made.neighbours[component.name] == near[component.name]
    for device, gpu in enumerate(made.gpus):
        assert (made.node_of(device), made.gpu_part(device)) == (gpu.node, gpu.part)
    assert {count for _, count in made.counted_links()} == {nodes}
    with pytest.raises(KeyError):
        made.component(f"node{nodes}.gpu0")
    with pytest.raises(IndexError):
        made.gpus[len(made.gpus)]


def test_paths_and_rings_of_equal_nodes_are_those_of_listed_ones():
    made = system.load("dgx1-v100", nodes=3, network="edr100", nics=4)
    same = listed(made)
    for target in range(1, len(made.gpus)):
        assert paths.copy_path(made, 0, target) == paths.copy_path(same, 0, target)
    for devices in (range(8), range(24), (0, 8, 9, 16)):
        one, other = (plan(each, devices=devices, library="nccl2.4") for each in (made, same))
        assert (one.rings, one.algorithms, one.notes) == (other.rings, other.algorithms, other.notes)
    assert internode.from_host(made, range(24)) == internode.from_host(same, range(24))


@pytest.mark.slow
def test_a_hundred_thousand_gpus_are_never_listed(monkeypatch):
    """Of equal nodes, only the few that are looked at are made."""
    placed: list[int] = []
    place = System.placed

    def counted(made: System, component: Component, node: int) -> Component:
        placed.append(node)
        return place(made, component, node)

    monkeypatch.setattr(System, "placed", counted)
    made = system.load("dgx-h100", nodes=2**14, network="ndr400")
    assert plan(made, devices=range(2**17)).cost(2**30).time_s > 0
    assert set(placed) == {0, 1}


def test_reduction_in_switches_takes_between_nodes_what_it_takes_inside_one_and_the_network_beside():
    """It had the library's own fixed time there, and its full rate at once: 40 % too short from 8 to 64 MiB."""
    nodes = [plan(system.load("dgx-h100", nodes=1)), plan(system.load("dgx-h100", nodes=2, network="ndr400", nics=8))]
    inside, between = (next(each for each in made.algorithms if each.name == "nvls") for made in nodes)
    sizes = [2**power for power in range(10, 35)]
    times_s = [between.time_s(size) for size in sizes]
    assert times_s == sorted(times_s)
    assert all(time_s > inside.time_s(size) for size, time_s in zip(sizes, times_s, strict=True))
