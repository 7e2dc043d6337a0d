"""Iterations of profiles without step marks: what PyTorch writes without a schedule, or of inference."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from resnetx.errors import ConfigError
from resnetx.formats import kineto
from resnetx.formats.kineto_windows import _repetition
from tests.documentation import ROOT, blocks

PROFILE = Path("profile.json")
NODE = "autograd::engine::evaluate_function: "
ACCUMULATE = "torch::autograd::AccumulateGrad"
LAYERS = ("aten::conv2d", "aten::relu", "aten::linear")


class Program:
    """What a profiler sees of a program, as Kineto writes it: on a GPU, each operation launches a kernel."""

    def __init__(self, *, gpu: bool = True, name: str = "Tesla V100-SXM2-32GB") -> None:
        self.events: list[dict[str, Any]] = []
        self.time = self.sequence = self.launched = 0
        self.gpu, self.name = gpu, name

    def event(self, cat: str, name: str, dur: int = 10, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 1, "ts": self.time, "dur": dur, "args": args}
        )
        self.time += dur + 1

    def operation(self, name: str, took: int = 5, runs: str = "kernel", **args: Any) -> None:
        """An operation, and what it launched: a kernel, or a copy from the host ("htod")."""
        begin = self.time
        self.event("cpu_op", name, **args)
        if not self.gpu or not runs:
            return
        self.launched += 1
        link = {"correlation": self.launched}
        cat, what = ("kernel", name) if runs == "kernel" else ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)")
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 1}
        self.events.append({**launch, "ts": begin + 1, "dur": 1, "args": link})
        on_gpu = {"ph": "X", "cat": cat, "name": what, "pid": 0, "tid": 7, "ts": begin + 1000, "dur": took}
        self.events.append({**on_gpu, "args": link})

    def set_up(self, parameters: int = 4) -> None:
        """Parameters are made on the host, and copied."""
        for _ in range(parameters):
            self.operation("aten::empty", runs="")
            self.operation("aten::uniform_", runs="")
        for _ in range(parameters):
            self.operation("aten::to", took=9000, runs="htod")

    def forward(self, *layers: str, took: int = 5) -> list[int]:
        numbers = []
        for name in layers or LAYERS:
            self.sequence += 1
            numbers.append(self.sequence)
            self.operation(name, took, **{"Sequence number": self.sequence})
        return numbers

    def backward(self, numbers: list[int], shapes: list[Any] | None = None) -> None:
        """The nodes of a pass; the first layer has a parameter of 10 x 4, whose shape may be told."""
        for number in reversed(numbers):
            self.operation(f"{NODE}AnyBackward0", **{"Sequence number": number})
        told = {} if shapes is None else {"Input Dims": shapes, "Input type": ["float"]}
        begin = self.time
        self.event("cpu_op", NODE + ACCUMULATE)
        self.events.append(
            {"ph": "X", "cat": "cpu_op", "name": ACCUMULATE, "pid": 7, "tid": 1, "ts": begin + 1, "dur": 2,
             "args": told}
        )  # fmt: skip

    @contextmanager
    def marked(self, number: int) -> Iterator[None]:
        """What runs within is one step as `prof.step()` marks it."""
        begin = self.time
        yield
        mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 7, "tid": 1}
        self.events.append({**mark, "ts": begin, "dur": self.time - begin})
        self.time += 1

    def update(self, name: str = "SGD") -> None:
        self.event("user_annotation", f"Optimizer.step#{name}.step")

    def train(self, *layers: str, took: int = 5, optimizer: bool = True, clears: str = "") -> None:
        """A step; `clears`: gradients are cleared "first", or "late", as some do it behind the forward pass."""
        if clears == "first":
            self.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad")
        numbers = self.forward(*layers, took=took)
        if clears == "late":
            self.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad")
        self.backward(numbers, [[10, 4]])
        if optimizer:
            self.update()
        else:
            self.operation("aten::add_")  # an update by hand

    def parse(self) -> kineto.Profile:
        file = {"deviceProperties": [{"id": 0, "name": self.name}] if self.gpu else [], "traceEvents": self.events}
        return kineto.parse(json.dumps(file).encode(), PROFILE)


def iterations(found: kineto.Profile) -> int:
    (count,) = {len(layer.forward_s) for layer in found.times.layers}
    return count


def layers(found: kineto.Profile) -> list[str]:
    return [layer.name for layer in found.times.layers if layer.name != "unattributed"]


# ---- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize("clears", ["", "first", "late"])
@pytest.mark.parametrize("optimizer", [True, False])
def test_each_step_of_training_is_an_iteration_and_set_up_is_none(gpu: bool, clears: str, optimizer: bool) -> None:
    program = Program(gpu=gpu)
    program.set_up()
    for _ in range(3):
        program.train(optimizer=optimizer, clears=clears)
    found = program.parse()
    assert iterations(found) == 3
    assert layers(found) == ["conv2d", "relu", "linear"]
    assert sum(layer.gradient_bytes for layer in found.times.layers) == 4 * 40
    assert found.times.host_to_device_s == []
    assert "3" in found.taken
    assert ("3 optimizer steps" in found.taken) == optimizer


def test_a_step_lasts_from_one_update_to_the_next() -> None:
    program = Program(gpu=False)
    program.set_up()
    for _ in range(3):
        program.train()
    (first_s, *later_s) = program.parse().times.step_s
    assert later_s == [first_s + 1e-6] * 2  # the first one has no gap before it
    assert first_s == pytest.approx(87e-6)  # 8 events of 10 us, and the gaps between them


def test_gradients_that_are_accumulated_belong_to_one_iteration() -> None:
    program = Program()
    for _ in range(2):
        for _ in range(2):
            program.backward(program.forward(), [[10, 4]])
        program.event("user_annotation", "Optimizer.step#SGD.step")
    found = program.parse()
    assert iterations(found) == 2
    assert layers(found) == ["conv2d", "relu", "linear", "conv2d@1", "relu@1", "linear@1"]
    sizes = [layer.gradient_bytes for layer in found.times.layers]
    assert (found.accumulated, sum(sizes), sizes[:3]) == (2, 160, [0, 0, 0]), "the last pass has the sum, and sends it"


def test_two_optimizers_of_one_backward_pass_end_one_iteration() -> None:
    program = Program()
    for _ in range(3):
        program.train()
        program.event("user_annotation", "Optimizer.step#Adam.step")
    found = program.parse()
    assert iterations(found) == 3
    assert "6 optimizer steps ended 3 iterations" in found.taken


def test_a_step_that_the_profile_cuts_off_is_left_out() -> None:
    program = Program()
    for _ in range(2):
        program.train()
    program.backward(program.forward(), [[10, 4]])
    assert iterations(program.parse()) == 2


def test_a_first_step_that_warmed_up_is_left_out_and_one_that_did_not_is_kept() -> None:
    for took, kept in ((400, 3), (6, 4)):
        program = Program()
        program.train(took=took)
        for _ in range(3):
            program.train()
        found = program.parse()
        assert iterations(found) == kept
        assert ("left out as warm-up" in found.taken) == (kept == 3)


def test_steps_that_alternate_are_refused_with_the_line_to_add() -> None:
    program = Program()
    for _ in range(3):
        program.train("aten::conv2d")
        program.train("aten::linear", "aten::relu")
    with pytest.raises(ConfigError, match=r"^profile\.json: has no step marks .* only 3 are alike; .*prof\.step\(\)"):
        program.parse()


def test_passes_within_the_update_are_seen() -> None:
    """PyTorch Lightning gives its optimizer a closure: forward pass, clearing and backward pass run within the step."""
    program = Program()
    for _ in range(3):
        begin = program.time
        program.train(optimizer=False, clears="late")
        program.events.append(
            {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#Adam.step", "pid": 7, "tid": 1, "ts": begin,
             "dur": program.time - begin}
        )  # fmt: skip
    found = program.parse()
    assert (iterations(found), layers(found)) == (3, ["conv2d", "relu", "linear"])
    assert "each clearing of gradients was taken for that of an iteration" in found.taken


def test_passes_that_differ_somewhere_are_refused() -> None:
    program = Program()
    blocks = ("aten::conv2d", "aten::relu", "aten::max_pool2d")
    program.forward(*blocks, *blocks, "aten::dropout", "aten::linear", "aten::relu", "aten::linear")
    program.forward(*blocks, *blocks, "aten::linear", "aten::relu", "aten::linear")
    with pytest.raises(ConfigError, match="operations repeat, but not the same each time"):
        program.parse()


def test_marks_count_where_there_are_any() -> None:
    program = Program()
    for number in range(2):
        with program.marked(number):
            program.train()
            program.train()
    found = program.parse()
    assert (iterations(found), found.taken, found.accumulated) == (2, "", 1)
    assert found.remarks == (
        "a step mark has 2 backward passes with updates between them (of several optimizers or steps)",
    )


def test_marks_of_micro_batches_are_one_iteration_up_to_the_update() -> None:
    program = Program()
    for number in range(8):
        with program.marked(number):
            program.backward(program.forward(), [[10, 4]])
            if number % 4 == 3:
                program.update()
    found = program.parse()
    assert (iterations(found), found.accumulated) == (2, 4)
    assert "4 step marks up to an update, one for each micro-batch, were taken for one iteration" in found.remarks
    assert sum(layer.gradient_bytes for layer in found.times.layers) == 160


def test_a_mark_of_an_evaluation_is_left_out() -> None:
    program = Program()
    for number in range(5):
        with program.marked(number):
            program.train() if number != 2 else program.forward()
    found = program.parse()
    assert (iterations(found), found.remarks) == (4, ("1 step mark without a backward pass (evaluation) left out",))


def test_marks_without_any_backward_pass_beside_one_outside_of_them_count() -> None:
    program = Program()
    program.train()
    for number in range(3):
        with program.marked(number):
            program.forward()
    assert (iterations(program.parse()), program.parse().remarks) == (3, ())


NETWORK = ("aten::conv2d", "aten::batch_norm", "aten::relu", "aten::conv2d", "aten::linear")


@pytest.mark.parametrize("marks", [True, False])
def test_a_step_with_an_evaluation_is_left_out_or_said_to_have_one(marks: bool) -> None:
    program, always = Program(), Program()
    for made, every in ((program, 4), (always, 1)):
        for number in range(4):
            with made.marked(number) if marks else nullcontext():
                if number % every == every - 1:
                    for name in NETWORK:
                        made.operation(name)
                made.train(*NETWORK)
    found = program.parse()
    assert (iterations(found), found.left_out, found.remarks) == (3, 1, ())
    assert always.parse().remarks == (kineto.EVALUATED,)


def test_two_optimizers_that_take_turns_are_refused_without_marks() -> None:
    program = Program()
    for _ in range(3):
        for name in ("Adam", "SGD"):
            program.backward(program.forward())
            program.update(name)
    with pytest.raises(
        ConfigError, match=r"two optimizers update in turn \(Optimizer.step#Adam.step, Optimizer.step#SGD"
    ):
        program.parse()


# ---- inference ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [True, False])
def test_passes_of_inference_are_what_repeats_behind_the_set_up(gpu: bool) -> None:
    program = Program(gpu=gpu)
    program.set_up(16)
    for _ in range(4):
        program.operation("aten::zeros", runs="")  # between passes, of the benchmark
        program.forward("aten::conv2d", "aten::relu", "aten::conv2d", "aten::relu", "aten::linear")
    found = program.parse()
    assert iterations(found) == 4
    assert layers(found) == ["conv2d", "relu", "conv2d@1", "relu@1", "linear"]
    assert found.taken == "each run of the same 5 operations was taken for an iteration, of which it has 4"
    assert not found.trains
    assert found.times.host_to_device_s == []
    assert all("no backward pass" in layer.gradient_bytes for layer in found.times.layers)
    assert "ProfilerStep" in found.times.step_s


def test_a_single_pass_is_one_iteration_without_its_set_up() -> None:
    program = Program()
    program.set_up()
    program.forward("aten::embedding", "aten::conv2d", "aten::relu", "aten::linear")
    found = program.parse()
    assert (iterations(found), layers(found)) == (1, ["embedding", "conv2d", "relu", "linear"])
    assert "nothing in it repeats" in found.taken


@pytest.mark.parametrize("head", [(), ("aten::layer_norm", "aten::linear")])
def test_blocks_of_one_pass_are_no_iterations(head: tuple[str, ...]) -> None:
    """Twelve blocks behind an embedding: a single pass, which looks like twelve."""
    program = Program()
    program.forward("aten::embedding", *("aten::linear", "aten::gelu") * 12, *head)
    with pytest.raises(ConfigError, match=r"operations repeat, but not the same each time: .*schedule="):
        program.parse()


def called(program: Program, module: str, *operations: str) -> None:
    begin = program.time
    program.time += 1
    program.forward(*operations)
    program.events.append(
        {"ph": "X", "cat": "python_function", "name": f"nn.Module: {module}", "pid": 7, "tid": 1, "ts": begin,
         "dur": program.time - begin}
    )  # fmt: skip


def test_with_modules_each_call_of_the_network_is_an_iteration() -> None:
    program = Program()
    program.set_up()
    for _ in range(3):
        called(program, "Net_0", "aten::linear", "aten::linear")
        called(program, "Softmax_0", "aten::softmax")
    found = program.parse()
    assert iterations(found) == 3
    assert layers(found) == ["Net_0", "Softmax_0"]
    program = Program()
    called(program, "Net_0", *["aten::linear"] * 8)
    assert iterations(program.parse()) == 1


def test_calls_that_do_not_repeat_are_refused() -> None:
    program = Program()
    for module in ("Net_0", "Net_0", "Other_0"):
        called(program, module, "aten::linear")
    with pytest.raises(ConfigError, match=r"its 3 calls of networks are not the same each time"):
        program.parse()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("", (0, 0)),
        ("abc", (0, 0)),
        ("abab", (0, 2)),
        ("aaaa", (0, 1)),
        ("xyabcabcabc", (2, 3)),
        ("ababcababc", (0, 5)),  # not what repeats within
        ("abcabcx", (0, 0)),
    ],
)
def test_what_repeats_up_to_the_end(names: str, found: tuple[int, int]) -> None:
    assert _repetition(names) == found


# ---- copies ---------------------------------------------------------------------------------------------------------


def test_copies_from_the_host_are_input_and_no_layers() -> None:
    program = Program()
    for _ in range(3):
        program.operation("aten::to", took=40, runs="htod")
        first = program.forward("aten::conv2d")
        program.operation("aten::copy_", took=30, runs="htod")  # in the middle of the forward pass
        program.backward([*first, *program.forward("aten::linear")], [[10, 4]])
        program.event("user_annotation", "Optimizer.step#SGD.step")
    found = program.parse()
    assert layers(found) == ["conv2d", "linear"]
    assert found.times.host_to_device_s[1:] == pytest.approx([70e-6] * 2)


# ---- what the documentation says ------------------------------------------------------------------------------------


def snippet() -> str:
    (found,) = blocks(ROOT / "docs" / "traces.md", "python")
    return found


def run_in(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> kineto.Profile:
    """What the code writes around the steps of a small network on the CPU."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))

    def train_step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    monkeypatch.chdir(folder)
    exec(code, {"train_step": train_step})
    import gzip

    return kineto.parse(gzip.decompress((folder / "profile.json.gz").read_bytes()), PROFILE)


@pytest.mark.slow
def test_the_lines_of_the_page_make_a_profile_that_is_read_right_and_so_do_those_without_a_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = snippet()
    assert len(code.splitlines()) == 8
    gradients = 4 * (3 * 8 * 9 + 8 + 8 * 30 * 30 * 10 + 10)
    marked = run_in(tmp_path, code, monkeypatch)
    assert (iterations(marked), marked.taken) == (10, "")
    assert sum(layer.gradient_bytes for layer in marked.times.layers) == gradients
    without, count = re.subn(r"schedule=steps, ", "", code)
    assert count == 1
    unmarked = run_in(tmp_path, without, monkeypatch)
    assert "13 optimizer steps ended 13 iterations" in unmarked.taken
    assert iterations(unmarked) == 13 - ("left out as warm-up" in unmarked.taken)
    assert sum(layer.gradient_bytes for layer in unmarked.times.layers) == gradients
    assert layers(unmarked) == layers(marked) == ["Conv2d_0", "ReLU_0", "Flatten_0", "Linear_0", "cross_entropy_loss"]
