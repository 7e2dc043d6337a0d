"""Reading topologies as XML: NCCL's, RCCL's and hwloc's; and what XML may not do."""

from pathlib import Path

import pytest

from resnetx.errors import ConfigError
from resnetx.formats import topology_xml
from resnetx.formats.topology_xml import C2c, NvlinkEnd, generation_of, kind_of
from resnetx.loading import File

FILE = File(Path("topo.xml"), "a topology", 2**20)

# Two GPUs below one switch with a card, NVLink between them and into a switch; a third GPU on the other CPU.
NCCL = """<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79">
    <pci busid="0000:03:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">
      <pci busid="0000:07:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
        <gpu dev="1" sm="60" rank="1" gdr="1"><nvlink target="0000:06:00.0" count="1" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:06:00.0" class="0x030200" link_speed="8 GT/s" link_width="16">
        <gpu dev="0" sm="60" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="1" tclass="0x030200"/>
          <nvlink target="0000:C3:00.0" count="3" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:05:00.0" class="0x020700" link_speed="8 GT/s" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="100000" port="1"/></nic>
      </pci>
      <pci busid="0000:09:00.0" class="0x060400" link_speed="8 GT/s" link_width="16"/>
    </pci>
  </cpu>
  <cpu host_hash="0x1" numaid="1" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:85:00.0" class="0x030200" link_speed="" link_width=""><gpu dev="2"/></pci>
  </cpu>
</system>
"""
HWLOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <info name="CPUModel" value="Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz"/>
      <object type="NUMANode" os_index="0"/>
      <object type="Bridge" bridge_type="0-1">
        <object type="Bridge" pci_busid="0000:00:02.0" pci_type="0604 [8086:6f04]" pci_link_speed="15.75">
          <object type="Bridge" pci_busid="0000:03:00.0" pci_type="0604 [10b5:8764]" pci_link_speed="15.75">
            <object type="Bridge" pci_busid="0000:04:08.0" pci_type="0604 [10b5:8764]" pci_link_speed="15.75">
              <object type="PCIDev" pci_busid="0000:06:00.0" pci_type="0302 [10de:15f9]" pci_link_speed="15.75">
                <object type="OSDev" name="nvml0"><info name="GPUModel" value="Tesla P100-SXM2-16GB"/></object>
              </object>
            </object>
            <object type="PCIDev" pci_busid="0000:07:00.0" pci_type="0302 [10de:15f9]" pci_link_speed="15.75"/>
          </object>
        </object>
        <object type="PCIDev" pci_busid="0000:0a:00.0" pci_type="0300 [1a03:2000]" pci_link_speed="0.000000"/>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="NUMANode" os_index="1"/>
      <object type="Bridge" bridge_type="0-1">
        <object type="PCIDev" pci_busid="0000:84:00.0" pci_type="0207 [15b3:1013]" pci_link_speed="15.75">
          <object type="OSDev" name="mlx5_0"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"""


def nccl(text):
    return topology_xml.parse_nccl(FILE, topology_xml.parse_xml(FILE, text))


def hwloc(text):
    return topology_xml.parse_hwloc(FILE, topology_xml.parse_xml(FILE, text))


def test_nccl_names_gpus_cards_switches_and_links():
    tree = nccl(NCCL)
    assert [(cpu.name, cpu.host) for cpu in tree.cpus] == [("0", "0x1"), ("1", "0x1")]
    assert tree.cpus[0].product == "Intel CPU, family 6 model 79 (Broadwell)"
    assert tree.cpus[1].product == "AMD CPU, family 143 model 49"
    (switch,) = tree.of_kind("bridge")  # the bridge to nothing is left out
    assert (switch.name, switch.generation, switch.lanes) == ("0000:03:00.0", 3, 16)
    assert [(gpu.name, gpu.index) for gpu in tree.of_kind("gpu")] == [
        ("0000:07:00.0", 1), ("0000:06:00.0", 0), ("0000:85:00.0", 2),
    ]  # fmt: skip
    assert tree.of_kind("gpu")[1].nvlinks == (
        NvlinkEnd("0000:07:00.0", 1), NvlinkEnd("0000:c3:00.0", 3, to_switch=True),
    )  # fmt: skip
    (card,) = tree.of_kind("nic")
    assert (card.label, card.speed_Bps) == ("mlx5_0", 12.5e9)
    last = tree.of_kind("gpu")[2]
    assert (last.generation, last.lanes, last.nvlinks) == (None, None, None)


def test_a_file_of_a_cloud_has_devices_alone_and_says_so():
    text = '<!-- g5 --><system version="1"><cpu numaid="0"><pci busid="0000:00:16.0"/></cpu></system>'
    tree = nccl(text)
    assert [node.kind for node in tree.cpus[0].children] == ["unclassed"]
    assert "no link_speed" in tree.notes[0]
    kinds = nccl(text.replace("/>", ' class="0x030200" link_speed="16 GT/s"/>'))
    assert [node.kind for node in kinds.cpus[0].children] == ["gpu"]
    assert kinds.notes[0].startswith("NVLink: the file has no <nvlink>")


def test_hosts_of_one_rack_are_told_apart_and_cards_may_be_no_pci_devices():
    one = """<cpu host_hash="{host}" numaid="0"><nic><net name="eth0" speed="10000"/></nic>
      <pci busid="0008:06:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0"><nvlink target="ffff:ff:ff.f" count="18" tclass="0x068000"/>
      <c2c bw="1" count="1"/></gpu></pci></cpu>"""
    tree = nccl(f"<system>{one.format(host='0xa')}{one.format(host='0xb')}</system>")
    assert [gpu.name for gpu in tree.of_kind("gpu")] == ["0008:06:00.0", "10008:06:00.0"]
    assert [(card.label, card.speed_Bps) for card in tree.of_kind("nic")] == [("eth0", 1.25e9)] * 2
    assert tree.of_kind("gpu")[0].c2c == C2c(1e6, 1)  # NVLink-C2C leads to the CPU


def test_amd_gpus_are_known_by_their_class_and_their_links():
    text = NCCL.replace("0x030200", "0x038000").replace("nvlink", "xgmi")
    assert len(nccl(text).of_kind("gpu")) == 3
    assert all(end.xgmi for end in nccl(text).of_kind("gpu")[1].nvlinks)


def test_hwloc_leaves_out_bridges_that_join_nothing_and_the_display_of_the_server():
    tree = hwloc(HWLOC)
    assert [cpu.name for cpu in tree.cpus] == ["0", "1"]
    assert tree.cpus[0].product.endswith("E5-2698 v4 @ 2.20GHz")
    (switch,) = tree.cpus[0].children
    assert (switch.name, [node.name for node in switch.children]) == ("0000:03:00.0", ["0000:06:00.0", "0000:07:00.0"])
    first = switch.children[0]
    assert (first.product, first.generation, first.lanes) == ("Tesla P100-SXM2-16GB", 3, 16)
    assert [card.label for card in tree.of_kind("nic")] == ["mlx5_0"]


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("8 GT/s", 3), ("16.0 GT/s PCIe", 4), ("2.5 GT/s", 1), ("64.0 GT/s PCIe", 6), ("", None), ("9 GT/s", None)],
)
def test_the_rate_of_a_lane_tells_the_generation(speed, generation):
    assert generation_of(speed) == generation


@pytest.mark.parametrize(
    ("pci_class", "kind"),
    [("0x030200", "gpu"), ("0302", "gpu"), ("0x120000", "gpu"), ("0x020700", "nic"), ("0x060400", "bridge"),
     ("0x010802", "storage"), ("0x040300", None), ("", None), ("0xzz", None)],
)  # fmt: skip
def test_the_class_tells_the_kind(pci_class, kind):
    assert kind_of(pci_class) == kind


ENTITIES = '<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><system><cpu>&b;</cpu></system>'
EXTERNAL = '<!DOCTYPE s [<!ENTITY a SYSTEM "file:///etc/passwd">]><system>&a;</system>'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<system", "topo.xml, line 1: truncated or not XML (unclosed token)"),
        ("\n\n<system><cpu></system>", "line 3: truncated or not XML (mismatched tag)"),
        (NCCL[:600], "truncated or not XML"),
        (ENTITIES, "it declares entities, which are not read"),
        (EXTERNAL, "it declares entities, which are not read"),
        ("<a>" * 100 + "</a>" * 100, "nested more than 64 deep"),
        ("<a>" + "<b/>" * 40_000 + "</a>", "more than 32,768 elements"),
        ("<a " + " ".join(f'k{n}="1"' for n in range(99)) + "/>", "more than 64 attributes"),
        (
            '<graphs version="1"><graph id="0"/></graphs>',
            "graphs of NCCL (NCCL_GRAPH_DUMP_FILE); expected its topology",
        ),
        ("<nvidia_smi_log/>", "<nvidia_smi_log>: expected <system>"),
        ('<system version="1"/>', "a topology without <cpu>"),
        ('<system><cpu numaid="x"/></system>', "numaid=x: expected the number of a NUMA node"),
        ('<system><cpu numaid="0"/></system>', "a topology without GPUs"),
        (NCCL.replace("0000:85:00.0", "85"), "busid=85: expected the address of a PCI device"),
        (NCCL.replace('count="3"', 'count="999"'), "count=999: expected 1 to 64 links"),
    ],
)
def test_garbage_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ConfigError) as refused:
        nccl(text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_topology_of_hwloc_without_devices_is_refused():
    with pytest.raises(ConfigError, match="without PCI devices"):
        hwloc('<topology><object type="Machine"/></topology>')
    with pytest.raises(ConfigError, match="expected <topology>"):
        hwloc(NCCL)


def test_ids_and_architectures_of_gpus_are_read():
    text = NCCL.replace('class="0x030200"', 'class="0x030200" vendor="0x10de" device="0x15F9"', 1)
    first, second, last = nccl(text).of_kind("gpu")
    assert (first.device, first.arch, second.device) == ("10de:15f9", "sm_60", "")
    assert (last.device, last.arch) == ("", "")
    assert hwloc(HWLOC).of_kind("gpu")[0].device == "10de:15f9"


@pytest.mark.parametrize(
    ("said", "arch"),
    [('sm="104" gcn="910"', "gfx90a"), ('gcn="gfx942"', "gfx942"), ('gcn="gfx90a:sramecc+"', "gfx90a"),
     ('gcn="906"', "gfx906"), ('gcn="?"', ""), ('sm="x"', "")],
)  # fmt: skip
def test_rccl_names_the_architecture_in_an_attribute_of_its_own(said, arch):
    assert nccl(NCCL.replace('<gpu dev="1" sm="60"', f'<gpu dev="1" {said}')).of_kind("gpu")[0].arch == arch
