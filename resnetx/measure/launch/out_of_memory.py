"""How libraries say that there is no memory left, on a GPU, on the host, or in the address space of a process.

The sentences are those that torch 2.15, CUDA 13, NCCL, DALI, glibc, OpenBLAS and libgomp print; those of the host were
seen by running under `ulimit -v`.
"""

import re

_SENTENCES = re.compile(
    r"out of memory|ALLOC(ATION)?_FAILED|cudaErrorMemoryAllocation|CUDA allocation failed"
    # cuDNN's trials of its algorithms (`torch.backends.cudnn.benchmark`) found none whose workspace could be allocated.
    r"|FIND was unable to find an engine"
    r"|DefaultCPUAllocator|std::bad_alloc|\bMemoryError\b"
    r"|cannot allocate memory(?! in static TLS)|failed to map segment|memory allocation (still )?failed",
    re.IGNORECASE,
)
# They mean it where the address space is limited: a thread needs some for its stack, oneDNN for its code. Where it is
# not, threads are too many, or oneDNN is mistaken.
_SENTENCES_UNDER_A_LIMIT = re.compile(
    r"resource temporarily unavailable|can't start new thread|thread creation failed|pthread_create failed"
    r"|could not create a (primitive|memory object)",
    re.IGNORECASE,
)


def no_memory(text: str) -> bool:
    """Whether a message says that no memory was left; processes here have the limits of those it came from."""
    return bool(_SENTENCES.search(text) or (_limited() and _SENTENCES_UNDER_A_LIMIT.search(text)))


def _limited() -> bool:
    """Whether a limit is set on the address space (`ulimit -v`) or the data (`ulimit -d`) of this process."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limits
        return False
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)
