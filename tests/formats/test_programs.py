"""What is given to a verb that does not read it is named, with the command that does."""

import gzip
import json
import pickle
import re

import pytest

from resnetx import cli

# As torch 2.15 dumps them: `_dump_fr_trace()` and `torch.cuda.memory._snapshot()`, with the keys of both.
FLIGHT_RECORDER = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "entries": [{"record_id": 0, "profiling_name": "nccl:all_reduce", "state": "started", "input_sizes": [[3, 4]]}],
}
MEMORY = {"segments": [{"total_size": 2097152, "segment_type": "small", "blocks": []}], "device_traces": [[]]}
GPU = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}
XLA = {"traceEvents": [GPU, {"ph": "X", "name": "fusion.3", "ts": 1, "dur": 2, "args": {"hlo_op": "fusion.3"}}]}
HOROVOD = [{"name": "process_name", "ph": "M", "pid": 0}, {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 0}]
CHAKRA = {"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1, "name": "[pytorch|profiler|execution_trace|thread]"}]}
PROFILE = {"schemaVersion": 1, "traceEvents": []}
NCCL_TESTS = {"results": [{"size": 8, "out_of_place": {"time": 1.0}}]}
LSCPU = "Architecture:        x86_64\n  CPU op-mode(s):    32-bit, 64-bit\nCPU(s):              96\n"
VERBS = (["trace", "--import"], ["bench", "--import"], ["topology", "--import"])


def written(content):
    return (content if isinstance(content, str) else json.dumps(content)).encode()


@pytest.mark.parametrize(
    "verb", [*VERBS, ["predict", "gx8", "model=alexnet", "calibration="]], ids=lambda verb: verb[0]
)
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nccl_trace_rank_0", pickle.dumps(FLIGHT_RECORDER, protocol=2), "flight recorder.*`torchfrtrace FOLDER`"),
        ("fr.json", written(FLIGHT_RECORDER), "flight recorder.*`torchfrtrace FOLDER`"),
        ("fr", written(FLIGHT_RECORDER), "flight recorder.*`torchfrtrace FOLDER`"),
        ("snapshot.pickle", pickle.dumps(MEMORY), "snapshot of CUDA memory.*`python -m torch.cuda._memory_viz"),
        ("snapshot.json", written(MEMORY), "snapshot of CUDA memory.*`python -m torch.cuda._memory_viz"),
        ("other.pickle", pickle.dumps({"a": 1}), "a pickle of Python, which may run code"),
        ("host.trace.json", written(XLA), "profiler of TensorFlow and JAX.*rate=BATCH:RATE"),
        ("host.xplane.pb", b"\n\x9c\x01\x08\x01\x12\x0d/device:GPU:0\xff", "a profile of TensorFlow or JAX"),
        ("timeline.json", written(HOROVOD), "Horovod"),
        ("et.json", written(CHAKRA), "execution trace.*export_chrome_trace"),
        (
            "all_reduce",
            b'{"numCycle":0, "name":"AllReduce", "ranks":2, "size":8, "inPlace":0, "time":1}\n',
            "rccl-tests -Z",
        ),
        ("all_reduce.csv", b"numCycle,name,nodes,ranks,size,time\n0,AllReduce,1,2,8,1\n", "rccl-tests -Z"),
        (
            "amd.json",
            b'[{"gpu": 0, "links": [{"gpu": 1, "link_type": "XGMI", "num_hops": 1}]}]',
            "amd-smi topology --json",
        ),
        ("grind.txt", b"Host/Device Bandwidth Matrix (GB/s), memory=Pinned\n   Dir\\D       0\n", "busGrind"),
        (
            "stacks.txt",
            b"train.py(12): step;torch/nn/modules/conv.py(460): forward;aten::conv2d 1234\n",
            "export_stacks",
        ),
        (
            "old.json",
            b'[{"name": "conv2d", "ph": "X", "ts": 1, "dur": 2, "tid": 1, "pid": "CPU functions"}]',
            "before 1.8",
        ),
        ("report.nsys-rep", b"\x00\x01\xfe", "Nsight Systems .nsys stats"),
        ("weights.pt", b"PK\x03\x04\x00\x00", "a ZIP archive"),
        ("events.out", b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\x1a\x0dbrain.Event:2", "TensorBoard"),
        (
            "export.csv",
            b'"Step","run-a - images/s","run-a - images/s__MIN"\n"0","120","120"\n',
            "wandb.*rate=BATCH:RATE",
        ),
        ("job.sh", b"#!/bin/bash\n#SBATCH --nodes=2\n", "Slurm"),
        ("lscpu.txt", written(LSCPU), "lscpu"),
        ("page.html", b"<!DOCTYPE html>\n<html><body></body></html>", "<html>: not a topology|a web page"),
    ],
)
def test_what_a_file_is_instead_is_said_by_every_verb(tmp_path, capsys, verb, name, content, said):
    (tmp_path / name).write_bytes(content)
    *words, last = verb
    assert (
        cli.main([*words, *([f"{last}{tmp_path / name}"] if last.endswith("=") else [last, str(tmp_path / name)])]) == 2
    )
    told = " ".join(capsys.readouterr().err.split())
    assert name in told
    assert re.search(said, told), told


@pytest.mark.parametrize(
    ("verb", "content", "said"),
    [
        (VERBS[0], NCCL_TESTS, "nccl-tests: collectives, which `bench --import` reads"),
        (VERBS[1], PROFILE, "PyTorch's profiler, which `trace --import` reads"),
        (VERBS[2], PROFILE, "PyTorch's profiler, which `trace --import` reads"),
    ],
)
def test_what_another_verb_reads_is_named_with_it(tmp_path, capsys, verb, content, said):
    (tmp_path / "own.json").write_bytes(written(content))
    assert cli.main([*verb, str(tmp_path / "own.json")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_verb_is_not_told_to_read_what_it_has_just_refused(tmp_path, capsys):
    (tmp_path / "topo.txt").write_text("GPU0  CPU Affinity  NUMA Affinity\nGPU0  0-31  0\n")
    assert cli.main(["topology", "--import", str(tmp_path / "topo.txt")]) == 2
    assert ": expected the text of nvidia-smi topo -m" in " ".join(capsys.readouterr().err.split())


def test_a_packed_file_is_named_where_none_is_unpacked(tmp_path, capsys):
    (tmp_path / "topo.xml.gz").write_bytes(gzip.compress(b"<system/>"))
    assert cli.main(["topology", "--import", str(tmp_path / "topo.xml.gz")]) == 2
    assert "compressed by gzip; unpack it first (gunzip)" in capsys.readouterr().err
