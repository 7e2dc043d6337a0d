"""`network.json`: what is written is read again, and what cannot be built is refused by name."""

import msgspec
import pytest

from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import lab_network, read_network
from resnetx.record import RecordError, write


@pytest.fixture(scope="module")
def network():
    return lab_network(system.load("gx8"), [3, 4], 2, 100)


def test_what_is_written_is_read_again(network, tmp_path):
    write(tmp_path / "network.json", network)
    assert read_network(tmp_path / "network.json") == network


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda tree: tree["routes"][0]["links"].pop(), "routes[0]: passes 5 namespaces over 3 links"),
        (lambda tree: tree["routes"][0]["passes"].clear(), "routes[0]: expected a way from one rank to another"),
        (lambda tree: tree["routes"][0].update(source=7), "routes[0]: expected a way from one rank to another"),
        (lambda tree: tree["routes"][1]["links"].__setitem__(0, 99), "routes[1]: link 99: expected one of the 4 links"),
        (lambda tree: tree["routes"][0]["links"].reverse(), "not gpu3 and riser0"),
        (lambda tree: tree["links"][0].update(rate_Bps=0.0), "links[0].rate_Bps=0.0: expected at least 1"),
        (lambda tree: tree["links"][0].update(back_Bps=-1.0), "links[0].back_Bps=-1.0: expected at least 1, or 0"),
        (lambda tree: [link.update(back_Bps=0.0) for link in tree["links"]], "has no rate from"),
        (lambda tree: tree.update(ranks=["gpu3", "gpu3"]), "ranks: expected 1 to 16 namespaces, each once"),
    ],
)
def test_what_cannot_be_built_is_refused(network, change, sentence, tmp_path):
    tree = msgspec.to_builtins(network)
    change(tree)
    path = tmp_path / "network.json"
    path.write_bytes(msgspec.json.encode(tree))
    with pytest.raises(RecordError) as refused:
        read_network(path)
    assert str(path) in str(refused.value)
    assert sentence in str(refused.value)
