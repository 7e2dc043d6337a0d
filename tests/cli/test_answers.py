"""Every verb answers first, in one sentence that its screen, `-q` and `--json` say alike, within 80 columns and so many
lines. A new verb fails here until it has a row in one of the tables."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from resnetx.cli import main, show
from resnetx.settings.files import CONFIGS
from resnetx.settings.verbs import VERBS
from tests.nccl_tables import table

RESULTS = CONFIGS.parent / "results"
ONE, SEVERAL = show.LINES, show.LINES_OF_SEVERAL
EACH = 40  # a line for each of what is listed

# Of committed records, described systems and small files: (words, lines at most).
SCREENS = {
    "bench": [
        ("--import nccl-tests.log systems=dgx-h100", ONE),
        ("--import nccl-tests.log collective=allreduce results=again", ONE),
    ],
    "compare": [
        ("dgx1-p100 gx8 model=alexnet batch_size=256 gpus=2,4,8", SEVERAL),
        ("dgx1-p100 gx8 study=paper", SEVERAL),
        ("results/cpu-2core/quickstart results/cpu-2core/quickstart", SEVERAL),
        ("results/lab/paper/study results/lab/truth/study", SEVERAL),
        ("results/lab/truth/prediction results/lab/truth/study", SEVERAL),
        ("results/cpu-2core/bench results/two-nodes/bench", SEVERAL),
        ("papers=all", SEVERAL),
    ],
    "describe": [
        ("model=alexnet batch_size=256", ONE),
        ("model=googlenet batch_size=256", ONE),
        ("model=resnet50 batch_size=32,64", SEVERAL),
        ("study=paper", SEVERAL),
        ("intensity=10 gpus=8", ONE),
    ],
    "doctor": [("", ONE)],
    "explain": [
        ("results/cpu-2core/quickstart", ONE),
        ("results/h100/train", ONE),
        ("results/h100/bench", ONE),
        ("results/lab/truth/prediction results/lab/truth/study", SEVERAL),
        ("results/lab/paper/study results/lab/truth/study", SEVERAL),
        ("results/lab/links/dgx1-p100-copies results/lab/links/gx8-copies", SEVERAL),
    ],
    "images": [("mine --verify", ONE)],
    "list": [("", EACH), ("gpus", 2 * EACH), ("studies", 2 * EACH), ("systems models", ONE)],
    "report": [("results/h100/train out=page", ONE), ("killed dgx1-p100 out=page", ONE)],
    "lab": [("systems=gx8 scale=100", ONE), ("systems=gx8,dgx1-p100", SEVERAL)],
    "predict": [
        ("gx8 model=alexnet batch_size=256", ONE),
        ("gx8,dgx1-p100,dgx-h200 model=alexnet batch_size=256", SEVERAL),
        ("gx8,dgx1-p100 model=alexnet batch_size=256 gpus=8 price=gx8:8,dgx1-p100:16 deadline=24h", SEVERAL),
        ("dgx1-p100 model=resnet50 batch_size=256 gpus=4,8 rate=32:195,64:219", ONE),
        ("gx8,dgx1-p100 study=paper-alexnet-googlenet", SEVERAL),
        ("results/cpu-2core/truth/trace systems=cpu-host gpus=1,2", ONE),
        ("--validate", SEVERAL),
    ],
    "reproduce": [("tallent2017", SEVERAL), ("li2019", SEVERAL), ("tallent2017 results/lab/paper/study", SEVERAL)],
    "steer": [("systems=dgx1-v100 model=alexnet batch_size=256", ONE)],
    "topology": [
        ("", EACH),
        ("gx8", ONE),
        ("dgx1-p100 gx8", ONE),
        ("gx8 size=1k,1M", ONE),
        ("gx8 collective=allreduce size=1k..1G", ONE),
        ("dgx1-p100,gx8,dgx2,dgx-a100 collective=allreduce size=1k,1M", SEVERAL),
        ("dgx1-v100 devices=0,7", ONE),
        ("dgx1-p100 pick=4", ONE),
        ("--this", ONE),
        ("--validate", SEVERAL),
    ],
    "trace": [("--import columns.txt batch_size=32 device=v100-sxm2-16gb", ONE)],
}
# Of what two ranks on this machine measure: the screen that is shown of it is then said again, with -q and as JSON.
TINY = "model.x=1 model.width=4 batch_size=4 image_size=64 input=synthetic steps=1 windows=1 warmup=3 gpus=2"
MEASURED = {
    "train": f"{TINY} oversubscribe=true",
    "sweep": f"{TINY} repeats=1 twins=0 oversubscribe=true",
    "verify": "model.x=1 model.width=4 batch_size=4 image_size=16 gpus=2 input=synthetic",
    "check": f"{TINY.replace('input=synthetic ', '')} size=64KiB iterations=2 threads=1 oversubscribe=true budget=2h",
    "bench": "collective=allreduce copy=device,to-host gpus=2 size=8,1KiB,64KiB,1MiB iterations=3",
    "trace": "model.x=1 model.width=16 batch_size=4 image_size=32 input=synthetic iterations=2 gpus=1,2",
}
COPIED = ("record: ", "trace: ", "page: ", "export ", "resnetx ", "A: ", "B: ")  # a line that is copied stays whole


def test_every_verb_answers():
    assert {*SCREENS, *MEASURED} == {*VERBS} == {verb for verb in VERBS if "json" in VERBS[verb].flags}


def paragraph(text: str) -> str:
    """The first one, on one line."""
    return " ".join(text.partition("\n\n")[0].split())


def judge(out: str, err: str, quiet: str, said: str, most: int) -> None:
    """That the screen, -q and --json answer alike, and that the screen is as narrow and as short as promised."""
    answer = paragraph(out)
    assert answer and {" ".join(json.loads(line)["answer"].split()) for line in said.splitlines()} == {answer}
    assert next(iter(json.loads(said.partition("\n")[0]))) == "answer"
    first = " ".join(quiet.split())
    assert first and answer.startswith(first) and quiet.count("\n") <= 4
    lines = [*out.splitlines(), *err.splitlines()]
    assert [line for line in lines if len(line) > 80 and len(line.split()) > 1 and not line.startswith(COPIED)] == []
    assert len(out.splitlines()) <= most, out


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the committed results, and two small files of other programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "width_of", lambda stream: 80)
    (tmp_path / "results").symlink_to(RESULTS)
    shutil.copytree(RESULTS / "cpu-2core" / "quickstart", tmp_path / "killed", ignore=shutil.ignore_patterns("report"))
    for file in sorted((tmp_path / "killed").glob("*/record.json"))[:5]:
        file.write_text(file.read_text()[:300])
    (tmp_path / "mine" / "n0").mkdir(parents=True)
    (tmp_path / "mine" / "n0" / "0.JPEG").write_text("no image")
    (tmp_path / "columns.txt").write_text("0 data 100 0 0 0\n1 conv1 20000 30000 0 1024\n2 fc 1000 5000 0 90000000\n")
    times_s = {8 << 3 * power: 1e-5 * 1.9**power for power in range(9)}
    (tmp_path / "nccl-tests.log").write_text(table("allreduce", 8, times_s))


@pytest.fixture
def alike(capsys, here, monkeypatch):
    """Runs a command, and judges what it concludes as its screen, with -q and as JSON; typed again, if it does not."""
    concluded = []
    conclude = show.conclude

    def kept(*given, **more):
        concluded.append((given, more))
        conclude(*given, **more)

    def run(verb, words, most=None):
        assert main([verb, *words]) in (0, 1)
        shown = capsys.readouterr()
        ((_, *given), more) = concluded[0] if concluded else ((None,), {})
        said = []
        for flag, options in (("-q", Namespace(json=False, quiet=True)), ("--json", Namespace(json=True))):
            show.begin(options)
            if given:
                conclude(options, *given, **more)
            else:
                main([verb, *words, flag])
            said.append(capsys.readouterr().out)
        return judge(shown.out, shown.err if most else "", *said, most or more.get("most", ONE))

    monkeypatch.setattr(show, "conclude", kept)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "words", "most"), [(verb, *each) for verb, screens in SCREENS.items() for each in screens]
)
def test_screen_quiet_and_json_answer_alike(verb, words, most, alike, undrawn):
    kept = [] if "results=" in words or "--import" not in words else ["results=kept"]
    alike(verb, [*words.split(), *kept], most)


def test_flags_say_what_the_screen_concludes(capsys, here):
    said = []
    for flag in ([], ["-q"], ["--json"]):
        assert main(["describe", "model=alexnet", "batch_size=256", *flag]) == 0
        said.append(capsys.readouterr().out)
    judge(said[0], "", *said[1:], ONE)


@pytest.mark.dist
@pytest.mark.parametrize("verb", MEASURED)
def test_what_is_measured_is_answered_alike(verb, alike, preloaded):
    alike(verb, [*MEASURED[verb].split(), "results=measured"])


def test_many_files_that_are_skipped_for_one_reason_are_counted(capsys, here):
    killed = sorted(str(file) for file in Path("killed").glob("*/record.json"))
    for flag in ([], ["-q"], ["--all"]):
        assert main(["explain", "killed", *flag]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert said.startswith("skipped: ")
        if flag == ["--all"]:
            assert all(f"skipped: {file}: truncated" in said for file in killed[:5])
        else:
            assert said.startswith("skipped: 5 files: truncated or not JSON") and said.count("killed/") == 1


def test_every_image_that_cannot_be_decoded_is_listed(capsys, here):
    for number in range(1, 30):
        Path(f"mine/n0/{number}.JPEG").write_text("no image")
    assert main(["images", "mine", "--verify"]) == 1
    out = capsys.readouterr().out
    assert (out.splitlines()[0], out.count(".JPEG: not an image")) == ("mine: 30 faults.", 30)


def test_a_split_that_is_uneven_is_said(capsys):
    words = ["describe", "resnet50", "batch_size=64", "-q"]
    assert main([*words, "gpus=2,7"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("35.2, 10.1 on each in the mean, as 64 do not divide over 7.")
    assert main([*words, "gpus=2,8"]) == 0
    assert "in the mean" not in capsys.readouterr().out
