import re

import pytest

from resnetx.errors import ConfigError
from resnetx.variables import (
    CODE_AND_FILES,
    KNOWN,
    check_file_variables,
    check_site_variables,
    check_variables,
    opening,
    recorded,
    unlisted,
    with_hidden,
)


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
    ["NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_DEBUG_FILE", "NCCL_TOPO_FILE",
     "NCCL_CONF_FILE", "NCCL_TOPO_DUMP_FILE", "OMP_TOOL_LIBRARIES", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
     "OPENBLAS_MAIN_FREE", "GLIBC_TUNABLES"],
)  # fmt: skip
def test_the_command_line_may_set_more_than_a_file_of_what_is_known_to_tune(name):
    with pytest.raises(ConfigError, match=rf"mine.yaml: env.{name}: not allowed in a file"):
        check_file_variables([name], "mine.yaml")
    assert unlisted([name]) == [name]
    check_variables({name: "x"})


@pytest.mark.parametrize(
    "name",
    ["PATH", "GCONV_PATH", "CUDA_INJECTION64_PATH", "HOME", "DALI_PRELOAD_PLUGINS", "UCX_MODULE_DIR", "BASH_ENV",
     "MALLOC_TRACE", "CUDNN_LOGDEST_DBG", "nccl_algo", "MY_FLAG"],
)  # fmt: skip
def test_no_run_sets_a_variable_that_is_not_known_to_tune(name):
    with pytest.raises(ConfigError, match=rf"mine.yaml: env.{name}: not allowed in a file"):
        check_file_variables([name], "mine.yaml")
    with pytest.raises(ConfigError, match=rf"env.{name}: not known to tune a library.*set it in the shell"):
        check_variables({name: "x"})


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"LD_PRELOAD": "x.so"}, "env.LD_PRELOAD: could load other code"),
        ({"PYTHONPATH": "x"}, "env.PYTHONPATH: could load other code"),
        ({"A B": "x"}, "env.A B: not the name of an environment variable"),
        ({"RANK": "3"}, "env.RANK: set by resnetx for each rank; use gpus"),
        ({"NCCL_ALGO": "a\0b"}, "env.NCCL_ALGO: its value contains a NUL"),
        ({"WANDB_API_KEY": "x"}, "env.WANDB_API_KEY: not known to tune a library, so its value may be a secret"),
        ({"NCCL_NET": "http://me:hunter2@proxy"}, "env.NCCL_NET: its value has an address with a user or a password"),
    ],
)
def test_what_no_run_may_set_is_refused(env, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_variables(env)


# Plausible names of secrets; those that begin as what libraries read stand in records, without values.
SECRETS = [
    "WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "db_pass", "OPENAI_APIKEY", "KEY",
    "CUDA_AUTH_HEADER", "TORCH_HUB_PAT", "UCX_AUTH", "NCCL_AUTH", "NCCL_COOKIE", "NCCL_LOGIN_HEADER", "OMP_SESSION",
    "DALI_S3_ACCESS", "FI_OPX_CREDS", "MKL_LICENSE_PWD", "HIP_JWT", "PYTORCH_REGISTRY_BEARER", "TORCH_HOME_URL",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_the_value_of_a_variable_that_nobody_knows_is_neither_set_nor_recorded(name):
    with pytest.raises(ConfigError, match=f"env.{name}: not known to tune a library"):
        check_variables({name: "hunter2"})
    assert recorded({name: "hunter2"}) in ({}, {name: "(set)"})


def test_the_values_of_variables_that_tune_are_recorded():
    tuned = {"NCCL_ALGO": "Ring", "NCCL_PAT_ENABLE": "0", "UCX_IB_PKEY": "0x7fff", "OMP_NUM_THREADS": "1",
             "CUDA_VISIBLE_DEVICES": "0,1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
             "OPENBLAS_CORETYPE": "Haswell", "NCCL_IB_HCA": "mlx5", "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip
    assert recorded({**tuned, "HOME": "/root"}) == tuned
    assert recorded({"NCCL_SOMETHING_NEW": "1"}) == {"NCCL_SOMETHING_NEW": "(set)"}


def test_variables_that_let_other_hosts_reach_the_ranks_are_named_with_each_value():
    interface, address = ("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_COMM_ID", "10.0.0.1:2000")
    inside = [("GLOO_SOCKET_IFNAME", "lo"), ("NCCL_COMM_ID", "127.0.0.1:2000"), ("NCCL_SOCKET_IFNAME", "=lo")]
    assert opening([interface, address, ("NCCL_ALGO", "Ring"), *inside]) == [interface, address]


@pytest.mark.parametrize("name", ["NCCL_APITOKEN", "NCCL_OAUTH", "GLOO_USER", "NCCL_TOKEN1", "OMP_ANYTHING", "MKL_PW"])
def test_what_nobody_has_listed_is_no_run_to_set_and_has_no_value_in_records(name):
    """Whatever its name looks like: a list of secrets would have to know them all."""
    with pytest.raises(ConfigError, match="not known to tune a library"):
        check_variables({name: "hunter2"})
    assert with_hidden({name: "hunter2"}) == {name: "(set)"}
    assert recorded({name: "hunter2"}) == {name: "(set)"}
    check_site_variables({name: "hunter2"})  # a job runs with it


@pytest.mark.parametrize("name", ["LD_PRELOAD", "CUDA_INJECTION64_PATH", *sorted(CODE_AND_FILES)])
def test_of_code_and_files_that_the_shell_names_records_have_no_path(name):
    assert recorded({name: "/home/me/x.so"}) == {name: "(set)"}


def test_no_known_variable_is_the_name_of_code_or_of_a_file():
    of_files = re.compile(r"_(PLUGINS?|PRELOAD|FILE|PATH|DIR|HOME|TOOL_LIBRARIES)$")
    assert [name for name in KNOWN if of_files.search(name)] == []
