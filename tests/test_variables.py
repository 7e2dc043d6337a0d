import pytest

from resnetx.errors import ConfigError
from resnetx.variables import check_file_variables, check_variables, is_secret, opening, unlisted


@pytest.mark.parametrize(
    "name",
    ["NCCL_P2P_DISABLE", "NCCL_ALGO", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "TORCH_NCCL_BLOCKING_WAIT",
     "TORCH_DIST_USE_NCCL2", "OMP_PROC_BIND",
     "GLOO_SOCKET_IFNAME", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"],
)  # fmt: skip
def test_a_file_may_set_how_libraries_communicate_compute_and_allocate(name):
    check_file_variables([name], "mine.yaml")


# What loads code, or reads and writes files, in one of the libraries that a rank loads.
@pytest.mark.parametrize(
    "name",
    ["PATH", "GCONV_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "CUDA_INJECTION64_PATH",
     "NCCL_DEBUG_FILE", "NCCL_TOPO_FILE", "NCCL_CONF_FILE", "NCCL_TOPO_DUMP_FILE", "OMP_TOOL_LIBRARIES", "HOME",
     "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "DALI_PRELOAD_PLUGINS", "UCX_MODULE_DIR", "OPENBLAS_MAIN_FREE", "BASH_ENV",
     "GLIBC_TUNABLES", "MALLOC_TRACE", "CUDNN_LOGDEST_DBG", "nccl_algo"],
)  # fmt: skip
def test_a_file_may_set_nothing_else_and_the_command_line_may(name):
    with pytest.raises(ConfigError, match=rf"mine.yaml: env.{name}: not allowed in a file"):
        check_file_variables([name], "mine.yaml")
    assert unlisted([name]) == [name]
    check_variables({name: "x"})


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"LD_PRELOAD": "x.so"}, "env.LD_PRELOAD: could load other code"),
        ({"PYTHONPATH": "x"}, "env.PYTHONPATH: could load other code"),
        ({"A B": "x"}, "env.A B: not the name of an environment variable"),
        ({"RANK": "3"}, "env.RANK: set by resnetx for each rank; use gpus"),
        ({"NCCL_ALGO": "a\0b"}, "env.NCCL_ALGO: its value contains a NUL"),
        ({"WANDB_API_KEY": "x"}, "env.WANDB_API_KEY: looks like a secret"),
    ],
)
def test_what_no_run_may_set_is_refused(env, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_variables(env)


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "db_pass", "OPENAI_APIKEY", "KEY"]
)
def test_the_name_of_a_secret_is_told(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", ["UCX_IB_PKEY", "NCCL_IB_PKEY", "TOKENIZERS_PARALLELISM", "NCCL_BYPASS", "MONKEY"])
def test_what_only_sounds_like_a_secret_is_none(name):
    assert not is_secret(name)


def test_variables_that_let_other_hosts_reach_the_ranks_are_named_with_each_value():
    interface, address = ("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_COMM_ID", "10.0.0.1:2000")
    inside = [("GLOO_SOCKET_IFNAME", "lo"), ("NCCL_COMM_ID", "127.0.0.1:2000"), ("NCCL_SOCKET_IFNAME", "=lo")]
    assert opening([interface, address, ("NCCL_ALGO", "Ring"), *inside]) == [interface, address]
