"""`resnetx.observe`: loops of a user's own, in one process and on ranks under torchrun."""

import sys
from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn

import resnetx
from resnetx.cli import main
from resnetx.measure.observe import TRACED, WARMUP
from resnetx.record import write
from resnetx.record.traces import observations, rank_folder
from tests.documentation import ROOT, blocks
from tests.measure.starting import run_ranks

SAMPLES = 4
LOOPS = Path(__file__).with_name("observed_loops.py")


def model_of(classes=3):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, classes))


def loop(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.no_grad():
            model(torch.ones(2, 3, 8, 8))  # an evaluation, which is no pass of the step
        model(torch.ones(5, 3, 8, 8)).sum().backward()
        optimizer.step()


def hooks_of(model):
    return [
        hooks for module in model.modules() for hooks in (module._forward_pre_hooks, module._forward_hooks) if hooks
    ] + [each for each in model.parameters() if each._post_accumulate_grad_hooks]


def test_the_phases_of_each_step_add_up_to_it_and_no_hook_stays(tmp_path):
    model = model_of()
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        loop(model, WARMUP + SAMPLES + TRACED + 4)
        assert not hooks_of(model)
    (seen,) = observations(tmp_path)
    assert (seen.batch_size, seen.micro_batches, seen.strategy, len(seen.step_s)) == (5, 1, "bare", SAMPLES)
    phases = (seen.update_s, seen.input_s, seen.waiting_s, seen.forward_s, seen.backward_s, seen.exposed_s)
    for step_s, *parts in zip(seen.step_s, *phases, strict=True):
        assert sum(parts) == pytest.approx(step_s, abs=1e-6) and min(parts) >= 0
    assert "not DDP" in seen.unknown["buckets"]


def test_the_trace_of_a_loop_is_predicted_on_several_ranks(tmp_path):
    model = model_of()
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        loop(model, WARMUP + SAMPLES + TRACED + 2)
    trace = resnetx.load(tmp_path / "trace")
    layers = {each.name: each for each in trace.batches[0].times.layers}
    assert [(name, each.gradient_bytes) for name, each in layers.items()] == [
        ("0", 448), ("1", 0), ("2", 0), ("3", 1740)
    ]  # fmt: skip
    assert all(len(each.forward_s) == TRACED and min(each.forward_s) > 0 for each in layers.values())
    assert min(layers["0"].backward_s) > 0 and max(layers["1"].backward_s) == 0
    made = resnetx.predict(tmp_path / "trace", systems=["cpu-host"], gpus=[1, 2])
    assert [point.gpus for point in made.points] == [1, 2] and all(point.iteration_s for point in made.points)


def test_a_loop_that_fails_leaves_what_it_has_and_no_hooks(tmp_path):
    model = model_of()
    with pytest.raises(ZeroDivisionError), resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        loop(model, WARMUP + 3)
        raise ZeroDivisionError
    assert len(observations(tmp_path)[0].step_s) == 2  # the first step begins with the end of one before
    assert not hooks_of(model) and not (tmp_path / "trace").exists()
    with resnetx.observe(model, results=tmp_path):
        loop(model, 2)
    assert observations(tmp_path) == []  # of a loop too short nothing is written, and nothing old is left


def test_a_model_that_is_called_twice_before_a_backward_pass_is_in_one_pass(tmp_path):
    """As a discriminator is: of real and of made images; in the step of the other network it has a pass of its own."""
    model, other = nn.Linear(8, 1), nn.Linear(2, 8)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (model, other)]
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        for _ in range(WARMUP + SAMPLES + 2):
            made = other(torch.ones(3, 2))
            optimizers[0].zero_grad()
            (model(torch.ones(3, 8)) - model(made.detach())).sum().backward()
            optimizers[0].step()
            model(made).sum().backward()
            optimizers[1].step()
    (seen,) = observations(tmp_path)
    assert (seen.micro_batches, seen.batch_size, len(seen.step_s)) == (2, 6, SAMPLES)
    phases = (seen.update_s, seen.input_s, seen.waiting_s, seen.forward_s, seen.backward_s, seen.exposed_s)
    for step_s, *parts in zip(seen.step_s, *phases, strict=True):
        assert sum(parts) == pytest.approx(step_s, abs=1e-6) and min(parts) >= 0


def test_an_optimizer_that_calls_the_model_is_refused_by_what_it_does(tmp_path, caplog):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).square().sum()
        loss.backward()
        return loss

    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        for _ in range(WARMUP + SAMPLES + 2):
            optimizer.step(closure)
    assert observations(tmp_path) == []
    assert "calls the model within its step" in caplog.text


def test_an_evaluation_between_backward_pass_and_update_moves_no_mark(tmp_path):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        for _ in range(WARMUP + SAMPLES + 2):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            with torch.no_grad():
                model(torch.ones(3, 4))
            optimizer.step()
    (seen,) = observations(tmp_path)
    phases = (seen.update_s, seen.input_s, seen.waiting_s, seen.forward_s, seen.backward_s, seen.exposed_s)
    for step_s, *parts in zip(seen.step_s, *phases, strict=True):
        assert sum(parts) == pytest.approx(step_s, abs=1e-6) and min(parts) >= 0


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("net", {}, "model: a str; expected the torch.nn.Module"),
        (nn.ReLU(), {}, "no parameters that are trained"),
        (nn.Linear(1, 1), {"samples": 0}, "samples=0: expected steps"),
    ],
)
def test_what_cannot_be_observed_is_refused_before_the_loop(model, settings, words, tmp_path):
    with pytest.raises(resnetx.ConfigError, match=words), resnetx.observe(model, **settings, results=tmp_path):
        pytest.fail("the loop was entered")


def test_a_model_that_is_sharded_by_tensor_parallelism_is_refused_by_name(tmp_path):
    from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.Linear(4, 4)
        model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), DeviceMesh("cpu", [0]), [Shard(0)]))
        refused = pytest.raises(resnetx.ConfigError, match="weight is sharded by tensor parallelism")
        with refused, resnetx.observe(model, results=tmp_path):
            pass
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.dist
def test_the_rank_and_the_phase_that_are_late_are_named(tmp_path, preloaded, capsys):
    phases = ["input", "forward", "backward"]
    run_ranks(sys.executable, 2, LOOPS, tmp_path, *phases)
    for phase in phases:
        assert [(each.rank, each.phase) for each in resnetx.explain(tmp_path / phase) if each.late] == [(1, phase)]
    assert [each.micro_batches for phase in phases for each in observations(tmp_path / phase)] == [1, 1, 1, 1, 2, 2]
    for each in (rank for phase in phases for rank in observations(tmp_path / phase)):
        assert [bucket.size_bytes for bucket in each.buckets] == [2176, 1088] or len(each.buckets) == 3
        assert sum(bucket.size_bytes for bucket in each.buckets) == each.gradient_bytes
        latest = each.buckets[-1].ready_s
        assert all(map(lambda one, step: 0 < one <= step, latest, each.step_s))
    assert [(each.rank, each.phase) for each in resnetx.explain(tmp_path / "fsdp") if each.late] == [(1, "input")]
    assert [each.micro_batches for each in observations(tmp_path / "fsdp")] == [2, 2]
    assert main(["explain", str(tmp_path / "backward")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Rank 1 (" in out and "in backward; without it a step would be" in out
    (tmp_path / "backward" / "rank1" / "record.json").unlink()
    assert main(["explain", str(tmp_path / "backward")]) == 2
    assert "rank 1 is not" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.dist
def test_the_loop_of_the_page_goes_from_nothing_to_a_prediction(tmp_path, preloaded, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop.py").write_text(blocks(ROOT / "docs" / "observe.md", "python")[0])
    run_ranks(sys.executable, 2, "loop.py")
    assert [each.steps for each in resnetx.explain("mine")] == [64, 64]
    assert main(["predict", "mine/trace", "systems=cpu-host", "gpus=1,2"]) == 0


@pytest.mark.long
@pytest.mark.parametrize("library", ["lightning_fabric", "transformers"])
def test_the_loop_of_a_library_is_observed(library, tmp_path):
    pytest.importorskip(library)
    run_ranks(sys.executable, 2, LOOPS.with_name("observed_libraries.py"), library, tmp_path)
    assert [(each.rank, each.phase) for each in resnetx.explain(tmp_path) if each.late] == [(1, "input")]
    for each in observations(tmp_path):
        assert each.strategy == "ddp" and sum(bucket.size_bytes for bucket in each.buckets) == each.gradient_bytes


def test_ranks_that_train_different_parameters_are_refused(tmp_path):
    for rank, classes in enumerate((3, 4)):
        with resnetx.observe(model := model_of(classes), samples=SAMPLES, results=tmp_path / "one"):
            loop(model, WARMUP + 3)
        seen = msgspec.structs.replace(observations(tmp_path / "one")[0], rank=rank, ranks=2)
        write(rank_folder(tmp_path, rank).record, seen)
    with pytest.raises(resnetx.ConfigError, match="train different parameters"):
        resnetx.explain(tmp_path)
