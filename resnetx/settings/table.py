"""Every setting, once: its name, type, default, meaning, range, and the verbs that read it.

A row is all that is written of a setting by hand. Made from it are: the files of `configs/`, `docs/settings.md` and the
types of `keywords` (`python -m resnetx.cli.reference` writes them out, and tests hold them equal), help, completion,
range checks and refusals. To add a setting, add a row, and run that.

    Setting("steps", int, 10, "per window, at least; more where a window would take less than 0.2 s",
        verbs=f"{RUNS} check", axis="sweep trace", own={"verify": 3}, range=Range(1, 10**9, "a window of a year")),

Nothing is loaded for it: help and a completion in the shell have to answer at once.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

DAY_S = 86_400


class Range(NamedTuple):
    """The values that a setting may have, in its own unit."""

    least: float
    most: float = math.inf
    why: str = ""  # why `most` is large enough
    above: bool = False  # `least` itself is rejected
    null: str = ""  # what null means, to suggest it instead of a value that is too small


class Setting(NamedTuple):
    """A row of the table."""

    name: str  # with dots in a group: "model.x"
    type: Any  # of one value; `GROUP`: it has settings instead
    default: Any
    about: str  # its meaning, in one line
    verbs: str = ""  # that read it; "": those of its group
    axis: str = ""  # those of them of which each of several values is another point
    several: str = ""  # those that take several values together
    each: str = ""  # those that answer anew for each of several values
    own: Mapping[str, Any] = {}  # defaults of verbs where they differ
    types: Mapping[str, Any] = {}  # types of verbs where they differ
    range: Range | None = None
    path: bool = False  # a leading ~ is the user's home, and programs may give a `Path`
    comma: bool = False  # a comma is a part of a text, and several values need brackets
    near: bool = False  # who reads it refuses an unknown word, with the nearest known one: a struct has any text
    unit: str = ""  # of a number, where a text may give another one: "s" of "2h"
    example: str = ""  # of such a text
    choices: tuple[str, ...] = ()  # of a group whose choices have settings of their own: files of `configs/NAME/`
    of: str = ""  # the choices of its group that have it
    at: Mapping[str, str] = {}  # its meaning in choices where it differs
    defaults: Mapping[str, Any] = {}  # its default in choices (a group's: of `model`) where it differs
    tags: str = ""  # what else it is: see `TAGS`

    @property
    def readers(self) -> list[str]:
        """The verbs that read it."""
        return (self.verbs or TABLE[self.name.partition(".")[0]].verbs).split()

    def takes_list(self, verb: str) -> bool:
        """Whether a verb takes several values of it, as points or together."""
        return verb in f"{self.axis} {self.several} {self.each}".split()

    def type_for(self, verb: str) -> Any:
        """The type of one value, as a verb takes it."""
        return self.types.get(verb, self.type)

    def default_of(self, choice: str) -> Any:
        """Its default, where a choice of its group has it."""
        return self.defaults.get(choice, self.default)

    def about_of(self, choice: str) -> str:
        """Its meaning, where a choice of its group has it."""
        return self.at.get(choice, self.about)


class Section(NamedTuple):
    """Settings that belong together, in the order in which they are explained."""

    title: str
    settings: tuple[Setting, ...]


TAGS = {
    "workload": "names workloads, or how they are split: points, and none of a question's own settings",
    "launch": "how ranks are started where one process on this node is not enough",
    "study": "how often the points of a study run, and how they are counted: its file may have it, as all of a point",
    "load": "decides on the load of a clock that `doctor` looks for, or on the clock",
    "assumed": "by it a point is predicted otherwise than its machine is described",
    "no-lab": "which machine it is, or how its messages are modelled: both are given in the lab",
    "message": "only says how messages are modelled",
    "run": "changes what a run reads, keeps or learns, and nothing that is predicted",
    "uncounted": "changes only memory and copies, and nothing that is counted",
}

GROUP = None

# Verbs that have many settings in common, and those of which a study, or a list, makes several points.
RUNS = "train sweep trace verify"
LAUNCHED = "train sweep trace bench"
PREDICTED = "compare predict"
WORKLOADS = f"describe {RUNS} {PREDICTED}"
POINTS = "describe sweep trace compare bench predict steer"

# El Capitan (LLNL, 2024) has 44,544 GPUs in 11,136 nodes; Colossus (xAI, 2025), by its owner, 200,000.
GPUS = Range(1, 2**18, "Colossus has 200,000")
GPU_IDS = Range(0, GPUS.most - 1, GPUS.why)
MEMORY = Range(10**6, 2**50, "1 PiB, in bytes")  # a number without a unit is of bytes, not of GB
SEEDS = Range(0, 2**32 - 1, "32 bits, which every library accepts")
BUCKETS = Range(0, 2**20, "a TiB of gradients", above=True, null="DDP's own")
FACTORS = Range(0, 10**6, "a million times", above=True)
SLOWER = Range(1, 10**6, "a link of 100 GB/s then carries 100 kB/s")
TIMES = Range(1, 10**4, "the record stores the time of each")

CIFAR = ("alexnet32", "cifarnet", "densenet100", "densenet40", "nasnet", "resnet110", "resnet20")

# fmt: off
SECTIONS = (
    Section("groups: model, input, strategy, optimizer, tracker", (
        Setting("model", str, "resnetx", "any classifier of torchvision, as resnet50",
            choices=("alexnet", "alexnet32", "bert", "cifarnet", "densenet100", "densenet40", "googlenet", "gptx",
                "mlpx", "nasnet", "nasnetmobile", "python", "resnet110", "resnet20", "resnetx", "torchvision"),
            verbs=f"{WORKLOADS} bench check steer doctor", axis=POINTS, tags="workload load"),
        Setting("model.x", int, 8, "residual blocks", of="gptx mlpx resnetx", axis=POINTS,
            at={"gptx": "transformer blocks", "mlpx": "dense layers between the first and the last"},
            defaults={"gptx": 12},
            range=Range(1, 2**15, "the activations of one 224x224 image then take 158 GB")),
        Setting("model.width", int, 64, "channels of every convolution", of="gptx mlpx resnetx", axis=POINTS,
            at={"gptx": "of the residual stream", "mlpx": "of every dense layer"},
            defaults={"gptx": 768, "mlpx": 1024},
            range=Range(1, 2**15, "a dense layer of MLP/x then has a billion parameters")),
        Setting("model.heads", int | None, None,
            "heads of attention, which share model.width out; null: model.width / 64", of="gptx", axis=POINTS,
            range=Range(1, 2**10, "GPT-3 has 96")),
        Setting("model.seq", int, 1024, "tokens of a sequence, which is a sample", of="bert gptx", axis=POINTS,
            defaults={"bert": 512},
            range=Range(1, 2**20, "a million tokens")),
        Setting("model.vocabulary", int, 50257, "different tokens: rows of the embedding, which is also the head",
            of="gptx", axis=POINTS, range=Range(2, 2**20, "Llama 3 has 128,256")),
        Setting("model.name", str, "resnet50", "any classifier of torchvision.models", of="torchvision", axis=POINTS),
        Setting("model.classes", int, 1000, "outputs of the classifier",
            of="alexnet alexnet32 cifarnet densenet100 densenet40 googlenet mlpx nasnet nasnetmobile resnet110 "
                "resnet20 resnetx torchvision",
            defaults=dict.fromkeys(CIFAR, 10), axis=POINTS,
            range=Range(2, 10**6, "ImageNet-21k has 21,841")),
        Setting("model.file", str, "", "Python file of your own, which is run: docs/workloads.md", of="python",
            axis=POINTS, path=True, comma=True),
        Setting("model.function", str, "build",
            "of that file: returns a module of torch, or an object with module, batch(n) and loss(outputs, batch)",
            of="python", axis=POINTS),
        Setting("model.lrn", bool, True, "with its two local response normalisations", of="alexnet", axis=POINTS),
        Setting("input", str, "dali", "", choices=("dali", "synthetic", "tokens", "torchvision"),
            defaults={"bert": "synthetic", "gptx": "synthetic", "python": "synthetic"},
            verbs=f"{RUNS} {PREDICTED} check", axis=POINTS,
            own={"compare": "synthetic", "check": "synthetic", "predict": "synthetic"}, tags="workload"),
        Setting("input.root", str, "data/images", "folder of class folders of JPEG files", of="dali torchvision",
            verbs=f"{RUNS} {PREDICTED} images check doctor", axis=POINTS, path=True, comma=True, tags="run"),
        Setting("input.file", str, "data/tokens.bin", "file of 16-bit tokens, as nanoGPT writes them", of="tokens",
            verbs=f"{RUNS} {PREDICTED}", axis=POINTS, path=True, comma=True, tags="run"),
        Setting("input.stage", str | None, None,
            "folder of each node, e.g. /local, that images are copied to and read from; null: read from root",
            of="dali torchvision", axis=POINTS, path=True, comma=True, tags="run"),
        Setting("input.format", Literal["folders"], "folders", "how images are stored", of="dali torchvision"),
        Setting("input.recipe", Literal["imagenet", "paper"], "imagenet",
            "imagenet: random crop, resized, flip, mean and std | paper: stored 256x256, random crop, flip, mean",
            of="dali torchvision", axis=POINTS),
        Setting("input.threads", int | None, None, "decoding threads of each rank; null: as many as `threads`",
            of="dali torchvision", at={"torchvision": "worker processes of each rank; null: as many as `threads`"},
            axis=POINTS, range=Range(1, 2**10, "threads or processes of one rank")),
        Setting("input.prefetch", int, 2, "batches prepared ahead", of="dali torchvision",
            at={"torchvision": "batches prepared ahead by each worker"}, axis=POINTS,
            range=Range(1, 2**8, "batches held in memory"), tags="run"),
        Setting("input.decoder", Literal["auto", "cpu"], "auto", "auto: on the GPU if the run has one | cpu", of="dali",
            axis=POINTS),
        Setting("strategy", str, "bucket", "", 
            choices=("after", "bucket", "fsdp", "layerwise", "none", "server", "zero1"),
            verbs=f"{WORKLOADS} bench steer", axis=POINTS, tags="workload"),
        Setting("strategy.bucket_cap_mb", float | None, None,
            "bucket size in MiB; null: DDP's own (first bucket 1, then 25)", of="bucket", axis=POINTS, range=BUCKETS),
        Setting("strategy.first_bucket_mb", float | None, None, "size of the first bucket in MiB; null: DDP's own",
            of="bucket", axis=POINTS, range=BUCKETS),
        Setting("strategy.gradient_as_bucket_view", bool, True,
            "true: gradients are views of the buckets | false: they are copied", of="bucket", axis=POINTS,
            tags="uncounted"),
        Setting("strategy.reshard", bool, True,
            "true: a block's parameters are freed behind its forward pass and gathered again | false: kept", of="fsdp",
            axis=POINTS, tags="uncounted"),
        Setting("strategy.device", Literal["cpu", "gpu"], "cpu",
            "where parameters are kept and updated: cpu: the memory of rank 0's host | gpu: rank 0's GPU", of="server",
            axis=POINTS, tags="uncounted"),
        Setting("optimizer", str, "sgd", "", choices=("adamw", "sgd"), verbs=f"{RUNS} {PREDICTED}", axis=POINTS,
            tags="workload"),
        Setting("optimizer.learning_rate", float, 0.01, "", of="adamw sgd", axis=POINTS, defaults={"adamw": 0.001},
            range=Range(0), tags="run"),
        Setting("optimizer.momentum", float, 0.9, "share of the update before", of="adamw sgd", axis=POINTS,
            at={"adamw": "its first beta; the second is 0.999"}, range=Range(0)),
        Setting("optimizer.weight_decay", float, 0.0005, "", of="adamw sgd", axis=POINTS, defaults={"adamw": 0.01},
            range=Range(0), tags="run"),
        Setting("tracker", str, "none", "", choices=("none", "wandb"), verbs="train sweep trace"),
        Setting("tracker.project", str, "resnetx", "project in Weights & Biases", of="wandb"),
    )),
    Section("what runs: the case", (
        Setting("batch_size", int, 32, 
            "images (sequences) per step, over all GPUs (scaling=weak: on each GPU) | max: as many on each as fit",
            verbs=f"{WORKLOADS} check steer doctor", axis=POINTS, own={"doctor": 64},
            types=dict.fromkeys(("train", "sweep", "predict"), int | Literal["max"]),
            range=Range(1, 2**28, "4,096 images on each of 65,536 GPUs"), tags="workload load"),
        Setting("scaling", Literal["strong", "weak"], "strong",
            "strong: batch_size is split over the GPUs | weak: it grows with them", verbs=f"{RUNS} {PREDICTED} bench",
            axis=POINTS, several="bench", tags="workload"),
        Setting("split", Literal["even", "uneven"], "even",
            "even | uneven: for batches that do not divide; gradients are weighted by each rank's images",
            verbs=f"{RUNS} {PREDICTED}", axis=POINTS, tags="workload"),
        Setting("image_size", int | None, None,
            "pixels; null: the model's own (224; AlexNet 227; a classifier of torchvision: its weights')",
            verbs=f"{WORKLOADS} bench check steer doctor", axis=POINTS, range=Range(0, 2**12, "4K has 3,840 pixels"),
            tags="workload load"),
        Setting("precision", Literal["fp32", "tf32", "bf16", "fp16"], "fp32", "fp32 | tf32 | bf16 | fp16",
            verbs=f"{WORKLOADS} bench check steer doctor", axis=POINTS, tags="workload load"),
        Setting("gpus", int | None, None,
            "number of ranks, one per GPU (without GPUs: CPU processes); null: as many as devices, or 1",
            verbs=f"{WORKLOADS} bench check topology lab", each="topology", axis=POINTS, several="bench lab",
            own={"verify": 2, "compare": [1, 2, 4, 8], "predict": [1, 2, 4, 8]}, range=GPUS),
        Setting("devices", list[int] | None, None, "list of GPU ids, one per rank; null: the first ones",
            verbs=f"{RUNS} {PREDICTED} bench topology steer lab doctor", each=f"{PREDICTED} topology steer",
            axis="sweep trace", range=GPU_IDS, tags="load"),
        Setting("env", dict[str, str | int | float], {},
            "environment variables of the ranks, e.g. env.NCCL_P2P_DISABLE=1", verbs=f"{RUNS} bench check",
            axis="sweep trace"),
        Setting("threads", int | None, None,
            "CPU threads of each rank; null: the cores divided by the node's GPUs, or by more ranks",
            verbs=f"{RUNS} bench check", axis="sweep trace", range=Range(1, 2**12, "no host has that many")),
        Setting("channels_last", bool, True,
            "true: images and weights are stored as NHWC | false: as NCHW; predicted to matter on tensor cores alone",
            verbs=f"{RUNS} {PREDICTED}", axis=POINTS, tags="workload"),
        Setting("memory_limit", int | str | None, None,
            "GPU memory that PyTorch may use on each GPU, e.g. 16GB, to emulate a smaller one; null: all", verbs=RUNS,
            axis=POINTS, unit="B", example="16GB", range=MEMORY),
        Setting("graph", bool, False, "true: each training step is one CUDA graph, launched by the host in one call",
            verbs=f"{RUNS} {PREDICTED}", axis=POINTS, tags="workload"),
        Setting("compile", Literal["none", "default"], "none",
            "none | default: torch.compile makes the model's kernels, in the first step",
            verbs=f"train sweep {PREDICTED}", axis=f"sweep {PREDICTED}", tags="workload"),
        Setting("accumulate", int, 1,
            "parts in which each GPU takes its share of the batch; gradients are added up, and exchanged with the last",
            verbs=f"{RUNS} {PREDICTED}", axis=POINTS, range=Range(1, 2**16, "parts of one step"), tags="workload"),
        Setting("checkpointing", bool, False,
            "true: of each block of a family only the input is kept, and its forward pass is computed again",
            verbs=f"{RUNS} {PREDICTED}", axis=POINTS, tags="workload"),
        Setting("seed", int, 0, "of parameters, images and the order of runs", verbs=f"{RUNS} bench", range=SEEDS),
        Setting("replay", str | None, None,
            "idle for the compute times of a trace (a path) or a GPU (p100-sxm2-16gb); messages are real",
            verbs="train sweep predict", axis="sweep predict", path=True, comma=True),
        Setting("replay_jitter", float, 0,
            "standard deviation over the mean by which each rank's idle steps vary, each by itself",
            verbs="train sweep predict", axis="sweep predict",
            range=Range(0, 0.5, "steps that vary by half of their length")),
    )),
    Section("what is measured, and for how long", (
        Setting("measure", Literal["step", "phases", "layers", "input"], "step",
            "step | phases: profiled steps | input: the input pipeline alone | layers: see trace",
            verbs="train sweep", axis="sweep"),
        Setting("warmup", int, 5,
            "steps before the first window, at least (on GPUs also 2 s) | bench: operations of each size",
            verbs=f"{LAUNCHED} check", axis="sweep", range=Range(1, 10**5, "steps before the first window")),
        Setting("steps", int, 10, "per window, at least; more where a window would take less than 0.2 s",
            verbs=f"{RUNS} check", axis="sweep trace", own={"verify": 3},
            range=Range(1, 10**9, "a window of a year, at 30 steps a second")),
        Setting("windows", int, 10, "timed intervals per run", verbs="train sweep check", axis="sweep",
            own={"check": 3}, range=TIMES),
        Setting("iterations", int | None, None,
            "trace: profiled steps, null: 100 | bench: timed operations of each size, null: 20",
            verbs="trace bench check", range=TIMES),
    )),
    Section("how ranks are started beyond one node (docs/slurm.md; also reads nodes)", (
        Setting("launcher", Literal["slurm", "torchrun", "mpi"] | None, None,
            "slurm: a job, or steps of the current one | mpi | torchrun: by hand; null: on this node",
            verbs=f"{LAUNCHED} check doctor", tags="launch",
            types=dict.fromkeys(("check", "doctor"), Literal["slurm"] | None)),
        Setting("site", str | None, None,
            "YAML file of a cluster: partition, account, modules, container, interface, ...; null: none",
            verbs=f"{LAUNCHED} check doctor", path=True, tags="launch"),
        Setting("walltime", float | str | None, None,
            "launcher=slurm: time limit of a job, e.g. 2h; null: the site's, or the partition's",
            verbs=f"{LAUNCHED} check", unit="s", example="30min or 2h",
            range=Range(60, 366 * DAY_S, "a year, in seconds"), tags="launch"),
        Setting("jobs", int, 1,
            "launcher=slurm: jobs of an array; they run one after the other, and each resumes the study",
            verbs=LAUNCHED, range=Range(1, 1000, "Slurm's usual MaxArraySize"), tags="launch"),
        Setting("node_rank", int | None, None, "launcher=torchrun: the number of this node, from 0", verbs=LAUNCHED,
            range=Range(0, 2**14 - 1, "nodes of one run"), tags="launch"),
        Setting("rendezvous", str | None, None, "launcher=torchrun: HOST:PORT where all nodes meet, on node 0",
            verbs=LAUNCHED, tags="launch"),
    )),
    Section("how runs are kept", (
        Setting("study", str | None, None, "a name from `resnetx list` or a YAML file",
            verbs=f"{PREDICTED} describe sweep trace bench", path=True, tags="workload"),
        Setting("repeats", int, 6, "runs of each case, each in fresh processes", verbs="sweep",
            range=Range(1, 1000, "fresh processes for every case"), tags="study"),
        Setting("twins", int, 2,
            "runs of each control of a case: synthetic input, no gradient exchange, input alone, phases", verbs="sweep",
            range=Range(0, 1000, "fresh processes for every control run"), tags="study"),
        Setting("controls", Literal["usual", "all"], "usual",
            "usual: those four | all: and solo, one rank with its share, for what smaller batches cost",
            verbs="sweep", tags="study"),
        Setting("budget", float | str | None, None,
            "time for the whole sweep, e.g. 2h, spent where the interval is widest; null: no limit",
            verbs="sweep check", own={"check": "2m"}, unit="s", example="90s, 15min or 2h",
            range=Range(1, 366 * DAY_S, "a year, in seconds"), tags="study"),
        Setting("baseline", int, 1, "speed-ups are relative to this number of GPUs, or to the smallest number that ran",
            verbs=f"{PREDICTED} sweep report", types={"report": int | None}, range=GPUS, tags="study"),
        Setting("timeout", float | str, 1800, "seconds for one run", verbs=f"{RUNS} bench check", unit="s",
            example="90s, 15min or 2h", range=Range(1, 30 * DAY_S, "30 days, in seconds"), tags="study"),
        Setting("results", str, "results", "folder for runs and studies",
            verbs=f"{RUNS} bench check topology predict steer doctor", path=True),
        Setting("convention", Literal["caffe", "torch", "conv", "saved"], "caffe",
            "how activations and parameters are counted: caffe | torch | conv | saved (bytes)", verbs=WORKLOADS,
            axis="describe", tags="study"),
        Setting("intensity", float | None, None,
            "activations per parameter on each GPU, for which settings of each family are proposed; null: none are",
            verbs="describe", range=Range(0, 10**9, "a thousand million", above=True)),
        Setting("oversubscribe", bool, False,
            "true: allow more ranks than GPUs (without GPUs: than cores); they then share them",
            verbs=f"{RUNS} bench check"),
        Setting("publish", str | None, None,
            "new folder for a copy that names no host, user, path or network; report: its page is of the copy",
            verbs="sweep report", path=True),
        Setting("dirty", bool, False,
            "true: allow uncommitted changes to resnetx, which records name; single runs always do",
            verbs=f"{RUNS} bench check", own={"train": True, "verify": True, "bench": True, "check": True}),
    )),
    Section("`resnetx images`", (
        Setting("images", GROUP, None, "", verbs="images"),
        Setting("images.classes", int, 8, "class folders", range=Range(1, 10**5, "ImageNet-21k has 21,841")),
        Setting("images.per_class", int, 64, "images in each of them", range=Range(1, 10**6, "ILSVRC2012 has 1,300")),
        Setting("images.size", Literal["imagenet", "256"], "imagenet",
            "imagenet: about 400x350, 110 KB | 256: 256x256, as the paper stores them"),
        Setting("images.tokens", int | None, None,
            "make a file of so many random 16-bit tokens below images.vocabulary instead; null: images",
            range=Range(2, 10**11, "200 GB")),
        Setting("images.vocabulary", int, 50257, "with images.tokens: different tokens",
            range=Range(2, 2**16, "as many as 16 bits tell apart")),
        Setting("images.seed", int, 0, "of what the images show", range=SEEDS),
        Setting("images.workers", int | None, None, "processes; null: one per core",
            range=Range(1, 2**10, "processes")),
    )),
    Section("`resnetx bench` (also reads pattern, scaling, gpus, devices, env, threads, seed, systems and more)", (
        Setting("collective", str | None, None,
            "allreduce, broadcast, reduce, allgather, reduce_scatter, alltoall, sendrecv, gather or scatter",
            verbs="bench topology", each="topology", several="bench"),
        Setting("copy", str | None, None,
            "device | relay | to-host | from-host | local | fan-out | together | storage-cold | ...-warm",
            verbs="bench", several="bench"),
        Setting("compute", float | str | None, None,
            "of pattern=: seconds that the whole problem computes on one rank; null: the pattern's", verbs="bench",
            unit="s", example="20ms", range=Range(0, 3600, "an hour")),
        Setting("direction", Literal["one-way", "both-ways"], "one-way",
            "of copy=device: one-way | both-ways: at once, or a list", verbs="bench", several="bench"),
        Setting("endpoint", Literal["device", "pinned", "pageable"] | None, None,
            "memory that copies start from and end in: device | pinned | pageable; null: the kind's own",
            verbs="bench"),
        Setting("through", int | None, None, "of copy=relay: the GPU that passes data on", verbs="bench",
            range=GPU_IDS),
        Setting("numa", int | None, None,
            "NUMA node of the host memory that is copied from or to; null: wherever the system puts it", verbs="bench",
            range=Range(0, 2**10 - 1, "Linux knows 1,024 NUMA nodes")),
        Setting("interface", str | None, None,
            "network interface of sockets, e.g. eth0; null: loopback on one node, else the library's choice",
            verbs="train sweep bench", axis="sweep"),
        Setting("gpudirect", bool | None, None,
            "between nodes, network cards reach GPU memory (GPUDirect RDMA): true | false; null: as NCCL decides",
            verbs="train sweep bench", axis="sweep"),
        Setting("size", int | str, "64MiB",
            "of the array, as in nccl-tests, or of a copy; GB: 1e9 B, GiB and G: 2**30; bench: 8 B to 256 MiB",
            verbs="compare bench check topology", several="compare bench topology", unit="B", example="64MiB",
            range=Range(1, 2**40, "1 TiB, in bytes")),
        Setting("place", Literal["in", "out"] | None, None,
            "in: in place | out: out of place; null: in place (alltoall, sendrecv: out of place)", verbs="bench"),
        Setting("dtype", Literal["fp32", "bf16", "fp16"], "fp32", "of the arrays of collectives: fp32 | bf16 | fp16",
            verbs="bench"),
        Setting("timing", Literal["blocking", "back-to-back", "graph"] | None, None,
            "blocking | back-to-back: 20 in a row | graph: 20 in a graph; null: blocking, GPUs also queued",
            verbs="bench"),
        Setting("algorithm", str | None, None,
            "force NCCL's: ring | tree | nvls | ...; auto: NCCL chooses, recorded; null: NCCL chooses", verbs="bench"),
        Setting("protocol", str | None, None, "force NCCL's: ll | ll128 | simple; auto, null: as above", verbs="bench"),
        Setting("registered", bool, False,
            "true: GPU buffers, of training DDP's buckets, registered with NCCL (user buffer registration)",
            verbs="train sweep bench", axis="sweep"),
    )),
    Section(
        "`resnetx check` (also reads nodes=ALL, gpus and batch_size: of each node, size, model, systems, budget: 2m)", (
        Setting("prometheus", str | None, None,
            "file *.prom for the textfile collector of Prometheus' node exporter; null: none", verbs="check",
            path=True),
    )),
    Section("`resnetx trace --import`: what the file does not say (also reads batch_size, gpus and results)", (
        Setting("device", str | None, None,
            "GPU that the imported trace was measured on, e.g. v100-sxm2-16gb; null: as its profile says",
            verbs="trace"),
        Setting("workload", str | None, None, "name of the workload of the imported trace; null: the name of the file",
            verbs="trace"),
    )),
    Section("`resnetx topology` (also reads collective, size, devices and out)", (
        Setting("systems", str, [],
            "names (`resnetx topology` lists them), or YAML files of your own; bench: this machine",
            verbs=f"{PREDICTED} bench check topology steer lab", several=f"{PREDICTED} bench check topology steer lab",
            path=True, tags="no-lab"),
        Setting("nodes", int | None, None,
            "number of nodes; null: as in the system's file, or 1; to measure on several: with launcher=",
            verbs=f"{LAUNCHED} {PREDICTED} check topology doctor",
            each=f"{PREDICTED} topology", types={"check": int | str | None},
            range=Range(1, 2**14, "El Capitan has 11,136"), tags="launch no-lab"),
        Setting("network", str | None, None,
            "network between nodes, e.g. edr100, ndr400, roce400; null: as in the system's file",
            verbs=f"{PREDICTED} bench check topology", each=f"{PREDICTED} topology", tags="no-lab"),
        Setting("nics", int | None, None, "network ports used on each node; null: all",
            verbs=f"{PREDICTED} bench check topology",
            each=f"{PREDICTED} topology", range=Range(1, 2**7, "network ports of one node"),
            tags="no-lab"),
        Setting("library", str | None, None,
            "communication library: nccl1 | nccl2 | nccl2.4 | nvls | gloo; null: as in the system's file",
            verbs=f"{PREDICTED} topology steer", several=f"{PREDICTED} topology", each="steer", tags="no-lab message"),
        Setting("launch_mode", Literal["process-per-gpu", "one-process"] | None, None,
            "of the library: process-per-gpu | one-process: drives all GPUs of a node; null: as in the file, or not "
            "told",
            verbs=f"{PREDICTED} topology", each=f"{PREDICTED} topology", tags="assumed no-lab message"),
        Setting("transport", Literal["auto", "peer", "pcie", "host", "socket"], "auto",
            "auto: peer where possible | peer | pcie: no NVLink | host: through host memory | socket",
            verbs=f"{PREDICTED} train sweep bench topology lab", each=f"{PREDICTED} topology", axis="sweep",
            types={"lab": Literal["auto", "pcie", "host"]}, tags="no-lab message"),
        Setting("calibration", str | None, None,
            "measured collectives; predict: or a list, also input runs and rates of several GPUs; none: none",
            verbs=f"{PREDICTED} topology", several=PREDICTED, path=True, tags="no-lab message"),
        Setting("pick", int | None, None, "how many GPUs to choose", verbs="topology",
            range=Range(2, GPUS.most, GPUS.why)),
        Setting("free", list[int] | None, None, "list of GPU ids to choose from; null: all", verbs="topology",
            range=GPU_IDS),
        Setting("gpu", str | None, None,
            "GPUs of an imported or new system: p100, l40s-48gb, or mine.yaml; null: as stated, or assumed",
            verbs="topology"),
        Setting("cpu", str | None, None, "its CPUs, e.g. epyc-7742; null: as stated, or assumed", verbs="topology"),
        Setting("nic", str | None, None,
            "its network cards, e.g. connectx-7-ndr (new: or several on each CPU, connectx-7-ndr:2)", verbs="topology"),
        Setting("pcie", int | None, None, "its generation of PCI Express, 3 to 6; null: as stated, or as the GPUs have",
            verbs="topology", range=Range(1, 6, "the newest generation of PCI Express in machines")),
        Setting("like", str | None, None, "new: the system that the new one resembles: a name, or a YAML file",
            verbs="topology"),
        Setting("switches", int | None, None,
            "new: PCIe switches, 0: GPUs on the CPUs; null: as many GPUs on each as `like` has", verbs="topology",
            range=Range(0, 2**8, "PCIe switches of one machine")),
        Setting("sockets", int | None, None, "new: its CPUs; null: as `like` has", verbs="topology",
            range=Range(1, 2**6, "CPUs of one machine")),
        Setting("uplink", str | None, None, "new: from each switch to its CPU, e.g. gen5x16; null: as `like` has",
            verbs="topology"),
    )),
    Section("`resnetx steer` (also reads systems, library, devices, model, batch_size, strategy and out)", (
        Setting("pattern", Literal["allreduce", "replicated", "server"] | None, None,
            "allreduce | replicated | server: TensorFlow's two, by variable; null: as strategy does; bench: halo, ...",
            types={"bench": str | None}, verbs="bench steer", several="bench", each="steer"),
        Setting("phases", bool, False,
            "true: each phase of replicated and server by itself: gradients to owners, and back from there",
            verbs="steer"),
        Setting("durations", float | str, [],
            "how long each phase transmits, e.g. 20ms,1s, to tell whether reconfiguring pays off", verbs="steer",
            several="steer", unit="s", example="20ms", range=Range(0, 366 * DAY_S, "a year, in seconds", above=True)),
        Setting("reconfiguration", float | str | None, None,
            "time to reconfigure the switch, e.g. 20us; null: as the photonic switch is described", verbs="steer",
            each="steer", unit="s", example="20ms", range=Range(0, DAY_S, "a day, in seconds")),
        Setting("receivers", int | list[int] | None, None,
            "most units that a GPU can receive: a number, or a list of one for each; null: no limit", verbs="steer",
            each="steer", range=Range(1, 2**16, "units that end at one GPU")),
        Setting("reach", Literal["built", "any"], "built",
            "built: only GPUs that are linked now | any: a switch can join any two GPUs", verbs="steer", each="steer"),
        Setting("switch", str | None, None,
            "a photonic switch in all links between GPUs, e.g. sip-mems-64; null: as described", verbs="steer",
            each="steer"),
    )),
    Section("`resnetx lab systems=SYSTEM -- VERB ...`, which sets the group `lab` of train, sweep, bench and predict", (
        Setting("scale", float, 100, "by how much each link is slower than described", verbs="lab", range=SLOWER),
        Setting("lab", GROUP, None, "", verbs="train sweep bench predict"),
        Setting("lab.system", str | None, None,
            "ranks are CPU processes, joined by links that are shaped as this system describes them", axis=POINTS,
            path=True),
        Setting("lab.scale", float | None, None, "by how much each link is slower than described; null: 100",
            axis=POINTS, range=SLOWER),
        Setting("lab.transport", Literal["auto", "pcie", "host"] | None, None,
            "described paths that copies take: auto | pcie | host; null: auto", axis=POINTS),
    )),
    Section("`resnetx predict` (also reads systems, nodes, network, nics, library, transport and calibration)", (
        Setting("rate", float | dict[str, float | dict[str, float]] | str | None, None,
            "one GPU's images/s: a number, by batch (32:195,64:219), of a system's GPU (dgx1-v100:700), a run, a study",
            verbs=f"{PREDICTED} steer", each="predict", range=Range(1e-6, 10**9, "images/s of one GPU"), path=True,
            tags="no-lab"),
        Setting("rate_error", float | None, None,
            "relative error of known rates, in nine cases of ten; null: 0.02, or as their runs differ",
            verbs=PREDICTED, each="predict", range=Range(0, 1, "all of it"), tags="no-lab"),
        Setting("framework", Literal["caffe-mpi", "cntk", "horovod", "mxnet", "tensorflow"] | None, None,
            "caffe-mpi | cntk | horovod | mxnet | tensorflow, or a list: the strategy and overlap of that framework",
            verbs=PREDICTED, several=PREDICTED, near=True, tags="assumed"),
        Setting("communication", Literal["model", "trace"], "model",
            "model: messages by the described links | trace: as an imported trace has them (column comm)",
            verbs="predict", each="predict", tags="no-lab"),
        Setting("parameters", float | None, None,
            "trained in the whole model, of a trace that lacks their sizes; shared by backward time", verbs="predict",
            each="predict", range=Range(1, 10**13, "ten trillion")),
        Setting("overlap", GROUP, None, "what happens to the next batch while this one is computed", verbs=PREDICTED,
            tags="assumed"),
        Setting("overlap.input", bool, True, "the next batch is read and decoded during computation", each=PREDICTED),
        Setting("overlap.host_to_device", bool, True, "the next batch is copied to the device during computation",
            each=PREDICTED),
        Setting("overlap.parameters", bool, False,
            "strategy=server: parameters come back during the next forward pass, as TensorFlow fetches them",
            each=PREDICTED),
        Setting("staged", Literal["shared", "per-gpu"] | None, None,
            "how GPUs that are no peers reach the host; shared: all by one path | per-gpu: by their own; null: unknown",
            verbs=f"{PREDICTED} topology", each=f"{PREDICTED} topology", tags="assumed no-lab message"),
        Setting("gradients", Literal["fp32", "bf16", "fp16"], "fp32",
            "precision in which gradients are sent: fp32 | bf16 | fp16", verbs=PREDICTED,
            each=PREDICTED, tags="assumed message"),
        Setting("samples", Literal["alike", "uneven", "by-host"], "alike",
            "alike | uneven: they differ in size (sentences, graphs), so ranks wait for the slowest; without a trace | "
            "by-host: its CPUs make them (spectrograms), so that several GPUs are open",
            verbs=PREDICTED, each=PREDICTED, tags="assumed no-lab"),
        Setting("straggler", float, 1, "factor by which one rank computes more slowly than the others", verbs=PREDICTED,
            each=PREDICTED,
            range=Range(1, 1000, "times as long as the others"), tags="assumed"),
        Setting("host_time", str | float, "0s", "host time per iteration in which the device waits, e.g. 0.002s",
            verbs=PREDICTED,
            each=PREDICTED, unit="s", example="0.03s", range=Range(0, DAY_S, "a day, in seconds"), tags="assumed"),
        Setting("host_step", str | float | None, None,
            "host time to launch a step on a GPU, e.g. 20ms; null: by the trace or rates, or assumed", verbs=PREDICTED,
            each=PREDICTED,
            unit="s", example="0.03s", tags="assumed no-lab",
            range=Range(0, 10, "10 s: a host launches what a GPU runs, layer by layer, in milliseconds")),
        Setting("image_bytes", str | int | None, None,
            "size of a stored image, e.g. 34kB; null: by input.recipe (imagenet: 110 kB, paper: 34.9 kB)",
            verbs=PREDICTED, each=PREDICTED, unit="B", example="34kB", range=Range(1, 2**30, "1 GiB, in bytes")),
        Setting("memory", str | int | None, None,
            "memory of each GPU, e.g. 16GB; cases that need more are skipped; null: as described",
            verbs=f"{PREDICTED} describe",
            each=PREDICTED,
            unit="B", example="16GB", range=MEMORY, tags="assumed"),
        Setting("memory_model", Literal["torch", "caffe"], "torch",
            "which activations are kept for the backward pass: torch | caffe (as in Tallent et al. 2017; then Caffe's "
            "loop on the host, too, unless framework= is set)",
            verbs=PREDICTED, each=PREDICTED),
        Setting("clock", str | float | None, None,
            "GPU clock, in MHz; measuring: locked meanwhile; null: left as it is | doctor: one to test, or find",
            verbs=f"train sweep bench {PREDICTED} doctor",
            each=PREDICTED, axis="sweep", unit="MHz", example="1227 or 1227MHz",
            range=Range(0, 10**4, "MHz", above=True), tags="load assumed no-lab"),
        Setting("what_if", GROUP, None, "", verbs=PREDICTED, tags="assumed message"),
        Setting("what_if.bandwidth", dict[str, float], {},
            "factor on the bandwidth of kinds of links: what_if.bandwidth=nvlink1:2", each=PREDICTED, range=FACTORS),
        Setting("what_if.latency", float, 1, "factor on the latency of collectives", each=PREDICTED, range=FACTORS),
        Setting("price", float | dict[str, float] | None, None,
            "of one GPU for an hour, or of a node of each system, as price=gx8:8,dgx-h200:40: the cheapest is named",
            verbs="predict", range=Range(0, 10**9, "in any currency", above=True)),
        Setting("deadline", float | str | None, None,
            "time to train job_images in, e.g. 24h: of what ends in time the cheapest; null: none", verbs="predict",
            unit="s", example="24h", range=Range(1, 366 * DAY_S, "a year, in seconds")),
        Setting("job_images", float, 115_305_030,
            "images to train in all, for price; the default is 90 epochs of ImageNet (1,281,167 images)",
            verbs="predict", range=Range(1, 10**15, "a million epochs of a billion images")),
        Setting("sensitivity", bool, False, "true: how much each case gains if a kind of link is twice as fast",
            verbs=PREDICTED, tags="no-lab message"),
        Setting("timeline", bool, False,
            "true: also write one iteration of each case as a drawing and as a file for Perfetto", verbs=PREDICTED),
        Setting("out", str | None, None,
            "folder for the record, tables and figures; null: none are written (report: in the first study)",
            verbs=f"{RUNS} {PREDICTED} describe report reproduce explain bench check topology steer lab doctor",
            path=True),
    )),
    Section("`resnetx compare systems=dgx1-p100,gx8 study=paper`", (
        Setting("explain", bool, False, "true: search which assumptions decide the paper's claims; takes half a minute",
            verbs="compare"),
        Setting("job", str | None, None,
            "a workload of your own, located among those of study=, e.g. job=model=gptx,model.width=1024,batch_size=2",
            verbs="compare"),
        Setting("papers", str, [],
            "check what these papers state, e.g. [li2019,shi2018]; all: every paper that comes with resnetx",
            verbs="compare", several="compare"),
        Setting("score", str, [],
            "judge predictions of published figures: CSV files (id,predicted,low,high), or resnetx: its own",
            verbs="compare", several="compare"),
        Setting("figure", int | None, None, "number of a paper's figure, and the statements on it; null: all",
            verbs="reproduce", range=Range(1, 100, "more than a paper has")),
    )),
)
# fmt: on

TABLE = {row.name: row for section in SECTIONS for row in section.settings}
GROUPS = tuple(row.name for row in TABLE.values() if row.choices)
PATHS = tuple(row.name for row in TABLE.values() if row.path)


@cache
def tagged(tag: str) -> tuple[str, ...]:
    """The settings that have a tag."""
    assert tag in TAGS, tag
    return tuple(row.name for row in TABLE.values() if tag in row.tags.split())
