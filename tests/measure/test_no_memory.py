import subprocess
import sys

import pytest

from resnetx.cli import main
from resnetx.measure.launch.ending import no_memory, sentence


@pytest.mark.parametrize(
    "text",
    [
        # seen under `ulimit -v`
        "MemoryError",
        "MemoryError: std::bad_alloc",
        "ImportError: libtorch_cpu.so: failed to map segment from shared object",
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 4194304 bytes. Error code 12 (Cannot allocate memory)",
        "OSError: [Errno 12] Cannot allocate memory",
        # of GPUs
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "RuntimeError: FIND was unable to find an engine to execute this computation",
        "h200:812:840 [0] transport.cc:112 NCCL WARN Cuda failure 2 'out of memory'",
    ],
)
def test_a_message_that_says_so(text):
    assert no_memory(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: 3",
        "ImportError: libgomp.so.1: cannot allocate memory in static TLS block",  # its space is fixed at link time
        "RuntimeError: GET was unable to find an engine to execute this computation",  # for which there is none
        "RuntimeError: Resource temporarily unavailable",  # of threads, whose number is limited elsewhere
    ],
)
def test_a_message_that_says_something_else(text):
    assert not no_memory(text)


def test_what_may_have_other_causes_is_lack_of_memory_where_the_address_space_is_limited():
    program = "import sys; from resnetx.measure.launch import ending; "
    program += "sys.exit(not ending.no_memory(sys.argv[1]))"
    limited = ["bash", "-c", 'ulimit -v 2000000; exec "$@"', "-", sys.executable, "-c", program]
    for text in ("RuntimeError: Resource temporarily unavailable", "RuntimeError: could not create a primitive"):
        assert subprocess.run([*limited, text], check=False).returncode == 0


def test_a_batch_that_no_memory_of_the_host_holds_is_refused_in_a_sentence(capsys, tmp_path):
    words = ["model.x=1", "batch_size=64000000", "image_size=64", "gpus=1", "input=synthetic"]
    assert main(["train", *words, f"results={tmp_path}", "dirty=true"]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "batch_size=64000000: a step would read 3.15 TB at once, and this machine has " in err
    assert "use a smaller batch_size" in err and not list(tmp_path.iterdir())


def test_tokens_are_counted_as_wide_as_torch_makes_them(capsys, tmp_path):
    words = ["model=gptx", "model.seq=1000", "batch_size=200000000", "gpus=1", "input=synthetic"]
    assert main(["train", *words, f"results={tmp_path}", "dirty=true"]) == 2
    assert "a step would read 1.60 TB at once" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("smaller", ["batch_size", "size", ""])
def test_what_torch_says_of_the_hosts_memory_is_one_sentence_with_its_reason(smaller):
    torchs = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    torchs += "allocate 3145728000000 bytes. Error code 12 (Cannot allocate memory)"
    advice = f"; use a smaller {smaller}" * bool(smaller)
    told = sentence(RuntimeError(torchs), smaller)
    assert told == f"out of memory: 3.15 TB at once{advice} (RuntimeError: {torchs})" and no_memory(told)
