"""What points have in common is worked out once: counted by calls, not by time."""

from collections import Counter

from resnetx.api.predict import predicted
from resnetx.prediction import compute, memory, messages, roofline, scenario, step
from resnetx.prediction.step import HashedTuple

GRID = {
    "systems": ["dgx1-p100"],
    "model": "googlenet",
    "batch_size": [64, 128, 256],
    "gpus": [1, 2, 8],
    "strategy": ["bucket", "after"],
    "input": ["synthetic", "dali"],
}


def counted(monkeypatch, module, name) -> Counter[str]:
    calls = Counter[str]()
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: calls.update([name]) or real(*given))
    return calls


def test_plans_and_messages_are_made_once_for_all_batches_and_inputs(monkeypatch):
    plans, exchanges = counted(monkeypatch, scenario, "plan"), counted(monkeypatch, messages, "exchange")
    assert len(predicted([], GRID).points) == 36
    assert plans["plan"] == 2  # of 2 and 8 GPUs
    assert exchanges["exchange"] == 2 * 2  # of each strategy


def test_layers_are_walked_once_for_all_batches_and_inputs():
    of_tables = (memory._backward_moments, scenario._ready, roofline._work, roofline._gradients)
    for cache in (*of_tables, step._cuts, compute.of_roofline):
        cache.cache_clear()
    predicted([], GRID)
    assert memory._backward_moments.cache_info().misses <= 2  # gradients that stay, and such that add up
    assert scenario._ready.cache_info().misses == 1
    assert roofline._work.cache_info().misses == roofline._gradients.cache_info().misses == 1
    assert step._cuts.cache_info().misses <= 1 + 2 * 2  # of nothing, and of each strategy on 2 and 8 GPUs


def test_a_tuple_hashes_its_items_once():
    class Item:
        hashed = 0

        def __hash__(self) -> int:
            Item.hashed += 1
            return 1

    key = HashedTuple([Item()])
    assert {key: "known"}[key] == "known"
    assert Item.hashed == 1
    assert HashedTuple(key) is key
    assert HashedTuple((1, 2)) == (1, 2)
    assert hash(HashedTuple((1, 2))) == hash((1, 2))
