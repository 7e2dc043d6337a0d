"""Environment variables of the ranks: which ones a run may set, which ones a file may set, and what records hold.

A variable can make a process load other code (`NCCL_NET_PLUGIN`) or write files (`NCCL_DEBUG_FILE`). On the command
line that is the user's decision; running a study or run file of another person must not do it unnoticed.

Records have the values of variables that are known to tune (`tuning_variables`), and of those that a run sets itself
(`env.NAME`): so a run sets none that could be a secret. Of what else libraries read, records have the names alone.
"""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from resnetx.errors import ConfigError

# Environment variables that are known to tune communication, computing or memory, by exact name.
#
# Records hold the values of these and of no others: a name that nobody has listed may be that of a secret. Each list
# comes from the documentation of a library, or from the library itself, where it names what it reads.

# The names of a library, without what they all begin with.
_OF_LIBRARIES = {
    # https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, what libnccl.so 2.30.7 looks up, and names of
    # earlier versions; not files that it writes, nor addresses
    "NCCL_": """
        ALGO ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BOOTSTRAP BUFFSIZE CGA_CLUSTER_SIZE CHECKS_DISABLE CHECK_MODE
        CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_SHRINK_SHARE_RESOURCES
        COMM_SPLIT_SHARE_RESOURCES CONNECT_ROUND_MAX_PEERS CROSS_NIC CTA_POLICY CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG
        DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS DEV_API_JIT DISABLE_MEM_MANAGER DMABUF_ENABLE
        ELASTIC_BUFFER_REGISTER ENABLE_VERSION_CHECK GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE
        GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GIN_ENABLE GIN_ERROR_QUERY_SEC
        GIN_GDAKI_GPU_CONTEXT_MAX_SIZE GIN_GDAKI_GPU_CONTEXT_VERSION GIN_GDAKI_MAX_DEST_RD_ATOMIC
        GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC GIN_NCONNECTIONS
        GIN_PROXY_GPU_CONTEXT_MAX_SIZE GIN_PROXY_GPU_CONTEXT_VERSION GIN_PROXY_QUEUE_SIZE GIN_TYPE
        GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER GRAPH_STREAM_ORDERING GROUP_CUDA_STREAM
        IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT
        IB_DEVICE_PCI_ORDER IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GDR_LEVEL IB_GID_INDEX IB_HCA IB_MERGE_NICS
        IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING
        IB_PKEY IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED
        IB_RECEIVER_SIDE_MATCHING_SCHEME IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS
        IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT
        IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
        IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT
        IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT
        IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS
        IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_TC IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL
        IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P IGNORE_NET_MISMATCH L1_SHARED_MEMORY_CARVEOUT
        LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_C2C
        LL128_NTHREADS LL_BUFFSIZE LL_THRESHOLD LOCAL_REGISTER LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS
        MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE
        MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE
        MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY NET_DISABLE_INTRA
        NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C NET_GDR_LEVEL NET_GDR_MLOPART NET_GDR_READ NET_MERGE_LEVEL
        NET_MERGE_POLICY NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_SHARED_BUFFERS NET_SHARED_COMMS
        NO_CACHE NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NVB_DISABLE NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE
        NVLS NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE
        OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_EPOCH_ENABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_MAX_PEERS
        P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PER_CHANNEL_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE
        P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PAT_ENABLE PROGRESS_APPENDOP_FREQ PROTO
        PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ENABLE RAS_TIMEOUT_FACTOR
        REPORT_CONNECT_PROGRESS RINGS RMA_DISABLE RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE
        RUNTIME_CONNECT SET_CPU_STACK_SIZE SET_STACK_SIZE SET_THREAD_NAME SHADOW_MEMPOOL_MAX_SIZE SHM_DISABLE
        SHM_LOCALITY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE
        SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT
        SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_GIN_KERNELS_ENABLE SYM_KERNEL
        SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE THREAD_THRESHOLDS
        TOPO_SPLIT_MLOPART TREE_THRESHOLD UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS
        WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES
    """,
    # https://rocm.docs.amd.com/projects/rccl/en/latest/api-reference/env-variables.html
    "RCCL_": "LOG_LEVEL MSCCL_ENABLE MSCCL_FORCE_ENABLE MSCCLPP_ENABLE MSCCLPP_THRESHOLD P2P_BATCH_ENABLE",
    # https://pytorch.org/docs/stable/torch_nccl_environment_variables.html, those that libtorch_cuda.so 2.15 looks up
    "TORCH_NCCL_": """
        ASYNC_ERROR_HANDLING BCAST_UNIQUEID BLOCKING_WAIT COORD_CHECK_MILSEC CUDA_EVENT_CACHE DESYNC_DEBUG
        DUMP_ON_TIMEOUT ENABLE_MONITORING ENABLE_TIMING EXTRA_DUMP_ON_EXEC HEARTBEAT_TIMEOUT_SEC HIGH_PRIORITY
        LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN NAN_CHECK NONBLOCKING_TIMEOUT PROPAGATE_ERROR RANKS_PER_ROOT
        RETHROW_CUDA_ERRORS SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING TEARDOWN_ON_TIMEOUT TRACE_BUFFER_SIZE
        TRACE_CPP_STACK USE_COMM_NONBLOCKING USE_TENSOR_REGISTER_ALLOCATOR_HOOK WAIT_TIMEOUT_DUMP_MILSEC
    """,
    # https://pytorch.org/docs/stable/torch_environment_variables.html, and libtorch of 2.15
    "TORCH_": """
        ALLOW_TF32_CUBLAS_OVERRIDE BLAS_PREFER_CUBLASLT BLAS_PREFER_HIPBLASLT CPP_LOG_LEVEL CUBLASLT_UNIFIED_WORKSPACE
        CUBLAS_WORKSPACE_CACHE CUDNN_SDPA_AVOID_RECOMPILE CUDNN_SDPA_DEPRIORITIZED CUDNN_USE_HEURISTIC_MODE_B
        CUDNN_V8_API_DISABLED CUDNN_V8_API_LRU_CACHE_LIMIT DISTRIBUTED_DEBUG DIST_INIT_BARRIER DIST_NAN_CHECK
        DIST_USE_NCCL2 FR_BUFFER_SIZE FR_CPP_STACK FR_DUMP_ON_TIMEOUT GLOO_LAZY_INIT LINALG_PREFER_CUSOLVER
        LINALG_PREFER_HIPSOLVER LINEAR_FLATTEN_3D MKLDNN_MATMUL_MIN_DIM MKLDNN_MATMUL_MIN_SIZE ROCM_FA_PREFER_CK
        SHOW_CPP_STACKTRACES SYMMMEM SYMM_MEM_ALLOW_OVERLAPPING_DEVICES SYMM_MEM_DISABLE_MULTICAST
    """,
    "PYTORCH_": """
        ALLOC_CONF CUDA_ALLOC_CONF HIP_ALLOC_CONF NO_CUDA_MEMORY_CACHING NO_HIP_MEMORY_CACHING
        TUNABLEOP_CUBLASLT_REQUESTED_ALGO_COUNT TUNABLEOP_ENABLED TUNABLEOP_ICACHE_FLUSH_ENABLED
        TUNABLEOP_MAX_TUNING_DURATION_MS TUNABLEOP_MAX_TUNING_ITERATIONS TUNABLEOP_MAX_WARMUP_DURATION_MS
        TUNABLEOP_MAX_WARMUP_ITERATIONS TUNABLEOP_NUMERICAL_CHECK TUNABLEOP_RECORD_UNTUNED
        TUNABLEOP_ROTATING_BUFFER_SIZE TUNABLEOP_TUNING TUNABLEOP_VERBOSE TUNABLEOP_WILDCARD_FALLBACK USE_CUDA_DSA
    """,
    # https://pytorch.org/docs/stable/distributed.html#common-environment-variables, and libtorch_cpu.so of 2.15
    "GLOO_": "DEVICE_TRANSPORT DISABLE_CONNECTION_RETRIES ENABLE_STORE_V2_API LOG_LEVEL SOCKET_IFNAME",
    # https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html, and that of MPS
    "CUDA_": """
        AUTO_BOOST BINARY_LOADER_THREAD_COUNT CACHE_DISABLE CACHE_MAXSIZE
        DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT DEVICE_MAX_CONNECTIONS DEVICE_ORDER DISABLE_JIT
        DISABLE_PERF_BOOST DISABLE_PTX_JIT ENABLE_MODULE_LAZY_LOADING FORCE_JIT FORCE_PRELOAD_LIBRARIES FORCE_PTX_JIT
        GRAPHS_USE_NODE_PRIORITY LAUNCH_BLOCKING MANAGED_FORCE_DEVICE_ALLOC MODULE_DATA_LOADING MODULE_LOADING
        MPS_ACTIVE_THREAD_PERCENTAGE SCALE_LAUNCH_QUEUES VISIBLE_DEVICES
    """,
    # https://docs.nvidia.com/cuda/cublas/, and libcublas.so 13.4
    "CUBLAS_": """
        AUTOTUNING_CACHE_CAPACITY EMULATE_DOUBLE_PRECISION EMULATE_SINGLE_PRECISION EMULATION_STRATEGY
        FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT WORKSPACE_CONFIG
    """,
    "CUBLASLT_": "HEURISTICS_CACHE_CAPACITY WORKSPACE_SIZE",
    # NVIDIA's container toolkit, and https://docs.nvidia.com/deeplearning/frameworks (TF32)
    "NVIDIA_": "DRIVER_CAPABILITIES TF32_OVERRIDE VISIBLE_DEVICES",
    # https://rocm.docs.amd.com/en/latest/reference/env-variables.html
    "HIP_": "FORCE_DEV_KERNARG LAUNCH_BLOCKING VISIBLE_DEVICES",
    "ROCR_": "VISIBLE_DEVICES",
    "HSA_": """
        CU_MASK DISABLE_CACHE ENABLE_INTERRUPT ENABLE_PEER_SDMA ENABLE_SDMA FORCE_FINE_GRAIN_PCIE NO_SCRATCH_RECLAIM
        OVERRIDE_GFX_VERSION XNACK
    """,
    "GPU_": "MAX_HW_QUEUES",
    "MIOPEN_": "FIND_ENFORCE FIND_MODE",
    # https://gcc.gnu.org/onlinedocs/libgomp/Environment-Variables.html, https://openmp.llvm.org/design/Runtimes.html
    "OMP_": """
        ALLOCATOR CANCELLATION DEFAULT_DEVICE DISPLAY_AFFINITY DISPLAY_ENV DYNAMIC MAX_ACTIVE_LEVELS MAX_TASK_PRIORITY
        NESTED NUM_TEAMS NUM_THREADS PLACES PROC_BIND SCHEDULE STACKSIZE TARGET_OFFLOAD TEAMS_THREAD_LIMIT
        THREAD_LIMIT WAIT_POLICY
    """,
    "GOMP_": "CPU_AFFINITY SPINCOUNT STACKSIZE",
    "KMP_": """
        AFFINITY ALL_THREADS BLOCKTIME DETERMINISTIC_REDUCTION DUPLICATE_LIB_OK HW_SUBSET LIBRARY SETTINGS STACKSIZE
        TPAUSE USER_LEVEL_MWAIT
    """,
    # Intel's oneMKL developer guide, "oneMKL environment variables"
    "MKL_": """
        CBWR DEBUG_CPU_TYPE DISABLE_FAST_MM DOMAIN_NUM_THREADS DYNAMIC ENABLE_INSTRUCTIONS FAST_MEMORY_LIMIT
        INTERFACE_LAYER NUM_STRIPES NUM_THREADS SERVICE_FORCE_INTEL THREADING_LAYER VERBOSE
    """,
    # https://uxlfoundation.github.io/oneDNN (run-time controls); DNNL is its name before
    "ONEDNN_": "CPU_ISA_HINTS DEFAULT_FPMATH_MODE MAX_CPU_ISA PRIMITIVE_CACHE_CAPACITY VERBOSE",
    "DNNL_": "CPU_ISA_HINTS DEFAULT_FPMATH_MODE MAX_CPU_ISA PRIMITIVE_CACHE_CAPACITY VERBOSE",
    # https://www.openblas.net/docs/runtime_variables
    "OPENBLAS_": "BLOCK_FACTOR CORETYPE DEFAULT_NUM_THREADS L2_SIZE MAIN_FREE NUM_THREADS THREAD_TIMEOUT VERBOSE",
    "ATEN_": "CPU_CAPABILITY",
    # https://docs.nvidia.com/deeplearning/dali/user-guide/docs/advanced_topics_performance_tuning.html, libdali.so 2.4
    "DALI_": """
        AFFINITY_MASK BUFFER_GROWTH_FACTOR DEVICE_BUFFER_GROWTH_FACTOR DISABLE_NVML ENABLE_CSE EXEC2_MAX_THREADS
        EXEC2_NUM_THREADS GDS_CHUNK_SIZE HOST_BUFFER_GROWTH_FACTOR HOST_BUFFER_SHRINK_THRESHOLD MALLOC_POOL_THRESHOLD
        ODIRECT_ALIGNMENT ODIRECT_CHUNK_SIZE ODIRECT_LEN_ALIGNMENT OPTIMIZE_GRAPH RESTRICT_PINNED_MEM
        USE_CUDA_MALLOC_ASYNC USE_DEVICE_MEM_POOL USE_EXEC2 USE_NEW_THREAD_POOL USE_PINNED_MEM_POOL USE_VMM
    """,
    # mallopt(3) and ld.so(8); the names of mallopt end in "_" as often as not
    "MALLOC_": "ARENA_MAX ARENA_TEST CHECK_ MMAP_MAX_ MMAP_THRESHOLD_ PERTURB_ TOP_PAD_ TRIM_THRESHOLD_",
    "GLIBC_": "TUNABLES",
    "LD_": "BIND_NOW",
    # https://openucx.readthedocs.io/en/master/faq.html and https://docs.rapids.ai/api/ucxx/stable/configuration
    "UCX_": """
        CUDA_COPY_MAX_REG_RATIO FRAG_MEM_TYPE IB_GID_INDEX IB_GPU_DIRECT_RDMA IB_PCI_RELAXED_ORDERING IB_PKEY IB_SL
        IB_TRAFFIC_CLASS LOG_LEVEL MAX_EAGER_RAILS MAX_RNDV_RAILS MEMTYPE_CACHE NET_DEVICES PROTO_ENABLE PROTO_INFO
        RNDV_FRAG_MEM_TYPE RNDV_SCHEME RNDV_THRESH TLS UNIFIED_MODE ZCOPY_THRESH
    """,
    # https://ofiwg.github.io/libfabric, fabric(7), fi_efa(7) and fi_cxi(7)
    "FI_": """
        CXI_DEFAULT_CQ_SIZE CXI_DEFAULT_TX_SIZE CXI_DISABLE_HOST_REGISTER CXI_DISABLE_NON_INJECT_MSG_IDC
        CXI_RDZV_EAGER_SIZE CXI_RDZV_GET_MIN CXI_RDZV_PROTO CXI_RDZV_THRESHOLD CXI_RX_MATCH_MODE EFA_FORK_SAFE
        EFA_USE_DEVICE_RDMA EFA_USE_HUGE_PAGE HMEM_CUDA_USE_GDRCOPY HMEM_DISABLE_P2P LOG_LEVEL MR_CACHE_MAX_COUNT
        MR_CACHE_MAX_SIZE MR_CACHE_MONITOR PROVIDER
    """,
    # https://github.com/aws/aws-ofi-nccl, include/nccl_ofi_param.h
    "OFI_NCCL_": """
        DISABLE_GDR_REQUIRED_CHECK EAGER_MAX_SIZE MIN_STRIPE_SIZE NIC_DUP_CONNS PROTOCOL
        RDMA_MIN_POSTED_BOUNCE_BUFFERS
    """,
}

# Documented names of code that they load, and of files that they read or write.
_CODE_AND_FILES = {
    "NCCL_": """
        CONF_FILE DEBUG_FILE ENV_PLUGIN GIN_PLUGIN GRAPH_DUMP_FILE GRAPH_FILE NET_PLUGIN PROFILER_PLUGIN RMA_PLUGIN
        TOPO_DUMP_FILE TOPO_FILE TUNER_PLUGIN
    """,
    "OMP_": "TOOL_LIBRARIES",
    "TORCH_NCCL_": "DEBUG_INFO_TEMP_FILE",
}


def _whole(names_of: dict[str, str]) -> frozenset[str]:
    return frozenset(f"{library}{name}" for library, names in names_of.items() for name in names.split())


KNOWN = _whole(_OF_LIBRARIES)
# A run may set them; of the shell's, records have the names alone: a path says more of a machine than of what it
# computes.
CODE_AND_FILES = _whole(_CODE_AND_FILES)


# Variables that resnetx or torchrun sets for each rank, and the setting to use instead.
_SET_FOR_RANKS = {
    "RANK": "gpus",
    "LOCAL_RANK": "gpus",
    "WORLD_SIZE": "gpus",
    "LOCAL_WORLD_SIZE": "gpus",
    "MASTER_ADDR": "torchrun by hand",
    "MASTER_PORT": "torchrun by hand",
    "OMP_NUM_THREADS": "threads",
    "CUDA_VISIBLE_DEVICES": "devices",
    "HIP_VISIBLE_DEVICES": "devices",
    "ROCR_VISIBLE_DEVICES": "devices",
    "TMPDIR": "the shell",
    "DDP_SET_LAST_BUCKET_CAP": "strategy.first_bucket_mb",  # changes how DDP fills its buckets
}

# Allowed in files: how libraries communicate, compute and allocate.
_TUNING = re.compile(
    r"(NCCL|RCCL|TORCH_NCCL|TORCH_DIST|GLOO|OMP|GOMP|KMP|MKL)_[A-Z0-9_]+"
    r"|CUDA_(DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|LAUNCH_BLOCKING|MODULE_LOADING)|CUBLAS_WORKSPACE_CONFIG"
    r"|PYTORCH_((CUDA_)?ALLOC_CONF|NO_CUDA_MEMORY_CACHING)|NVIDIA_TF32_OVERRIDE"
    r"|(ONEDNN|DNNL)_MAX_CPU_ISA|ONEDNN_DEFAULT_FPMATH_MODE|ATEN_CPU_CAPABILITY|MALLOC_ARENA_MAX"
    r"|UCX_(TLS|NET_DEVICES)|FI_PROVIDER"
)
# Except names of code to load, or of files to read or write.
_FILES = re.compile(r"(?<![A-Z])(CONF|CONFIG|DIR|DUMP|FILE|HOME|LIB|LIBRAR(Y|IES)|LOG|PATH|PLUGINS?|TRACE)(?![A-Z])")
_HARMLESS = re.compile(r"CUBLAS_WORKSPACE_CONFIG|PYTORCH_(CUDA_)?ALLOC_CONF")


_OPENING = re.compile(r"(NCCL|GLOO)_SOCKET_IFNAME|NCCL_COMM_ID")
_LOOPBACK = re.compile(r"=?lo0?|(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d{1,5})?|::1")

# Names of a machine's own network interfaces and cards.
_NETWORK = re.compile(r"(NCCL|GLOO)_SOCKET_IFNAME|NCCL_(OOB_NET_IFNAME|IB_HCA)|UCX_NET_DEVICES")

# What torch, NCCL, ROCm's libraries, gloo, the OpenMP and BLAS libraries, DALI and the loader of libraries read.
_READ = re.compile(
    r"(NCCL|GLOO|UCX|FI|OFI|CUDA|CUDNN|CUBLAS|CUBLASLT|OMP|GOMP|KMP|MKL|DNNL|ONEDNN|OPENBLAS|ATEN|TORCH|PYTORCH|DALI)_.+"
    r"|(RCCL|HIP|HIPBLASLT|HSA|ROCR|ROCBLAS|MIOPEN|MALLOC)_.+|NVIDIA_(TF32_OVERRIDE|VISIBLE_DEVICES)|LD_PRELOAD"
    r"|GPU_MAX_HW_QUEUES|GLIBC_TUNABLES"
)
_RECORDED = KNOWN | CODE_AND_FILES  # where a run sets them itself
HIDDEN = "(set)"  # instead of a value that may be a secret


def recorded(env: Mapping[str, str]) -> dict[str, str]:
    """Of the variables of a process, those that libraries read, as records have them: values of known ones alone."""
    return {name: env[name] if name in KNOWN else HIDDEN for name in sorted(env) if _READ.fullmatch(name)}


def names_network(name: str) -> bool:
    """Whether the value of a variable names network interfaces or cards, as every machine has its own."""
    return bool(_NETWORK.fullmatch(name))


def with_hidden(env: Mapping[str, str]) -> dict[str, str]:
    """Variables as the file of a run has them: with values of those that a run could set alone."""
    return {name: value if name in _RECORDED else HIDDEN for name, value in env.items()}


def check_variables(env: Mapping[str, str]) -> None:
    """Rejects variables that no run may set."""
    check_site_variables(env)
    for name in env:
        if name not in _RECORDED:
            raise ConfigError(
                f"env.{name[:80]}: not known to tune a library, so its value may be a secret, which every record would "
                "have; set it in the shell that starts resnetx: records then have its name without its value"
            )


def check_site_variables(env: Mapping[str, str]) -> None:
    """Rejects variables that no site file may set; of those that a run could not, values are not recorded."""
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                f"env.{name[:80]}: not the name of an environment variable; expected letters, digits and _"
            )
        if "\0" in value:
            raise ConfigError(f"env.{name}: its value contains a NUL character")
        if name.startswith(("LD_", "PYTHON")):
            raise ConfigError(f"env.{name}: could load other code into a run; set it in the shell that starts resnetx")
        if name in _SET_FOR_RANKS:
            raise ConfigError(f"env.{name}: set by resnetx for each rank; use {_SET_FOR_RANKS[name]}")
        if name.startswith(("PET_", "RESNETX_RUN_", "TORCHELASTIC_")):  # what torchrun reads, and tells its ranks
            raise ConfigError(f"env.{name}: controls how ranks are started, which resnetx does; use torchrun by hand")
        if has_password(value):
            raise ConfigError(
                f"env.{name}: its value has an address with a user or a password, which files of the run would have; "
                "set it in the shell that starts resnetx"
            )


def check_file_variables(names: Iterable[str], where: str) -> None:
    """Rejects variables that a file may not set; `where`: the file."""
    for name in unlisted(names):
        raise ConfigError(
            f"{where}: env.{name[:80]}: not allowed in a file, as it may load code or write files; set it "
            "on the command line or in the shell"
        )


def tuning(env: Mapping[str, str]) -> dict[str, str]:
    """Those of some variables that set how libraries communicate, compute and allocate."""
    return {name: value for name, value in env.items() if _TUNING.fullmatch(name) and name in _RECORDED}


def unlisted(names: Iterable[str]) -> list[str]:
    """The given variables that a file may not set."""
    return [name for name in names if not _may_be_in_a_file(name)]


def opening(env: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The variables (name, value) that make ranks listen on another interface than loopback."""
    return [(name, value) for name, value in env if _OPENING.fullmatch(name) and not _LOOPBACK.fullmatch(value)]


def _may_be_in_a_file(name: str) -> bool:
    return bool(_TUNING.fullmatch(name)) and (bool(_HARMLESS.fullmatch(name)) or not _FILES.search(name))


# Passwords inside addresses, `https://user:password@host`, which no record may have.

# What may be an address, or several in one word, from the first :// on.
_WORD = re.compile(rb"://[^\s\"'<>\\]+")
_USER = re.compile(rb"[^/?#@:]*")
_HIDDEN = b"***"
_PIECE_BYTES = 2**20  # of a log, of which a line may be as long as the log


def has_password(text: str) -> bool:
    """Whether a text has an address with a user or a password in it."""
    data = text.encode(errors="replace")
    return without_passwords(data) != data


def without_passwords(data: bytes) -> bytes:
    """A text, or JSON, with `***` for the user and the password of every address; in time that grows with its length.

    That is the part between :// and @ (RFC 3986, userinfo). A user's name alone is hidden, too: it may be a token. With
    a colon in it, it may have what should have been escaped, a / in a password, and ends at the last @ of the word.
    """
    return _WORD.sub(_word, data) if b"://" in data and b"@" in data else data


def _word(match: re.Match[bytes]) -> bytes:
    """One word of a text without its passwords."""
    word, kept, shown, at = match[0], [], 0, 0
    last = word.rfind(b"@")
    while 0 <= (at := word.find(b"://", at)) < last:
        at += 3
        user = _USER.match(word, at)
        assert user is not None, "it matches nothing, too"
        ends = word[user.end() : user.end() + 1]
        hidden = last if ends == b":" else user.end() if ends == b"@" else at
        if hidden > at and word[at:hidden] != _HIDDEN:
            kept += [word[shown:at], _HIDDEN]
            shown = at = hidden
    return b"".join([*kept, word[shown:]])


def hide_in(log: Path) -> None:
    """Hides the passwords that others have written into a log, whatever the length of its lines.

    A log without any stays as it is.
    """
    with log.open("rb") as file:
        if all(without_passwords(piece) == piece for piece in _pieces(file)):
            return
    with tempfile.TemporaryFile() as hidden:
        with log.open("rb") as file:
            hidden.writelines(map(without_passwords, _pieces(file)))
        hidden.seek(0)
        with log.open("wb") as whole:
            shutil.copyfileobj(hidden, whole)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """A file in pieces that end between two words; a word that is longer than a piece is taken apart."""
    kept = b""
    while read := file.read(_PIECE_BYTES):
        piece = kept + read
        end = max(piece.rfind(b" "), piece.rfind(b"\n")) + 1
        if len(piece) - end > _PIECE_BYTES:
            end = len(piece)
        yield piece[:end]
        kept = piece[end:]
    yield kept


def plain(part: Any) -> Any:
    """A record, or a part of one, as plain values without passwords: what leaves the machine."""
    return msgspec.json.decode(without_passwords(msgspec.json.encode(part)))
