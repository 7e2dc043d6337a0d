"""`model=python`: a user's own file, counted, called and blamed."""

import subprocess
from pathlib import Path

import msgspec
import pytest
import torch

import resnetx
from resnetx import choices, workloads
from resnetx.errors import ConfigError
from resnetx.workloads import layers, user_file, user_program
from resnetx.workloads.counts import Layer

TOKENS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(50, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.head = nn.Linear(8, 50)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, tokens, mask=None):
        self.calls += 1
        x = self.token(tokens) * self.scale
        if float(x.sum()) > 1e9:
            x = x * 2
        return {"logits": self.head(x)}


class Ours:
    def __init__(self):
        self.module = Net()

    def batch(self, n):
        tokens = torch.randint(50, (n, 6))
        return {"tokens": tokens, "labels": tokens.roll(1, 1)}

    def loss(self, outputs, batch):
        return nn.functional.cross_entropy(outputs["logits"].flatten(0, 1), batch["labels"].flatten())


def build():
    return Ours()
"""
NET = "nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5))"
IMAGES = f"from torch import nn\n\n\ndef build():\n    return {NET}\n"
PAIRS = (
    IMAGES.replace("from", "import torch\nfrom")
    + "\n\ndef batch(n):\n    return (torch.rand(n, 3, 8, 8), torch.rand(n, 5))\n"
    + "\n\ndef loss(outputs, batch):\n    return ((outputs - batch[1]) ** 2).mean()\n"
)


@pytest.fixture
def written(tmp_path):
    """Writes the user's file, and names it as a command does."""

    def write(source: str, name: str = "ours.py", function: str = "build") -> choices.PythonSettings:
        path = tmp_path / name
        path.write_text(source)
        user_file.name(str(path))
        return choices.PythonSettings(file=str(path), function=function)

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "image_size"),
    [
        (choices.ResNetXSettings(x=2, width=8, classes=10), 32),
        (choices.Torchvision(name="vit_b_16", classes=10), 32),
        (choices.Torchvision(name="densenet121", classes=10), 32),
    ],
    ids=["resnetx", "vit_b_16", "densenet121"],
)
def test_watching_a_module_run_finds_what_torch_fx_finds(model, image_size):
    module = workloads.build(model, image_size)
    runs = []
    for count in layers.FEW:
        images = torch.randn(count, 3, image_size, image_size)
        runs.append(layers.run_of(module, lambda images=images: module(images), images))
    found = layers.table(module, runs, [name for name, _ in module.named_parameters()])
    assert found.layers[1:] == workloads.traced(model, image_size)
    assert (found.layers[0].name, found.layers[0].output_shape) == ("data", (3, image_size, image_size))
    assert not found.unseen


def test_what_torch_fx_cannot_follow_is_counted_whatever_a_batch_is(written):
    layers = user_program._count(written(TOKENS), 0).layers
    assert [(each.name, each.kind, each.output_shape, each.parameters) for each in layers if each.parameters] == [
        ("token", "embedding", (6, 8), (400,)),
        ("mul", "mul", (6, 8), (8,)),
        ("head", "linear", (6, 50), (400, 50)),
    ]
    assert sum(each.multiply_adds for each in layers) == 6 * 8 * 50
    assert [each.name for each in user_program._count(written(PAIRS), 0).layers] == ["data", "0", "2"]
    assert [each.name for each in user_program._count(written(IMAGES), 8).layers] == ["data", "0", "2"]


RECURRENT = """
import torch
from torch import nn


class Ours:
    module = nn.LSTM(8, 16, batch_first=True)

    def batch(self, n):
        return torch.rand(n, 5, 8)

    def loss(self, outputs, batch):
        return outputs[0].square().mean()


def build():
    return Ours()
"""


def test_recurrent_layers_have_flop_and_what_torch_counts_none_of_is_named(written, monkeypatch):
    _, lstm = user_program._count(written(RECURRENT), 0).layers
    assert lstm.multiply_adds == 5 * 4 * 16 * (8 + 16)
    monkeypatch.setattr(layers, "_flops_of_rnn", lambda _: 0)
    assert user_program._count(written(RECURRENT), 0).unseen == ["torch counts no FLOP of lstm (lstm)"]


UNSEEN = TOKENS.replace(
    '        return {"lo', '        x = x + torch.mm(x.flatten(0, 1), self.own).view_as(x)\n        return {"lo'
).replace("        self.head", "        self.own = nn.Parameter(torch.eye(8))\n        self.head")


def test_what_was_not_seen_is_named_and_its_gradients_are_sent(written, monkeypatch):
    told = layers.Recorder._tell

    def deaf(self, name, *others):
        if name != "mm":  # as if C++ had called it
            told(self, name, *others)

    monkeypatch.setattr(layers.Recorder, "_tell", deaf)
    found = user_program._count(written(UNSEEN), 0)
    assert found.layers[-1].parameters == (64,)
    assert found.layers[-1].name == "own"
    assert [each.partition(", and")[0] for each in found.unseen] == [
        "14% of its FLOP are in no operation that was seen",
        "no operation was seen to read the parameter own, which has a gradient",
    ]


SCRIPTED = TOKENS.replace("nn.Linear(8, 50)", "torch.jit.script(nn.Linear(8, 50))")


def test_a_part_in_torchscript_which_takes_no_hooks_is_named(written):
    found = user_program._count(written(SCRIPTED), 0)
    assert any("(TorchScript) was not seen" in each for each in found.unseen)


FAULTS = {
    "syntax": (TOKENS + "\ndef", r"ours.py:\d+: importing it ends with SyntaxError"),
    "import": ("import torch\nimport nowhere_at_all\n", r"ours.py:2: importing it ends with ModuleNotFoundError"),
    "exit": ("raise SystemExit(3)\n", r"ours.py:1: importing it ends with exit\(3\)"),
    "function": (TOKENS.replace("def build", "def make"), r"model.function=build: .* no such function; it has make\Z"),
    "imported": ("from torch import *\nfrom os import abort as build\n", r"build: .* no such function; it has none\Z"),
    "built": ("def build():\n    return 3\n", "returns int; expected a module of torch"),
    "raised": ("def build():\n    return 1 / 0\n", r"ours.py:2: build\(\) ends with ZeroDivisionError"),
    "no batch": (IMAGES, r"define one, or set image_size=224"),
    "batch": (TOKENS.replace("randint(50, (n, 6))", "randint(50, (4, 6))"), "have the same shapes"),
    "nothing": (PAIRS.replace("(torch.rand(n, 3, 8, 8), torch.rand(n, 5))", "[n]"), r"list without a tensor"),
    "forward": (TOKENS.replace("* self.scale", "* self.sale"), r"ours.py:16: its forward pass ends with Attribute"),
    "loss": (PAIRS.replace(".mean()", ""), r"its loss is a tensor of shape \(2, 5\); expected one number"),
    "unused": (TOKENS.replace(" * self.scale", ""), "parameters scale have no gradient"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_in_the_file_is_one_sentence_with_its_line(fault, written):
    source, sentence = FAULTS[fault]
    with pytest.raises(ConfigError, match=sentence) as raised:
        user_program._count(written(source), 0)
    assert "\n" not in str(raised.value)


def test_lack_of_memory_stays_what_it_is(written):
    model = written(TOKENS.replace('return {"logits"', 'raise torch.OutOfMemoryError("no room")\n        return {"x"'))
    with pytest.raises(torch.OutOfMemoryError):
        user_program._count(model, 0)


def test_each_rank_has_its_samples_of_every_tensor(written):
    flat = TOKENS.replace(
        '"labels": tokens.roll(1, 1)}', '"labels": tokens.roll(1, 1).flatten(), "mask": torch.eye(6)}'
    )
    model = written(flat)
    parts = user_program.parts_of(model, user_program.made(model, 0))
    assert parts == [user_program.BatchPart(0, 1), user_program.BatchPart(0, 6), None]


@pytest.mark.slow
def test_a_saved_table_needs_no_torch_and_is_lost_when_what_it_imports_changes(written, tmp_path, light_python):
    beside = tmp_path / "beside.py"
    beside.write_text("WIDTH = 5\n")
    model = written("from beside import WIDTH\n" + PAIRS.replace("144, 5", "144, WIDTH"))
    made = user_file.counted(model, 0)
    assert set(made.files) == {"ours.py", "beside.py"}
    user_file._named.clear()
    assert user_file.counted(model, 0) == made
    without = (
        "import sys; sys.modules['torch'] = None; import resnetx; from resnetx.errors import ConfigError\n"
        f"try: print(resnetx.describe(**{{'model': 'python', 'model.file': {model.file!r}}})[0].parameters)\n"
        "except ConfigError as error: print(error)"
    )
    words = [light_python, "-c", without]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "837\n"
    beside.write_text("WIDTH = 6 - 1\n")
    assert "PyTorch is not installed" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    with pytest.raises(ConfigError, match="only what you name yourself is run"):
        user_file.counted(model, 0)


@pytest.mark.parametrize("setting", ["file: ours.py", "function: build"])
def test_a_study_names_no_code(setting, tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text(f"grids: [{{model: python, model.{setting}, gpus: [1]}}]\n")
    name = setting.partition(":")[0]
    with pytest.raises(ConfigError, match=rf"line 1: model\.{name}: names code, which no study may run"):
        resnetx.describe(study=str(study))


def test_a_saved_table_holds_while_all_that_the_file_imports_is_as_it_was(written, tmp_path):
    model, beside = written(IMAGES), tmp_path / "beside.py"
    beside.write_text("WIDTH = 5\n")
    saved = tmp_path / "table.json"
    plain = {"in_place": False, "multiply_adds": 0}
    layers = [
        Layer(name="data", kind="data", inputs=(), output_shape=(3,), parameters=(), **plain),
        Layer(name="a", kind="linear", inputs=("data",), output_shape=(5,), parameters=(15,), **plain),
    ]
    table = user_file.Saved(layers, [], {"ours.py": "", "beside.py": user_file.digest(beside)})
    saved.write_bytes(msgspec.json.encode(table))
    assert user_file._saved(saved, Path(model.file)) == table
    beside.unlink()
    assert user_file._saved(saved, Path(model.file)) is None
    assert user_file._saved(saved, tmp_path / "elsewhere" / "ours.py") == table
