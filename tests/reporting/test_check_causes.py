"""Why a node may be slow: each cause from its evidence, in made records; and what slow pairs have in common."""

import msgspec
import pytest

from resnetx.fleet.outliers import NodeFacts, blamed, causes, checked, facts_of, outliers, usual
from resnetx.record import GpuSamples, MemoryHealth, Warning
from tests.reporting.checked_fleet import H100, all_reduce, gpu, machine, training

GOOD = [NodeFacts(node, machine(node), clock_Hz=1.98e9) for node in "abc"]


def told(odd: NodeFacts, wanted: int | None = None) -> list[tuple[str, str]]:
    return [(cause.kind, cause.evidence) for cause in causes(odd, [*GOOD, odd], wanted)]


def test_a_node_in_good_order_has_none():
    assert told(NodeFacts("d", machine("d"), clock_Hz=1.97e9), 2) == []


HEALTH = H100.memory_health


@pytest.mark.parametrize(
    ("changed", "kind", "evidence"),
    [
        ({"pcie_width": 8}, "link width", "GPU 1: 8 of 16 lanes of PCIe are up"),
        ({"pcie_generation": 1}, "link width", "GPU 1: PCIe generation 1, while most GPUs had 5"),
        ({"pcie_generation_max": 3}, "link width", "GPU 1: PCIe generation 3 at most, of most GPUs 5"),
        ({"nvlinks_active": 12}, "NVLink", "GPU 1: 12 NVLinks are up, of most GPUs 18"),
        (
            {"memory_health": msgspec.structs.replace(HEALTH, ecc_uncorrected=2, remapped_rows=1)},
            "memory errors",
            "GPU 1: 2 memory errors that ECC could not correct, 1 remapped rows",
        ),
        (
            {"memory_health": msgspec.structs.replace(HEALTH, remapping_pending=True, remapping_failed=True)},
            "memory errors",
            "GPU 1: a row that waits for a reset to be remapped, no spare row left, so that it is to be replaced",
        ),
    ],
)
def test_what_a_gpu_shows_is_evidence(changed, kind, evidence):
    assert told(NodeFacts("d", machine("d", gpus=[gpu(0), gpu(1, **changed)]))) == [(kind, evidence)]


def test_what_is_not_known_is_none():
    nothing = MemoryHealth(**dict.fromkeys(MemoryHealth.__struct_fields__))
    blank = gpu(1, pcie_width=None, pcie_generation=None, pcie_generation_max=None, nvlinks_active=None)
    blank = msgspec.structs.replace(blank, memory_health=nothing)
    assert told(NodeFacts("d", machine("d", gpus=[gpu(0), blank]))) == []
    assert told(NodeFacts("d", None)) == []


def test_a_missing_gpu_is_one_that_others_have_or_the_description_does():
    short = NodeFacts("d", machine("d", gpus=[gpu(0)]))
    assert told(short) == [("missing GPUs", "its driver shows 1 GPUs, most nodes have 2")]
    assert causes(short, [short], 2)[0].evidence.endswith("the description and the site file name 2")
    assert causes(short, [short]) == []
    found, _ = outliers(checked([all_reduce("d", 1.0, environment=short.machine)], None, "no"), [short], 2)
    assert [(each.name, each.causes[0].kind) for each in found] == [("d", "missing GPUs")], "though it runs well"


def test_clocks_and_governors_are_compared_with_the_fleet():
    slow = NodeFacts("d", machine("d", cpu_governor="powersave"), clock_Hz=1.2e9)
    assert told(slow) == [
        ("clock", "its slowest GPU ran at 1200 MHz, the fleet's median is 1980 MHz"),
        ("clock", "its CPU governor is powersave, of most nodes performance"),
    ]


def test_other_software_is_named():
    assert told(NodeFacts("d", machine("d", driver="535"))) == [("software", "its driver is 535, of most nodes 570")]


@pytest.mark.parametrize(
    ("code", "kind"),
    [("throttled", "clock"), ("link-errors", "link errors"), ("foreign-load", "foreign load"), ("warm-up", None)],
)
def test_warnings_of_runs_are_evidence(code, kind):
    warned = training("d", 1.0, warnings=(Warning(code=code, message="so it was", remedy="none"),))
    facts = msgspec.structs.replace(warned.record, environment=machine("d"))
    assert told(facts_of("d", [facts, facts])) == ([(kind, "so it was")] if kind else [])


def test_the_clock_of_a_node_is_that_of_its_slowest_gpu():
    def samples(rank, *clocks_Hz):
        nothing = dict.fromkeys(("power_W", "temperature_C", "busy", "throttle_reasons", "energy_J"))
        return GpuSamples(rank=rank, time_s=[0.1] * len(clocks_Hz), sm_clock_Hz=list(clocks_Hz), **nothing)

    run = training("d", 1.0, gpu_samples=[samples(0, 2e9, 2e9), samples(1, 1e9, 1.5e9, 2e9), None]).record
    assert facts_of("d", [run]).clock_Hz == 1.5e9


def test_what_is_usual_is_what_most_have():
    assert usual([4, 4, 5]) == 4
    assert usual([4, 5, 6]) is None
    assert usual([4, 4]) is None


def test_what_is_odd_about_a_fast_node_is_a_remark():
    tried = [
        all_reduce(node, 1.0, environment=machine(node, gpus=[gpu(0), gpu(1, pcie_width=16 if node != "c" else 4)]))
        for node in "abc"
    ]
    found, remarks = outliers(checked(tried, None, "no"), [facts_of(t.nodes[0], [t.record]) for t in tried])
    assert found == []
    assert [(each.node, each.cause.kind) for each in remarks] == [("c", "link width")]


# ---- pairs ----------------------------------------------------------------------------------------------------------

TWO_LEAVES = {"a": "top.left", "b": "top.left", "c": "top.right", "d": "top.right"}
ALL = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]


def blame(slow, tried=ALL, switches=TWO_LEAVES):
    return [
        each.switch or each.node or each.pairs[0]
        for each in blamed(tried, [pair for pair in tried if "".join(pair) in slow.split()], switches)
    ]


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ("", []),
        ("ab ac ad", ["a"]),
        ("ac ad bc bd", ["top"]),
        ("ac ad bc bd cd", ["top.right"]),
        ("bc", [("b", "c")]),
        ("ab ac ad bc", ["a", ("b", "c")]),
        ("ab ac ad bc bd", ["top.left"]),
        ("ab ac ad bc bd cd", ["a", "b", "c"]),
    ],
)
def test_slow_pairs_have_a_node_or_a_switch_in_common(slow, expected):
    assert blame(slow) == expected


def test_one_pair_of_each_node_does_not_tell_which_it_is():
    assert blame("ac", [("a", "c"), ("b", "d")]) == [("a", "c")]


def test_without_switches_nodes_are_blamed():
    assert blame("ac bc cd", switches=dict.fromkeys("abcd")) == ["c"]
    assert blame("ab ac ad bc bd", switches=dict.fromkeys("abcd")) == ["a", "b"]


def test_a_blamed_node_has_its_partners_as_evidence():
    pairs = {"a b": 1.0, "c d": 2.0, "a c": 2.0, "b d": 1.0, "a d": 1.0, "b c": 2.0}
    nodes = [all_reduce(node, 1.0, environment=machine(node)) for node in "abcd"]
    tried = [*nodes, *(all_reduce(pair, time_s) for pair, time_s in pairs.items())]
    # Half of the pairs are slow, so that their median tells nothing: the description does.
    runs = [
        msgspec.structs.replace(run, verdict="low") if run.measure == "pair" and run.time_s == 2.0 else run
        for run in checked(tried, None, "no")
    ]
    (found,), _ = outliers(runs, [facts_of(each.nodes[0], [each.record]) for each in nodes])
    assert (found.what, found.name, found.nodes) == ("node", "c", ["c"])
    assert found.causes[0].kind == "network card"
    assert found.causes[0].evidence == "slow with each node that it was tried with: a, b, d"
    assert found.against == ["description"]


def test_a_pair_that_nothing_explains_lists_what_is_odd_about_both():
    nodes = [all_reduce("a", 1.0, environment=machine("a", gpus=[gpu(0, pcie_width=8)])), all_reduce("b", 1.0)]
    tried = [*nodes, all_reduce("a b", None, "not finished after timeout=5 seconds")]
    (found,), _ = outliers(checked(tried, None, "no"), [facts_of(each.nodes[0], [each.record]) for each in nodes])
    assert (found.what, found.nodes) == ("pair", ["a", "b"])
    assert [cause.evidence for cause in found.causes] == ["a: GPU 0: 8 of 16 lanes of PCIe are up"]
