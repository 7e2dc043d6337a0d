"""`model=python` on ranks: from a relative path, with batches of any kind, to verdicts, layers and predictions."""

from pathlib import Path

import pytest

import resnetx
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


def _fields(request):
    return {name: getattr(request, name) for name in request.__struct_fields__}
