"""A system as text: whatever its texts are, it reads back as the same system."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from resnetx.interconnect.survey.system_text import flow, system_text
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.graph import SourcedValue, System
from resnetx.loading import YamlFile
from tests import drawn_examples as drawn_examples

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/\\"), min_size=1, max_size=8
).filter(
    lambda name: name != "<<"  # which merges
)


def described_with(text: str) -> System:
    """A DGX-1 in which every text that a file may state is this one."""
    dgx1 = system.described("dgx1-p100")
    first, *others = dgx1.links
    figure = SourcedValue(17e9, "measured", text)
    links = (
        replace(first, source=text, wire=replace(first.wire, copy_Bps=figure, duplex_Bps=None)),
        *(replace(link, source="the others") for link in others),
    )
    gpus = [
        replace(each, part_name="mine", part=replace(each.part, about=text, chip=text, product_names=(text, "b")))
        if each.kind == "gpu"
        else each
        for each in dgx1.components
    ]
    cluster = replace(dgx1.cluster, network="edr100")
    return replace(dgx1, name="again", about=text, links=links, components=tuple(gpus), cluster=cluster)


@pytest.mark.parametrize("peer", [False, True])
def test_who_are_peers_over_pcie_comes_back(peer, tmp_path):
    sli = system.described("sli-rtx2080")  # whose driver has no peers over PCIe unless it is said
    links = tuple(replace(link, wire=replace(link.wire, peer=peer)) for link in sli.links)
    (tmp_path / "again.yaml").write_text(system_text(replace(sli, links=links)), encoding="utf-8")
    assert system.described(str(tmp_path / "again.yaml")).links == links


@pytest.mark.parametrize(
    "text", ["", " ", "null", "true", "~", "1e3", "a  b", "a\nb\n", "# a", "a: b", "\x7f\u2028", "\U0001f4a9"]
)
def test_every_text_of_a_system_comes_back(text, tmp_path):
    written = described_with(text)
    path = tmp_path / "again.yaml"
    path.write_text(system_text(written), encoding="utf-8")
    assert system.described(str(path)) == written


def test_a_wiring_without_a_source_stays_without_one(tmp_path):
    """Beside others that have one, which the text states once."""
    written = described_with("")
    assert {link.source for link in written.links} == {"", "the others"}
    path = tmp_path / "again.yaml"
    path.write_text(system_text(written), encoding="utf-8")
    assert [link.source for link in system.described(str(path)).links][:2] == ["", "the others"]


@given(st.dictionaries(NAMES, st.one_of(TEXTS, st.lists(TEXTS), st.floats(allow_nan=False, allow_infinity=False))))
@example({"null": "null", "1": "1", "a: b": ""})
def test_what_is_written_in_a_line_is_read_back(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("flow") / "a.yaml"
    text = f"a: {flow(value)}\n"
    assert text.count("\n") == 1
    path.write_text(text, encoding="utf-8")
    assert YamlFile(path, "a test").tree == {"a": value}
