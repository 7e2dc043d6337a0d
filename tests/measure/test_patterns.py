"""Patterns of applications: their messages, what stands for which application, and whether wrong data is found."""

import subprocess
import threading
from collections import defaultdict
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest
import torch

import resnetx
from resnetx import patterns
from resnetx.api.bench import benches_of
from resnetx.errors import ConfigError
from resnetx.measure.bench.timed_collectives import PatternExchange
from resnetx.record import BenchRecord, PatternPoint, read
from resnetx.reporting.bench_conclusions import bench_answer, pattern_columns
from resnetx.settings.files import CONFIGS

MiB = 2**20


def messages(name, ranks, size_bytes, scaling="strong"):
    found = patterns.rounds(name, ranks, size_bytes, scaling)
    return [message for part in found for round in part for message in round]


def test_the_fourteen_applications_of_tartan_have_a_pattern_each():
    """Li et al. 2019, Table 3, as the paper spells them."""
    table = "ConvNet2 Cusimann GMM Kmeans MonteCarlo Planar Trueke B2rEqwp Diffusion Lulesh CoMD Prbench HIT Matvec"
    assert sorted(name for pattern in patterns.NAMES for name in patterns.load(pattern).applications) == sorted(
        table.split()
    )
    assert {path.stem for path in (CONFIGS / "pattern").iterdir()} == set(patterns.NAMES)
    rows = [line for line in (Path(__file__).parents[2] / "docs" / "bench.md").read_text().splitlines() if "|" in line]
    for pattern in patterns.NAMES:
        assert sum(line.startswith(f"| `{pattern}` |") for line in rows) == 1


def test_halos_are_faces_of_blocks_as_like_cubes_as_can_be():
    found = messages("halo", 8, 4 * 64**3)  # 64 x 64 x 64 places in 2 x 2 x 2 blocks
    assert len(found) == 8 * 3
    assert {each.size_bytes for each in found} == {4 * 32 * 32}
    assert sum(each.source == 0 for each in found) == 3
    in_a_row = messages("halo", 3, 4 * 64**3)  # 3 x 1 x 1: the middle one has two neighbours
    assert sorted(each.source for each in in_a_row) == [0, 1, 1, 2]
    assert {each.size_bytes for each in in_a_row} == {4 * 64 * 64}


def test_a_tree_reaches_twice_as_many_with_each_round():
    rounds = patterns.rounds("broadcast-tree", 6, MiB).before
    assert [[(each.source, each.target) for each in round] for round in rounds] == [
        [(0, 1)],
        [(0, 2), (1, 3)],
        [(0, 4), (1, 5)],
    ]


@pytest.mark.parametrize(
    ("name", "sent", "weak"),
    [
        ("halo", 4 * 64 * 64, 4 * 64 * 64 * 2 ** (2 / 3)),
        ("alltoall", MiB / 4, MiB / 2),
        ("broadcast-tree", MiB, MiB),
        ("gather-scatter", MiB, 2 * MiB),  # one round before computing, and one after it
        ("host-stream", MiB, 2 * MiB),
    ],
)
def test_with_weak_scaling_each_rank_has_as_much_as_one_alone(name, sent, weak):
    for scaling, expected in (("strong", sent), ("weak", weak)):
        assert patterns.rounds(name, 2, MiB, scaling).sent_bytes(2) == pytest.approx(expected, abs=16)
    assert (patterns.compute_s(1.0, 2, "strong"), patterns.compute_s(1.0, 2, "weak")) == (0.5, 1.0)


@pytest.mark.parametrize("name", patterns.NAMES)
def test_what_arrives_is_checked(name):
    """Four ranks are threads, and what they send lies in queues; somebody changes one byte on its way, or nobody."""
    assert wrong_bytes(name, spoiled=False) == 0
    assert wrong_bytes(name, spoiled=True) > 0


def wrong_bytes(name, spoiled, ranks=4):
    sent, together, found = defaultdict(Queue), threading.Barrier(ranks), {}

    def starts_exchange(rank, given, got):
        for tensor, target in given:
            flawed = tensor.clone()
            flawed[5] += spoiled and rank == 0
            sent[rank, target].put(flawed)
        return [SimpleNamespace(wait=lambda t=t, s=s: t.copy_(sent[s, rank].get(timeout=20))) for t, s in got]

    def run(rank):
        fake = SimpleNamespace(
            rank=rank,
            world_size=ranks,
            device=torch.device("cpu"),
            barrier=together.wait,
            starts_exchange=lambda given, got: starts_exchange(rank, given, got),
        )
        exchange = PatternExchange(patterns.rounds(name, ranks, 100_000), fake)
        if spoiled and name == "host-stream":
            exchange._copy = lambda to_host: None
        found[rank] = exchange.wrong_bytes()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found.values())


# ---- as they are asked for, and shown --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"pattern": "hallo"}, "pattern=hallo: no pattern has that name; did you mean halo"),
        ({"compute": 0.1}, "compute=0.1: read by pattern= only"),
        ({"scaling": "weak"}, "scaling=weak: read by pattern= only"),
        ({"pattern": "halo", "compute": "long"}, "compute=long: expected a duration, e.g. 20ms"),
        ({"pattern": "halo", "model": "alexnet"}, "model=alexnet: pattern= has messages of its own"),
        ({"pattern": "halo", "size": "none"}, "size=none: a pattern needs the size of its problem"),
        ({"pattern": "halo", "direction": "both-ways"}, "direction=both-ways: read by copy=device only"),
    ],
)
def test_refusals(settings, fault):
    with pytest.raises(ConfigError, match=fault):
        resnetx.bench(**settings)


def point(name, size_bytes, communication_s):
    sent = patterns.rounds(name, 2, size_bytes).sent_bytes(2)
    return PatternPoint(
        pattern=name,
        scaling="strong",
        size_bytes=size_bytes,
        compute_s=0.01,
        sent_bytes=sent,
        times_s=[0.01 + communication_s],
        communication_s=[communication_s],
        wrong=0,
    )


@pytest.mark.parametrize("count", [2, 3])
def test_more_than_two_patterns_are_answered_by_the_best_and_the_worst(count):
    shares = {"halo": 0.01, "alltoall": 0.03, "host-stream": 0.0025}
    points = [point(name, MiB, time_s) for name, time_s in list(shares.items())[:count]]
    empty = dict.fromkeys(("points", "cells", "warnings"), ())
    record = SimpleNamespace(
        outcome="ok",
        source="measured",
        environment=None,
        request=None,
        world_size=2,
        unit="GPU",
        library="gloo",
        patterns=points,
        **empty,
    )
    told = bench_answer(record)[0]
    best_and_worst = "of 3 patterns host-stream, strong scaling (1.6 times one rank) scales best, and alltoall"
    assert (best_and_worst in told, "halo" in told) == ((True, False) if count == 3 else (False, True))


def test_what_is_moved_has_one_unit():
    (column,) = (each for each in pattern_columns(2) if "moved" in each.heading)
    sizes = [point("host-stream", size, 0.001) for size in (32 * 2**10, 52_000)]
    assert [column.cell(each) for each in sizes] == ["32.8", "52.0"]


def test_messages_of_a_workload_are_no_problems_of_patterns():
    (task,) = benches_of({"pattern": "halo", "collective": "allreduce", "model": "alexnet", "size": "64KiB"}).tasks
    assert task.request.pattern_sizes_bytes == [64 * 2**10]
    assert len(task.request.sizes_bytes) > 1


@pytest.mark.dist
def test_two_ranks_run_all_five(tmp_path, preloaded_python):
    words = [f"pattern={','.join(patterns.NAMES)}", "scaling=strong,weak", "size=64KiB", "compute=2ms", "iterations=3"]
    command = [preloaded_python, "-m", "resnetx", "bench", *words, "warmup=1", "gpus=2", f"results={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = read(next(tmp_path.rglob("record.json")), BenchRecord)
    assert [(each.pattern, each.scaling) for each in found.patterns] == [
        (name, scaling) for name in patterns.NAMES for scaling in ("strong", "weak")
    ]
    for each in found.patterns:
        waited = each.compute_s
        assert waited == (0.001 if each.scaling == "strong" else 0.002)
        assert all(total - told >= waited for total, told in zip(each.times_s, each.communication_s, strict=True))
        assert 0 < each.share < 1
        assert each.speedup(2) == pytest.approx(2 * (1 - each.share))
        assert each.wrong == 0
    said = " ".join(done.stdout.split())
    assert "of 10 patterns " in said
    assert "All results are right." in said
    assert said.index("scales best") < said.index("Patterns, gpus=2")
