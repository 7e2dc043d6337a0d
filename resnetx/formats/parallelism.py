"""How a profiled program shared its work with other processes, by the names in its profile.

A prediction multiplies one process that trains alone. A rank that holds a part of the parameters, of the layers or of
each layer computes something else, and one of DistributedDataParallel computes while all-reduces run.

Names: torch 2.15's own (`torch/distributed/fsdp`, `tensor`, `_functional_collectives.py`, c10d's record functions),
NCCL's kernels, DeepSpeed's and Megatron's annotations.
"""

import re
from collections.abc import Iterable

MOST_CHARACTERS = 500  # of a name that are looked at: kernels of templates have thousands

# Names that only a kind of parallelism has, the most specific first.
_SIGNS = {
    "fully sharded data parallelism (FSDP)": r"fsdp::|FullyShardedDataParallel",
    "ZeRO": r"ZeroRedundancyOptimizer|deepspeed",
    "expert parallelism (all-to-all)": r"all_?to_?all",
    "pipeline parallelism (sends and receives)": r"(c10d|gloo|nccl)::?(send|recv)|nccl\w*SendRecv",
    "sharded parameters (all-gathers and reduce-scatters)": r"(c10d|gloo|nccl|_c10d_functional)::?\w*(gather|scatter)"
    r"|nccl\w*(AllGather|ReduceScatter)",
    "DistributedDataParallel": r"DistributedDataParallel|distributed\.ddp\.",
    "tensor parallelism (all-reduces within the model)": r"_c10d_functional::|(c10d|gloo|nccl)::?all_?reduce"
    r"|nccl\w*AllReduce",
}


def parallelism(names: Iterable[str], world_size: int | None) -> str:
    """The kind of parallelism that a profile shows, in words; "" for that of one process.

    `names`: of all events; `world_size`: processes by the profile itself, None where it does not say.
    """
    if world_size == 1:  # whatever it is called, it is whole
        return ""
    text = "\n".join({name[:MOST_CHARACTERS] for name in names})
    parallelism = next((kind for kind, sign in _SIGNS.items() if re.search(sign, text, re.IGNORECASE)), "")
    return parallelism or (f"a group of {world_size} processes" if world_size else "")
