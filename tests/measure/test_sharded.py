"""FSDP sends what its blocks have, in the order in which the prediction has it, and a sum is never taken for a mean."""

import json
import time
from functools import partial

import pytest
import torch
import torch.distributed as dist

from resnetx.api.doctor import obstacle_to
from resnetx.cli import main
from resnetx.measure.rank import sharded
from resnetx.measure.rank.sharded import EmulatedStream, _dividing, padded_elements

SMALL = ["model=gptx", "model.x=3", "model.width=16", "model.heads=2", "model.seq=8", "model.vocabulary=11"]


@pytest.mark.dist
@pytest.mark.parametrize(("reshard", "parts"), [("true", 1), ("false", 2)])
def test_blocks_are_gathered_and_reduced_in_this_order(reshard, parts, tmp_path, preloaded):
    words = ["strategy=fsdp", f"strategy.reshard={reshard}", "gpus=2", "batch_size=4", "threads=1", "measure=phases"]
    words += [f"accumulate={parts}", "windows=1", "steps=1", f"results={tmp_path}"]
    assert main(["train", *SMALL, *words]) == 0
    (found,) = tmp_path.rglob("record.json")
    record = json.loads(found.read_text())
    block, rest = 4 * (12 * 16**2 + 13 * 16), 4 * (12 * 16 + 8 * 16 + 2 * 16)  # 11 tokens: a row more, of 2 ranks
    between, before = ([block] * 2, []) if reshard == "true" else ([], [rest, *[block] * 3])  # of the first part
    sent = [*before, rest, *[block] * 3, *between, *[block] * 3, rest]
    assert [bucket["size_bytes"] for bucket in record["buckets"]] == sent
    phases = record["phases"]
    parts = ("input_wait_s", "host_to_device_s", "forward_s", "backward_s", "exposed_communication_s", "optimizer_s")
    whole = [sum(times) for times in zip(*(phases[part] for part in (*parts, "gather_s")), strict=True)]
    assert whole == pytest.approx(phases["step_s"], rel=1e-3)
    assert min(phases["gather_s"]) > 0 < min(phases["exposed_communication_s"])


@pytest.mark.parametrize("present", [0, 2])
def test_phases_of_fsdp_are_measured_on_gpus_too(present, request_of, monkeypatch):
    """What it waits for there: tests/nullcuda/test_truth.py."""
    monkeypatch.setattr("resnetx.measure.machine.nvidia.gpus_here", lambda: present)
    assert obstacle_to(request_of({"strategy": "fsdp", "gpus": 2, "measure": "phases"})) == ""


def test_rows_are_added_until_all_ranks_have_as_many():
    assert padded_elements(torch.Size([101, 48]), 4) == 104 * 48
    assert padded_elements(torch.Size([3]), 4) == 4


def test_a_library_that_adds_up_whatever_it_is_asked_for_is_made_to_divide():
    asked = []

    def adds_up(output, input, op, group):
        asked.append((op, group))
        output.copy_(input.view(2, -1).sum(0))  # as two ranks with the same input, of which this one has all

    means = _dividing(adds_up)
    given, got = torch.arange(4.0), torch.empty(2)
    means(got, given, op=dist.ReduceOp.AVG, group="ours")
    assert got.tolist() == [1.0, 2.0]
    means(output=got, input=given, op=dist.ReduceOp.SUM, group="ours")
    assert got.tolist() == [2.0, 4.0]
    assert asked == [(dist.ReduceOp.SUM, "ours")] * 2


def test_a_stream_goes_on_from_what_it_waits_for():
    """Two streams compute for 20 and 10 ms, and the second then waits for the first: its clock is the later one's."""
    first, second = EmulatedStream(), EmulatedStream()
    begin = first.clock = second.clock = time.perf_counter()
    for stream, seconds in ((first, 0.02), (second, 0.01)):
        stream.queue(partial(sharded._computed, seconds))
    alone = second.moment()
    second.wait_stream(first)
    together = second.moment()
    second.synchronize()
    assert together.at == first.clock > alone.at
    assert time.perf_counter() >= begin + 0.02


def test_what_fails_on_a_stream_is_told_to_who_waits_for_it():
    stream = EmulatedStream()
    stream.queue(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        stream.synchronize()


@pytest.mark.dist
def test_a_replayed_step_goes_on_while_its_blocks_are_sent(tmp_path, preloaded):
    """A replay of 3 blocks ends well, and sends what training sends."""
    words = ["strategy=fsdp", "gpus=2", "batch_size=4", "accumulate=2", "replay=p100-sxm2-16gb", "input=synthetic"]
    assert main(["train", *SMALL, *words, "threads=1", "windows=1", "steps=1", f"results={tmp_path}"]) == 0
    (found,) = tmp_path.rglob("record.json")
    assert json.loads(found.read_text())["distributed"] == "FSDP"
