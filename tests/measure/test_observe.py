"""`resnetx.observe`: loops of a user's own, in one process and on ranks under torchrun."""

import copy
import io
import re
import sys
from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn

import resnetx
from resnetx.cli import main
from resnetx.measure import observe
from resnetx.measure.observed_loop import TRACED, WARMUP
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
    assert len(seen.core_wait_s) == SAMPLES and min(seen.core_wait_s) >= 0


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
    assert resnetx.report(tmp_path).parent.joinpath("layers-batch5.csv").exists()  # beside the steps
    assert re.search(
        r"Measured: a step of Sequential takes \S+ ms at 5 samples\.", resnetx.report(tmp_path / "trace").read_text()
    )
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
        (nn.Linear(1, 1), {"samples": True}, "samples=True: expected steps"),
        (nn.LazyLinear(1), {}, "weight has no shape yet; call the module once"),
    ],
)
def test_what_cannot_be_observed_is_refused_before_the_loop(model, settings, words, tmp_path):
    with pytest.raises(resnetx.ConfigError, match=words), resnetx.observe(model, **settings, results=tmp_path):
        pytest.fail("the loop was entered")


@pytest.fixture
def one_rank():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def share_out(model):
    """As tensor parallelism shares out a weight."""
    from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor

    model[3].weight = nn.Parameter(distribute_tensor(model[3].weight.detach(), DeviceMesh("cpu", [0]), [Shard(0)]))


class Experts(nn.Sequential):
    """A layer that sends samples to the ranks of its experts."""

    def forward(self, x):
        from torch.distributed._functional_collectives import all_to_all_single_autograd

        made = super().forward(x)
        return all_to_all_single_autograd(made, None, None, torch.distributed.group.WORLD)


def test_other_parallelism_is_refused_by_name(one_rank, tmp_path):
    from torch.distributed.pipelining import PipelineStage

    shared = model_of()
    share_out(shared)
    experts = model_of()
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(experts, ["3.weight", "3.bias"])
    for model, words in (
        (shared, "3.weight is sharded by tensor parallelism"),
        (PipelineStage(model_of(), 0, 1, torch.device("cpu")), "a PipelineStage of pipeline parallelism"),
        (nn.parallel.DistributedDataParallel(experts), "ignore its parameter 3.weight, as in expert parallelism"),
    ):
        with pytest.raises(resnetx.ConfigError, match=words), resnetx.observe(model, results=tmp_path):
            pytest.fail("the loop was entered")


def test_other_parallelism_within_the_block_is_named_and_the_loop_goes_on(one_rank, tmp_path, caplog):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    def staged(model):
        stage = PipelineStage(model, 0, 1, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, 2, loss_fn=lambda made, _: made.sum())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(WARMUP + 3):
            schedule.step(torch.ones(4, 3, 8, 8), target=torch.ones(4))
            optimizer.step()

    for model, loop_of, words in (
        (model_of(), staged, "a stage of pipeline parallelism calls it"),
        (Experts(*model_of()), lambda model: loop(model, WARMUP + 3), "an all-to-all between ranks, as expert"),
    ):
        caplog.clear()
        with resnetx.observe(model, results=tmp_path):
            loop_of(model)
        assert [words in record.message for record in caplog.records] == [True]
        assert observations(tmp_path) == [] and not hooks_of(model)


def test_fsdp_within_the_block_is_found(one_rank, tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = model_of()
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(WARMUP + SAMPLES + 2):
            optimizer.zero_grad()
            model(torch.ones(5, 3, 8, 8)).sum().backward()
            optimizer.step()
    (seen,) = observations(tmp_path)
    assert (seen.strategy, len(seen.step_s), seen.workload) == ("fsdp", SAMPLES, "Sequential")


FAULTS = [f"Loop.{name}" for name in ("begin", "_called", "_begins", "_ended", "_ready", "_updated", "_trace_layers")]


@pytest.mark.parametrize("place", [*FAULTS, "Loop._gradients_are_there", "Loop.seen", "_trace", "write", "old_files"])
def test_whatever_fails_is_one_warning_and_the_loop_goes_on(place, tmp_path, monkeypatch, caplog):
    losses = []
    for model in (first := model_of(), copy.deepcopy(first)):
        with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
            loop(model, WARMUP + SAMPLES + TRACED + 2)
        losses.append([parameter.sum().item() for parameter in model.parameters()])
        owner, _, name = place.rpartition(".")
        monkeypatch.setattr(getattr(observe, owner) if owner else observe, name, lambda *_: 1 / 0)
    assert losses[0] == losses[1] and not hooks_of(first)
    (warning,) = [record.message for record in caplog.records]
    assert warning.startswith("observe: ZeroDivisionError (line ")
    assert warning.endswith(("nothing is written", "the loop is not observed"))


def test_a_folder_that_cannot_be_written_is_said_before_the_loop(tmp_path, caplog):
    (tmp_path / "mine").touch()
    with resnetx.observe(model := model_of(), results=tmp_path / "mine"):
        assert "Not a directory" in caplog.text and not hooks_of(model)


def test_a_copy_of_the_model_has_no_hooks_that_tell_and_needs_no_resnetx(tmp_path):
    model = model_of()
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        loop(model, 2)
        twin = copy.deepcopy(model)
        torch.save(model, saved := io.BytesIO())
    assert b"resnetx" not in saved.getvalue()
    saved.seek(0)
    for own in (twin, torch.load(saved, weights_only=False)):
        loop(own, 2)
        assert not [each for each in hooks_of(own) if "resnetx" in repr(each)]


def test_what_steps_within_the_backward_pass_is_not_observed(tmp_path, caplog):
    model = model_of()
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.01)
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        for _ in range(WARMUP + SAMPLES + 2):
            model(torch.ones(5, 3, 8, 8)).sum().backward()
    assert observations(tmp_path) == [] and "it steps within the backward pass" in caplog.text


def test_samples_are_counted_where_the_model_takes_a_dictionary(tmp_path):
    class Net(nn.Linear):
        def forward(self, batch):
            return super().forward(batch["x"])

    model = Net(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with resnetx.observe(model, samples=SAMPLES, results=tmp_path):
        for _ in range(WARMUP + SAMPLES + 2):
            model({"x": torch.ones(3, 4)}).sum().backward()
            optimizer.step()
    assert observations(tmp_path)[0].batch_size == 3


@pytest.mark.slow
@pytest.mark.parametrize("made", ["before", "within", "in place"])
def test_a_compiled_model_is_seen_from_outside_of_what_is_compiled(made, tmp_path):
    """As a graph without a break, in which a hook would be an error."""
    model = model_of()
    settings = {"fullgraph": True, "backend": "eager"}
    if made == "in place":
        model.compile(**settings)
    compiled = torch.compile(model, **settings) if made == "before" else model
    own = model._compiled_call_impl
    with resnetx.observe(compiled, samples=SAMPLES, results=tmp_path):
        if made == "within":
            compiled = torch.compile(model, **settings)
        loop(compiled, WARMUP + SAMPLES + TRACED + 2)
    (seen,) = observations(tmp_path)
    assert (len(seen.step_s), seen.workload, min(seen.forward_s) > 0) == (SAMPLES, "Sequential", True)
    assert not (tmp_path / "trace").exists() and not hooks_of(model) and model._compiled_call_impl is own


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
    assert main(["explain", str(tmp_path)]) == 2
    assert "give the folder of one of them" in " ".join(capsys.readouterr().err.split())


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
    ranks = resnetx.explain(tmp_path)
    named = [(each.rank, each.phase) for each in ranks if each.late]
    assert named == [(1, "input")] or (not named and "for a core, which other programs use" in ranks[0].why)
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
