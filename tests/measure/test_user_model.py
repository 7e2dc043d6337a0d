"""`model=python` on ranks: from a relative path, with batches of any kind, to verdicts, layers and predictions."""

from pathlib import Path

import pytest

import resnetx
from resnetx.api import largest
from resnetx.cli import main
from tests.workloads.test_user_file import TOKENS

pytestmark = [pytest.mark.slow, pytest.mark.dist]

SETTINGS = {"model": "python", "model.file": "ours.py", "batch_size": 4, "steps": 2}


def test_a_users_own_model_is_verified_traced_and_predicted(tmp_path, preloaded, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ours.py").write_text(TOKENS)
    verified = resnetx.verify(**SETTINGS, gpus=2)
    assert verified.outcome == "ok", verified.reason
    assert verified.equality.equal
    (traced,) = resnetx.trace(**SETTINGS, gpus=1, iterations=2)
    described = {name: value for name, value in SETTINGS.items() if name != "steps"}
    names = [each.name for each in traced.batches[0].times.layers]
    assert ["data", *names] == [*(each.name for each in resnetx.describe(**described).layers()), "loss"]
    assert [each.gradient_bytes for each in traced.batches[0].times.layers] == [0, 1600, 32, 0, 1800, 0]
    monkeypatch.setattr("resnetx.workloads.user_file._named", set())  # as in another process
    made = resnetx.predict(traced.source, systems=["cpu-host"], gpus=[1])
    assert made.points[0].outcome == "ok"
    request = verified.request
    assert (request.model.file, len(request.model.sha256)) == (str(tmp_path / "ours.py"), 64)
    elsewhere = request.model.__class__(file="/elsewhere/ours.py", function="build", sha256=request.model.sha256)
    assert request.__class__(**{**_fields(request), "model": elsewhere}).key == request.key
    run_file = next(tmp_path.glob("results/*/train/*/run.json"))
    with pytest.raises(resnetx.ConfigError, match="names code to run"):
        resnetx.train(str(run_file))


DROPPING = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.attn_dropout = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x):  # as Hugging Face's attention drops
        return nn.functional.dropout(self.layer(x), self.attn_dropout.p if self.training else 0.0)

def build():
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), Own())

def batch(n):
    return torch.randn(n, 4, 8)

def loss(outputs, batch):
    return outputs.square().mean()
"""


def test_attention_that_drops_by_a_rate_of_its_own_is_verified_without(tmp_path, preloaded, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ours.py").write_text(DROPPING)
    verified = resnetx.verify(**SETTINGS, gpus=2)
    assert verified.outcome == "ok" and verified.equality.equal


def test_the_largest_batch_is_searched_for_once(tmp_path, preloaded, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("ours.py").write_text(TOKENS)
    searches = []
    monkeypatch.setattr(largest, "found", lambda trees, _: searches.append(trees[0].update(batch_size=4)) or [None])
    assert main(["train", "model=python", "model.file=ours.py", "batch_size=max", "steps=1", "windows=1"]) == 0
    assert len(searches) == 1 and "batch 4" in capsys.readouterr().out


def _fields(request):
    return {name: getattr(request, name) for name in request.__struct_fields__}
