"""`resnetx trace --import`: the files of other programs become traces."""

import errno
import json
from pathlib import Path

import pytest

from resnetx.cli import main

COLUMNS = "id name forward backward comm size\n0 data 100 0 0 0\n1 conv1 200 300 50 1024\n2 loss 10 5 0 0\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "alexnet.tsv"
    path.write_text(COLUMNS)
    return str(path)


def test_a_file_is_imported_and_shown(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trace", "--import", file, "device=k80-562mhz", "workload=AlexNet", f"results={tmp_path}"]
    assert main([*words, "batch_size=1024"]) == 0
    assert "AlexNet, batch 1024 on k80-562mhz" in capsys.readouterr().out
    assert main([*words, "batch_size=512", "--json"]) == 0
    trace = json.loads(capsys.readouterr().out)
    assert [each["batch_size"] for each in trace["batches"]] == [512, 1024]
    assert (trace["how"], trace["device"]) == ("imported", "k80-562mhz")


def test_results_that_cannot_be_written_are_refused_by_name(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["trace", "--import", file, "device=k80-562mhz", "batch_size=8"]
    assert main([*words, f"results={file}"]) == 2
    assert f"results: cannot write {file}/imported" in capsys.readouterr().err.replace("\n", " ")

    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # of a write, which names no file

    monkeypatch.setattr("resnetx.record.sealing.write", full)
    assert main([*words, f"results={tmp_path}"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.replace("\n", " ").startswith(f"resnetx: results: cannot write {tmp_path} (No")) == (
        "",
        True,
    )


def test_a_rank_on_cores_is_no_gpu(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trace", "--import", file, "batch_size=8", "device=cpu-rank", f"results={tmp_path}", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "CPU"  # as a trace of ours would have it


def test_the_gpus_that_a_file_has_the_communication_of_are_kept(file: str, tmp_path: Path) -> None:
    words = ["trace", "--import", file, "batch_size=8", "device=k80-562mhz", f"results={tmp_path}", "gpus=2"]
    assert main(words) == 0
    (path,) = tmp_path.rglob("trace.json")
    assert json.loads(path.read_text())["batches"][0]["communication_gpus"] == 2


def test_gpus_of_a_file_without_communication_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "alone.tsv"
    path.write_text(COLUMNS.replace(" 50 1024", " 0 1024"))
    assert main(["trace", "--import", str(path), "batch_size=8", "device=k80-562mhz", "gpus=2"]) == 2
    assert "has no times of communication" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--import", "FILE"], "the file does not contain its batch; add batch_size=, samples on one GPU"),
        (
            ["--import", "FILE", "batch_size=8"],
            "does not say on which GPU it was taken; expected device=, one of a10-24gb, a100-pcie-40gb",
        ),
        (["--import", "FILE", "batch_size=8", "device=k80"], "device=k80: no GPU has that name"),
        (["--import", "FILE", "batch_size=0", "device=k80-562mhz"], "batch_size=0: expected at least 1"),
        (["--import", "FILE", "batch_size=two", "device=k80-562mhz"], "batch_size=two: expected a whole number"),
        (
            ["--import", "FILE", "seed=2"],
            "seed: not a setting of `resnetx trace --import`; it has batch_size, gpus, device",
        ),
        (["--import", "FILE", "batch_size=8", "device=k80-562mhz", "gpus=0"], "gpus=0: expected at least 1"),
        (["--import"], "--import: expected a file (six columns, or a profile of PyTorch), or profiles of all ranks"),
        (["device=0"], "device=0: only describes an imported file; add --import and the file"),
        (["FILE"], "to import a file, add --import"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    file: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *(file if word == "FILE" else word for word in words)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n", [], "is of nvidia-smi topo -m, which `topology --import`"),
        ("[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n", ["batch_size=32"], "is of p2pBandwidthLatencyTest"),
        ("{'loss': 2.5, 'epoch': 0.01}\n{'train_samples_per_second': 212.4}\n", [], "is of a program that trains"),
        (
            "#  size  count  type  redop  root  time  algbw\n",
            [],
            "is of nccl-tests: collectives, which `bench --import`",
        ),
    ],
)
def test_what_is_of_another_program_is_told_before_anything_is_asked_for(text, words, sentence, tmp_path, capsys):
    file = tmp_path / "pasted.txt"
    file.write_text(text)
    assert main(["trace", "--import", str(file), *words]) == 2
    assert sentence in capsys.readouterr().err
