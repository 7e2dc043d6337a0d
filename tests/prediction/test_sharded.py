"""ZeRO-1 and FSDP in predictions: what is sent, when, and who waits for it."""

import pytest

from resnetx import choices, workloads
from resnetx.prediction.memory import step_bytes
from resnetx.prediction.ssgd import iteration_s, timeline
from resnetx.prediction.step import LayerTime, Overlap, RankClass, SimulatedJob, StepLayers, StepTimes, TimedMessage
from resnetx.workloads.buckets import messages, parts_of, ready_order

GPT2 = choices.GptXSettings(x=12, width=768, heads=None, seq=1024, vocabulary=50257)
TABLE = workloads.table(GPT2, 0)
READY = ready_order(TABLE, "fp32")


def test_the_tied_embedding_leaves_one_rank_with_most_of_the_update():
    shares = {ranks: parts_of(READY, ranks) for ranks in (2, 4, 8)}
    over_mean = {ranks: max(parts) * ranks / sum(parts) for ranks, parts in shares.items()}
    assert {ranks: round(ratio, 2) for ranks, ratio in over_mean.items()} == {2: 1.00, 4: 1.24, 8: 2.48}
    assert {sum(parts) for parts in shares.values()} == {497_759_232}


def test_blocks_are_reduced_by_themselves_and_all_else_at_the_end():
    sent = messages(TABLE, choices.Fsdp(reshard=True), "bf16")
    assert [message.size_bytes for message in sent] == [*[28_351_488] * 12, 157_541_376]
    assert {layer.split(".")[1] for layer in sent[0].layers} == {"11"}


def test_a_backward_pass_waits_for_the_parameters_of_its_block():
    """Blocks a and b, and c, which is kept: b and then a are gathered again, each in front of what was computed."""
    layers = StepLayers.of([LayerTime(name, 1.0, 2.0, 4) for name in "abc"])
    sent = (
        TimedMessage((), 3.0, name="gather", gates="b"),
        TimedMessage(("c",), 1.0, name="reduce"),
        TimedMessage(("c",), 5.0, name="gather", gates="a"),
        TimedMessage(("b",), 1.0, name="reduce"),
        TimedMessage(("a",), 1.0, name="reduce"),
    )
    job = SimulatedJob((RankClass(2, StepTimes(layers, 0.5)),), sent, Overlap())
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


def test_what_ranks_share_out_they_need_not_keep():
    bucket = choices.Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)

    def needed(strategy):
        return step_bytes(TABLE, 0, 1, "fp32", strategy, "torch", gpus=8)

    whole, own = 497_759_232, max(parts_of(READY, 8))
    assert needed(bucket) - needed(choices.Zero1()) == whole - own
    kept, freed = needed(choices.Fsdp(reshard=False)), needed(choices.Fsdp(reshard=True))
    assert kept - freed == pytest.approx(10 * 28_351_488)
    assert freed < needed(choices.Zero1())
