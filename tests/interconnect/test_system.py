"""Reading systems: what files say, what is refused and on which line, and several nodes."""

import re

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.systems import system
from resnetx.settings.files import CONFIGS

PAIR = """\
about: two GPUs and a CPU
wiring: a test
library: nccl2
components:
  gpu0..1: {gpu: p100-sxm2-16gb, at: [0, 0], step: [1, 0]}
  cpu0: {cpu: xeon-e5-2698v4, at: [0.5, 1]}
  nic0: {nic: connectx-4-edr}
links:
  - {between: [gpu0..1, cpu0], link: pcie3, lanes: 16}
  - {between: [gpu0, gpu1], link: nvlink1, lanes: 2}
  - {between: [nic0, cpu0], link: pcie3, lanes: 8}
"""


@pytest.fixture
def written(tmp_path):
    """Writes a system file and gives its path."""

    def write(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_file_becomes_a_graph_in_base_units(written):
    found = system.load(written(PAIR))
    assert [gpu.name for gpu in found.gpus] == ["gpu0", "gpu1"]
    assert (found.name, found.library, found.nodes) == ("mine", "nccl2", 1)
    (nvlink,) = [link for link in found.links if link.part_name == "nvlink1"]
    assert nvlink.bandwidth_Bps == 2 * 20e9
    assert nvlink.copy_Bps == pytest.approx(2 * 18.41e9)
    assert nvlink.duplex_Bps == pytest.approx(2 * 36.82e9)
    assert nvlink.wire.latency_s.value == pytest.approx(6.6e-6)
    assert nvlink.wire.bandwidth_Bps.provenance == "datasheet"
    assert nvlink.source == "a test"


def test_kernels_get_less_of_nvlink_than_copies_and_as_much_of_pcie(written):
    nvlink, pcie = (
        next(link for link in system.load(written(PAIR)).links if link.part_name == name)
        for name in ("nvlink1", "pcie3")
    )
    assert nvlink.kernel_Bps / nvlink.copy_Bps == pytest.approx(17 / 18)
    assert pcie.kernel_Bps == pcie.copy_Bps


def test_file_may_bring_parts_of_its_own(written):
    parts = "parts:\n  links:\n    nvlink9:\n      {about: x, family: nvlink, bandwidth_GBps: [100, assumed, me], "
    parts += "copy_GBps: [90, assumed, me], latency_us: [1, assumed, me]}\n"
    found = system.load(written(PAIR.replace("link: nvlink1", "link: nvlink9") + parts))
    assert [link.copy_Bps for link in found.links if link.part_name == "nvlink9"] == [2 * 90e9]
    assert "nvlink9" not in system.parts_table("links")


def test_link_may_differ_from_its_kind(written):
    text = PAIR.replace("cpu0], link: pcie3, lanes: 16", "cpu0], link: pcie3, lanes: 4, copy_GBps: [0.5, measured, me]")
    links = [link for link in system.load(written(text)).links if link.part_name == "pcie3" and link.lanes == 4]
    assert [(link.copy_Bps, link.duplex_Bps) for link in links] == [(2e9, 4e9)] * 2


REFUSED = {
    "unknown gpu": ("gpu: p100-sxm2-16gb", "gpu: p100-sxm", 5, "no gpu has that name; did you mean p100-sxm2-16gb?"),
    "link to nowhere": (
        "[gpu0, gpu1], link: nvlink1",
        "[gpu0, gpu7], link: nvlink1",
        10,
        "no component is called gpu7",
    ),
    "link to itself": ("[gpu0, gpu1], link: nvlink1", "[gpu0, gpu0], link: nvlink1", 10, "gpu0 is linked to itself"),
    "unknown link": ("link: nvlink1", "link: nvlink", 10, "no link has that name"),
    "negative lanes": ("lanes: 2", "lanes: -2", 10, "lanes=-2: expected at least 1"),
    "no copy": ("lanes: 2}", "copy_GBps: [null, measured, me]}", 10, "copy_GBps: expected a number; leave it out"),
    "negative copy": ("lanes: 2}", "copy_GBps: [-1, measured, me]}", 10, "copy_GBps: expected more than 0"),
    "rating too large": (
        "library: nccl2",
        "library: nccl2\nparts: {cpus: {own: {about: own, single_thread: [1941000, measured, me], "
        "staging_GBps: [10, measured, me], staging_us: [19, measured, me]}}}",
        4,
        "parts.cpus.own.single_thread: no figure of a machine; expected 100 to 10,000",
    ),
    "disconnected": (
        "  - {between: [nic0, cpu0], link: pcie3, lanes: 8}\n",
        "",
        8,
        "nothing connects nic0 to the rest",
    ),
    "two kinds": ("{nic: connectx-4-edr}", "{nic: connectx-4-edr, gpu: k80-562mhz}", 7, "expected exactly one of gpu"),
    "two links": (
        "  - {between: [nic0",
        "  - {between: [gpu1, gpu0], link: nvlink1}\n  - {between: [nic0",
        11,
        "linked twice",
    ),
    "unknown setting": ("library: nccl2", "libary: nccl2", 3, "libary: not a setting of a system"),
    "unknown library": (
        "library: nccl2",
        "library: nccl9",
        3,
        "library=nccl9: not one of the known values (nccl1, nccl2, nccl2.4, nvls, gloo)",
    ),
    "unknown field": ("at: [0.5, 1]", "by: [0.5, 1]", 6, "unknown field `by`; known: gpu, switch, cpu"),
    "no number": ("at: [0.5, 1]", "at: [left, 1]", 6, "expected a number"),
    "key twice": ("  nic0: {nic", "  cpu0: {nic", 7, "cpu0 appears twice"),
    "endless range": ("gpu0..1: {", "gpu0..99999999: {", 5, "expected a range"),
    "many ranges": (
        "gpu0..1: {",
        "gpu10..4000: {gpu: p100-sxm2-16gb}\n  gpu4001..7000: {gpu: p100-sxm2-16gb}\n  gpu0..1: {",
        6,
        "more than 4096; several machines are nodes of a cluster",
    ),
    "many lanes": ("lanes: 2}", "lanes: 9000000000000000000}", 10, "expected at most 1024"),
    "more links than a GPU has": ("lanes: 2}", "lanes: 5}", 8, "5 lanes of NVLink 1 leave gpu0; expected at most 4"),
    "two of what is all links": (
        "[gpu0, gpu1], link: nvlink1, lanes: 2",
        "[gpu0, gpu1], link: xgmi-turin, lanes: 3",
        10,
        "lanes=3: expected at most 1, as its figures are of all links",
    ),
    "far away": ("at: [0.5, 1]", "at: [1e308, 1]", 6, "expected places from -1,000,000 to 1,000,000"),
    "no name": ("  nic0: {nic", '  "nic\\e[2J": {nic', 7, "expected a name of printable characters"),
    "endless nodes": (
        "library: nccl2",
        "library: nccl2\ncluster: {nodes: 18446744073709551616}",
        4,
        "more than 64 bits",
    ),
    "many nodes": (
        "library: nccl2",
        "library: nccl2\ncluster: {nodes: 1000000000}",
        4,
        "cluster.nodes=1000000000: expected at most 131,072 of mine",
    ),
    "missing": ("wiring: a test\n", "", 1, "wiring is missing"),
    "one end": ("between: [gpu0, gpu1]", "between: [gpu0]", 10, "expected a list of 2, got 1"),
    "no list": ("links:\n", "links:\n  - 5\n", 9, "links.0=5: expected a group of settings"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_file_is_refused_with_the_line(written, case):
    before, after, line, said = REFUSED[case]
    assert before in PAIR
    path = written(PAIR.replace(before, after, 1))
    with pytest.raises(ConfigError, match=re.escape(said)) as refusal:
        system.load(path)
    assert str(refusal.value).startswith(f"{path}, line {line}: ")


WIRE = (
    "    {about: x, family: pcie, bandwidth_GBps: [1, assumed, me], copy_GBps: [1, assumed, me], "
    "latency_us: [1, assumed, me]}"
)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("bandwidth_GBps: [1", "bandwidth_GBps: [-1", "parts.links.foo.bandwidth_GBps: expected more than 0"),
        ("bandwidth_GBps: [1", "bandwidth_GBps: [.nan", ".nan: expected a finite number"),
        ("bandwidth_GBps: [1", "bandwidth_GBps: [1e300", "parts.links.foo.bandwidth_GBps: no figure of a machine"),
        ("bandwidth_GBps: [1", "bandwidth_GBps: [true", "bandwidth_GBps[0]=true: expected a number"),
        ("copy_GBps: [1", "copy_GBps: [1.1", "parts.links.foo.copy_GBps: more than bandwidth_GBps, of which a copy"),
        ("copy_GBps: [1, assumed, me], ", "", "missing required field `copy_GBps`"),
        ("copy_GBps: [1, assumed, me]", "copy_GBps: 1", "a figure is [value, provenance, source]"),
        (
            "copy_GBps: [1, assumed",
            "copy_GBps: [1, guessed",
            "copy_GBps[1]=guessed: not one of the known values (datasheet, measured, assumed)",
        ),
        ("family: pcie", "family: agp", "family=agp: not one of the known values (nvlink, pcie, smp, network)"),
    ],
)
def test_wrong_part_is_refused_in_the_units_of_the_file(written, before, after, said):
    assert before in WIRE
    path = written(f"{PAIR}parts:\n  links:\n    foo:\n  {WIRE.replace(before, after)}\n")
    with pytest.raises(ConfigError, match=re.escape(said)) as refusal:
        system.load(path)
    assert int(re.search(r"line (\d+)", str(refusal.value))[1]) in (14, 15)


def test_chips_of_one_fabric_are_refused(written):
    text = PAIR.replace("  nic0:", "  nvs0..1: {switch: nvswitch2}\n  nic0:")
    text += "  - {between: [gpu0..1, nvs0..1], link: nvlink3, lanes: 6}\n"
    with pytest.raises(
        ConfigError, match="nvs0 and nvs1 join the same GPUs over NVLink; describe a fabric as one switch"
    ):
        system.load(written(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "expected a mapping of settings"),
        ("a: [", "not YAML"),
        ("a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b]\n"
         "d: &d [*c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e]\n",
         "more than 100000 values"),
        ("components: {? [1, 2] : x}", "line 1: expected a word as the key"),
        ("about: x\n1: y", "line 2: expected a word as the key"),
        ("about: x\non: y", "line 2: on: not a setting of a system"),
        ("about: x\ngrids: []", "line 2: a study, not a system; expected it as study=, where a verb takes that"),
        ("x" * 2**20 + "x", "larger than 1 MiB"),
        ("!!python/object/apply:os.system [ls]", "YAML tags are not supported; expected plain values"),
    ],
)  # fmt: skip
def test_foreign_file_is_refused(written, text, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        system.load(written(text))


def test_unknown_system_is_refused_with_the_nearest_or_some_that_are_known():
    with pytest.raises(ConfigError, match=r"no system has that name; did you mean dgx1-p100\?$"):
        system.load("dgx1-p10")
    with pytest.raises(ConfigError, match=r"Known: a100-ib, .* and \d+ more \(`resnetx list`\)$"):
        system.load("nothing")
    with pytest.raises(ConfigError, match="no such file"):
        system.load("nowhere.yaml")


def test_as_many_nodes_as_have_the_gpus_of_a_request(written):
    assert len(system.load(written(PAIR), nodes=1000, network="edr100").gpus) == 2000
    assert len(system.load("dgx2", nodes=16_384, network="edr100").gpus) == 2**18
    with pytest.raises(ConfigError, match="nodes=16385: expected at most 16384"):
        system.load("dgx2", nodes=16_385, network="edr100")


def test_links_are_counted_over_all_entries(written):
    text = "about: x\nwiring: x\ncomponents: {gpu0..299: {gpu: k80-562mhz}, plx0..299: {switch: plx-8764}}\nlinks:\n"
    text += "  - {between: [gpu0..299, gpu0..299], link: pcie3}\n  - {between: [gpu0..299, plx0..299], link: pcie3}\n"
    with pytest.raises(ConfigError, match="line 6: links: 90,000 more links, of at most 65536 in all"):
        system.load(written(text))


def test_nodes_are_joined_by_the_cards_that_are_used():
    found = system.load("dgx-h100", nodes=3, network="ndr400", nics=4)
    assert (found.name, found.nodes, found.network, found.nics) == ("3x dgx-h100", 3, "ndr400", 4)
    assert [gpu.node for gpu in found.gpus] == [0] * 8 + [1] * 8 + [2] * 8
    assert found.gpus[8].name == "node1.gpu0"
    assert len(found.neighbours[system.FABRIC]) == 3 * 4
    one = system.load("dgx-h100", nodes=1)
    assert len(found.all_links) == 3 * len(one.links) + 12


def test_a_cluster_is_what_its_file_says_unless_asked():
    assert (system.load("k80-10gbe").nodes, system.load("k80-10gbe", nodes=2).nodes) == (4, 2)
    both = system.load("k80-10gbe"), system.load("k80-10gbe", nodes=1)
    assert [(each.name, each.node_name) for each in both] == [("4x k80-10gbe", "k80-10gbe"), ("k80-10gbe",) * 2]
    assert system.load("k80-10gbe", nodes=2, network="edr100").network == "edr100"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"nodes": 0}, "nodes=0: expected at least 1"),
        ({"nodes": 2}, "expected network=, one of"),
        ({"nodes": 2, "network": "token-ring"}, "no network has that name"),
        ({"nodes": 2, "network": "ndr400", "nics": 9}, "nics=9: dgx-h100 has 8 network cards"),
        ({"nodes": 2, "network": "ndr400", "nics": 0}, "nics=0: dgx-h100 has 8 network cards"),
    ],
)
def test_wrong_cluster_is_refused(asked, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        system.load("dgx-h100", **asked)


def test_two_systems_stay_two():
    """Configuration groups would merge them; these are plain names."""
    first, second = system.load("dgx1-p100"), system.load("gx8")
    assert {link.part_name for link in second.links}.isdisjoint({"nvlink1"})
    assert "nvlink1" in {link.part_name for link in first.links}


def test_every_system_of_the_library_is_named_and_loads():
    assert set(system.names()) == {path.stem for path in (CONFIGS / "system").glob("*.yaml")}
