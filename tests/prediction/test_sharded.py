"""ZeRO-1 and FSDP in predictions: what is sent, when, and who waits for it."""

import msgspec
import pytest

import resnetx
from resnetx import choices, workloads
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.systems.system import parts_table
from resnetx.prediction import messages
from resnetx.prediction.iteration import iteration_s
from resnetx.prediction.memory import step_bytes
from resnetx.prediction.roofline import fitted, update_s
from resnetx.prediction.step import LayerTime, Overlap, SimulatedJob, Step, TimedMessage, columns
from resnetx.prediction.task_graph import timeline
from resnetx.workloads import counts
from resnetx.workloads.counts import parts_of, ready_order

GPT2 = choices.GptXSettings(x=12, width=768, heads=None, seq=1024, vocabulary=50257)
TABLE = workloads.table(GPT2, 0)
READY = ready_order(TABLE, "fp32")


def test_the_tied_embedding_leaves_one_rank_with_most_of_the_update():
    shares = {ranks: parts_of(READY, ranks) for ranks in (2, 4, 8)}
    over_mean = {ranks: max(parts) * ranks / sum(parts) for ranks, parts in shares.items()}
    assert {ranks: round(ratio, 2) for ranks, ratio in over_mean.items()} == {2: 1.00, 4: 1.24, 8: 2.48}
    assert {sum(parts) for parts in shares.values()} == {497_759_232}


def test_blocks_are_reduced_by_themselves_and_all_else_at_the_end():
    sent = counts.messages(TABLE, choices.Fsdp(reshard=True), "bf16")
    assert [message.size_bytes for message in sent] == [*[28_351_488] * 12, 157_541_376]
    assert {layer.split(".")[1] for layer in sent[0].layers} == {"11"}


def test_a_backward_pass_waits_for_the_parameters_of_its_block():
    """Blocks a and b, and c, which is kept: b and then a are gathered again, each in front of what was computed."""
    step = Step(**columns(LayerTime(name, 1.0, 2.0, 4) for name in "abc"), update_s=0.5, ranks=2)
    sent = (
        TimedMessage((), 3.0, name="gather", gates="b"),
        TimedMessage(("c",), 1.0, name="reduce"),
        TimedMessage(("c",), 5.0, name="gather", gates="a"),
        TimedMessage(("b",), 1.0, name="reduce"),
        TimedMessage(("a",), 1.0, name="reduce"),
    )
    job = SimulatedJob((step,), sent, Overlap())
    assert [(bar.name, bar.start_s, bar.end_s) for bar in timeline(job) if bar.lane == "collectives"] == [
        ("gather 1", 3.0, 6.0),
        ("reduce 2", 6.0, 7.0),
        ("gather 3", 7.0, 12.0),
        ("reduce 4", 12.0, 13.0),
        ("reduce 5", 14.0, 15.0),
    ]
    undone = {bar.name: (bar.start_s, bar.end_s) for bar in timeline(job) if bar.name.startswith("backward")}
    assert undone == {"backward c": (3.0, 5.0), "backward b": (6.0, 8.0), "backward a": (12.0, 14.0)}
    assert iteration_s(job) == 15.5


def test_gradients_are_sent_with_the_last_part_of_a_batch_and_parameters_are_gathered_for_each():
    step = Step(**columns(LayerTime(name, 1.0, 2.0, 4) for name in "ab"), update_s=0.5, parts=2, ranks=2)
    gathers = tuple(TimedMessage((name,), 0.5, name="gather", each_part=True) for name in "ab")
    job = SimulatedJob((step,), (TimedMessage(("a",), 3.0),), fetched=gathers)
    bars = [(bar.name, bar.start_s, bar.end_s) for bar in timeline(job) if bar.lane == "collectives"]
    assert bars == [
        ("gather a", 0.0, 0.5), ("gather b", 0.5, 1.0),  # a is there at 0.5, and the first part ends at 6.5
        ("gather a", 6.5, 7.0), ("gather b", 7.0, 7.5),
        ("all-reduce 1", 13.0, 16.0),
    ]  # fmt: skip
    assert iteration_s(job) == 16.5


@pytest.mark.parametrize("strategy", ["bucket", "zero1", "fsdp"])
def test_a_batch_in_parts_pays_for_its_messages_once(strategy):
    """Of as many parts of one size: DDP exchanges once for all; FSDP gathers for each, and reduces once.

    89 MB of each 157 MB are gathered: four blocks of 7.1 MB, three of them twice, and 39.4 MB outside of them.
    """
    words = {"model": "gptx", "model.x": 4, "systems": "pcie-gen5", "gpus": 8, "precision": "bf16"}
    rates = {"rate": {8: 60.0}, "strategy": strategy}
    once, eight = (
        resnetx.predict(**words, **rates, batch_size=64 * parts, accumulate=parts).points[0] for parts in (1, 8)
    )
    sent = eight.communication_s / once.communication_s
    assert sent == pytest.approx(1 if strategy != "fsdp" else 1 + 7 * 89 / 157, rel=0.02)
    assert eight.images_per_s / once.images_per_s > 1


def test_what_an_optimizer_keeps_is_read_and_written():
    gpu, fit = parts_table("gpus")["h100-sxm5-80gb"], fitted()
    sgd, adamw = (update_s(fit, 1e9, gpu, states) - fit.operation_s for states in (1, 2))
    assert adamw / sgd == pytest.approx(7 / 5)
    words = {"model": "mlpx", "systems": "dgx-h100", "gpus": 1, "batch_size": 1, "image_size": 32}
    plain, longer = (resnetx.predict(**words, optimizer=name).points[0].compute_s for name in ("sgd", "adamw"))
    assert longer > plain


def test_what_ranks_share_out_they_need_not_keep():
    bucket = choices.Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)
    request = msgspec.structs.replace(request_from(compose({"gpus": 1})), model=GPT2, image_size=0)

    def needed(strategy):
        return step_bytes(request, TABLE, 1, strategy, gpus=8)

    whole, own = 497_759_232, max(parts_of(READY, 8))
    assert needed(bucket) - needed(choices.Zero1()) == whole - own
    kept, freed = needed(choices.Fsdp(reshard=False)), needed(choices.Fsdp(reshard=True))
    assert kept - freed == pytest.approx(10 * 28_351_488)
    assert freed < needed(choices.Zero1())


@pytest.mark.parametrize("reshard", [True, False])
def test_what_is_gathered_again_counts_among_the_messages(monkeypatch, reshard):
    """As `measure.rank.sharded` lists what it sends: of four blocks three are gathered again, for each part."""
    found = []
    monkeypatch.setattr(messages, "_fsdp", lambda *given, kept=messages._fsdp: found.append(kept(*given)) or found[-1])
    words = {"model": "gptx", "model.x": 4, "systems": "pcie-gen5", "gpus": 2, "batch_size": 4, "accumulate": 2}
    resnetx.predict(**words, strategy="fsdp", **{"strategy.reshard": reshard})
    block, rest = sorted(set(found[0].sizes_bytes))
    again = 3 * reshard
    assert found[0].sizes_bytes.count(block) == 2 * (4 + again) + 4
    assert found[0].sizes_bytes.count(rest) == 2 + 1
