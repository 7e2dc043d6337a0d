"""No setting is passed over: beside a question that it belongs to, another value changes what is answered.

For each verb that computes its answers a table of questions, each with the settings that are then given another value.
A new setting of such a verb fails here until it has a row, or is among those that only say where results go.
"""

import json

import pytest

from resnetx.cli import main
from resnetx.settings.table import TABLE
from resnetx.settings.verbs import VERBS

LAB = "lab.system=gx8 replay=p100-sxm2-16gb model=alexnet batch_size=256 gpus=2"
KEPT = "out results"  # where it goes
MADE_BY_FILES = "model.file model.function"  # of a program of the user's own: tests/workloads/test_user_file.py
GROUPS = "model input strategy optimizer images overlap what_if lab"  # told by their settings, or below

ONE = {"small": "gx8", "known": "dgx1-p100", "large": "dgx-a100"}
TWO = {"small": "gx8 dgx1-p100", "known": "dgx1-p100 dgx1-v100", "large": "dgx-a100 dgx-h100"}
# (question, settings with another value).
OF_MODELS = [
    ("{small} model=resnetx batch_size=64 gpus=1,2", "model.x=4 model.width=128 model.classes=10 model=mlpx"),
    ("{small} model=gptx batch_size=4 gpus=1,2", "model.heads=6 model.seq=512 model.vocabulary=1000"),
    ("{small} model=torchvision batch_size=64 gpus=1,2", "model.name=resnet18"),
    ("{small} model=alexnet batch_size=256 gpus=1,4", "model.lrn=false batch_size=128 image_size=300 precision=fp16"),
    ("{small} model=alexnet batch_size=256 gpus=1,4", "gpus=1,8 strategy=after strategy.bucket_cap_mb=5"),
    ("{small} model=resnet50 batch_size=64 gpus=1,4", "strategy.first_bucket_mb=10"),
]
PREDICTED = [
    *OF_MODELS,
    ("{small} model=alexnet batch_size=256 gpus=1,4", "systems=dgx2,dgx-a100 convention=torch baseline=4 scaling=weak"),
    ("{small} model=alexnet batch_size=256 gpus=1,4", "strategy.gradient_as_bucket_view=false graph=true accumulate=2"),
    (
        "{small} model=alexnet batch_size=256 gpus=1,4",
        "optimizer=adamw optimizer.momentum=0 framework=mxnet gradients=fp16",
    ),
    ("{small} model=alexnet batch_size=256 gpus=1,4", "samples=uneven straggler=1.5 host_time=10ms host_step=100ms"),
    ("{small} model=alexnet batch_size=256 gpus=1,4", "memory=4GB memory_model=caffe clock=1000MHz"),
    ("{small} model=alexnet batch_size=256 gpus=1,4", "what_if.latency=10 input=dali"),
    (
        "{small} model=alexnet batch_size=256 gpus=4",
        "devices=0,2,4,6 library=nccl1 launch_mode=one-process transport=host",
    ),
    ("{small} model=alexnet batch_size=256 gpus=4", "what_if.bandwidth=pcie3:2"),
    ("{known} model=alexnet batch_size=256 gpus=8", "calibration=none"),
    ("{small} model=alexnet batch_size=256 gpus=4 transport=host", "staged=per-gpu"),
    ("{small} model=alexnet batch_size=256 gpus=4 strategy=server", "strategy.device=gpu overlap.parameters=true"),
    (
        "{small} model=resnet50 batch_size=256 gpus=4 input=dali",
        "input.recipe=paper input.decoder=cpu image_bytes=500kB",
    ),
    ("{small} model=resnet50 batch_size=256 gpus=4 input=dali", "overlap.input=false overlap.host_to_device=false"),
    ("{small} model=gptx batch_size=32 gpus=4 strategy=fsdp", "strategy.reshard=false checkpointing=true"),
    ("{small} model=resnet50 batch_size=64 gpus=1 precision=fp16", "channels_last=false"),
    ("{small} study=paper-alexnet-googlenet", "study=paper-resnetx"),
    ("{large} model=resnet50 batch_size=512 gpus=16 nodes=4 network=hdr200", "nodes=2 network=edr100 nics=1"),
]
STEERED = "systems=dgx1-v100 model=alexnet batch_size=256"
QUESTIONS = {
    "predict": [
        *PREDICTED,
        ("dgx1-p100 model=alexnet batch_size=256 gpus=2", "replay=p100-sxm2-16gb rate=256:2500 price=3"),
        (
            "dgx1-p100 model=alexnet batch_size=256 gpus=2",
            "sensitivity=true timeline=true",
        ),
        (LAB, "lab.system=dgx1-p100 lab.scale=10 lab.transport=host replay_jitter=0.2"),
        ("gx8 model=alexnet batch_size=256 gpus=2 rate=256:2500", "rate_error=0.2"),
        ("gx8 model=alexnet batch_size=256 gpus=2 price=3", "deadline=2h job_images=1e6"),
    ],
    "compare": [
        *PREDICTED,
        ("{small} study=paper", "job=model=alexnet,batch_size=64"),
        ("{small} model=alexnet batch_size=256 gpus=2", "rate=gx8:128:2500"),
        ("{small} model=alexnet batch_size=256 gpus=2 rate=gx8:128:2500", "rate_error=0.2"),
    ],
    "describe": [
        *((question.removeprefix("{small} "), settings) for question, settings in OF_MODELS),
        ("gpus=8", "study=paper-resnetx intensity=10"),
        ("model=alexnet", "convention=torch"),
        ("gpus=8 intensity=10", "memory=2GB model.x=2 image_size=64 batch_size=64 precision=fp16 strategy=fsdp"),
    ],
    "topology": [
        ("gx8", "systems=dgx2 size=1MiB"),
        ("gx8 collective=allreduce", "gpus=4 devices=0,4 collective=broadcast size=1MiB library=nccl1 transport=host"),
        ("dgx1-p100 collective=allreduce", "calibration=none launch_mode=one-process"),
        ("gx8 collective=allreduce transport=host", "staged=per-gpu"),
        ("dgx-a100 collective=allreduce nodes=4 network=hdr200", "nodes=8 network=edr100 nics=1"),
        ("gx8 pick=3", "pick=4 free=0,1,2,4,5"),
    ],
    "steer": [
        ("systems=dgx1-v100 model=resnetx batch_size=64", "model.x=4 model.width=128 model.classes=10"),
        ("systems=dgx1-v100 model=gptx batch_size=8", "model.heads=6 model.seq=512 model.vocabulary=1000"),
        ("systems=dgx1-v100 model=torchvision batch_size=64", "model.name=resnet18"),
        ("systems=dgx1-v100 model=resnet50 batch_size=64", "strategy.first_bucket_mb=25"),
        (STEERED, "model.lrn=false"),
        (STEERED, "model=resnet50 strategy=layerwise strategy.bucket_cap_mb=5 batch_size=64 image_size=300"),
        (STEERED, "precision=fp16 devices=0,1,2,3 library=nccl1 pattern=server systems=dgx1-p100"),
        (f"{STEERED} pattern=server", "phases=true receivers=7"),
        (f"{STEERED} pattern=server phases=true", "durations=20ms,1s"),
        (f"{STEERED} pattern=server phases=true durations=20ms,1s", "reconfiguration=1s"),
        (f"{STEERED} reach=any", "switch=sip-mems-64"),
        (STEERED, "rate=dgx1-p100:256:2500"),
    ],
    "lab": [("systems=gx8", "gpus=2 devices=0,4 transport=host scale=10 systems=dgx1-p100")],
}
# Which other tests show the rest.
ELSEWHERE = {
    "predict": f"{KEPT} {MADE_BY_FILES} {GROUPS} split input.threads input.format communication parameters compile",
    "compare": f"{KEPT} {MADE_BY_FILES} {GROUPS} split input.threads input.format compile size explain papers score "
    "sensitivity timeline",
    "describe": f"{KEPT} {MADE_BY_FILES}",
    "topology": f"{KEPT} gpu cpu nic pcie like switches sockets uplink",
    "steer": f"{KEPT} {MADE_BY_FILES} strategy.gradient_as_bucket_view strategy.reshard strategy.device reach",
    "lab": KEPT,
}
SAID = {"request", "prediction", "framework", "settings"}  # fields that repeat what was asked


def answered(words: str, capsys: pytest.CaptureFixture[str]) -> object:
    """What is answered, without what repeats the question; a sentence where nothing can be."""
    status = main([*words.split(), "--json"])
    out, err = capsys.readouterr()
    assert status in (0, 1), f"{words}: {err}"
    return [without_words(json.loads(line)) for line in out.splitlines()]


def without_words(value: object) -> object:
    """A record without the fields that repeat what was asked."""
    if isinstance(value, dict):
        return {key: without_words(inner) for key, inner in value.items() if key not in SAID}
    return [without_words(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("verb", QUESTIONS)
def test_every_setting_has_a_question(verb):
    tried = {word.partition("=")[0] for _, settings in QUESTIONS[verb] for word in settings.split()}
    read = {row.name for row in TABLE.values() if verb in row.readers and VERBS[verb].offers(row.name)}
    assert read - {*ELSEWHERE[verb].split()} - tried == set()
    assert tried <= read, "settings that the verb does not read"


@pytest.mark.slow
@pytest.mark.parametrize("verb", QUESTIONS)
def test_every_setting_changes_an_answer(verb, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    passed_over = []
    for question, settings in QUESTIONS[verb]:
        words = f"{verb} {question.format(**(TWO if verb == 'compare' else ONE))}"
        before = answered(words, capsys)
        for setting in settings.split():
            key = setting.partition("=")[0]
            kept = [word for word in words.split() if not word.startswith(f"{key}=")]
            if key == "systems":
                kept = [word for word in kept if "=" in word or word == verb]
            if answered(" ".join([*kept, setting]), capsys) == before:
                passed_over.append(f"{words}: {setting}")
    assert passed_over == []
