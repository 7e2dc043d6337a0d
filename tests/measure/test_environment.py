"""The environment: complete for a record, equal to what other tools say, and read from the files of other machines."""

import subprocess

import pytest

import resnetx
from resnetx.measure.machine import environment, host_facts
from resnetx.record import Storage, Unknown
from tests.sealed_part import sealed_part


def test_the_environment_is_a_part_of_a_record(tmp_path):
    sealed = sealed_part(environment(tmp_path))
    assert sealed.resnetx == resnetx.__version__
    assert sealed.cpus_usable >= 1
    assert sealed.host_memory_bytes > 0
    assert sealed.threads["intraop"] >= 1


def test_a_run_without_images_has_no_storage():
    assert isinstance(host_facts.machine(None).storage, Unknown)


def test_storage_is_what_df_says(tmp_path):
    found = host_facts.machine(tmp_path).storage
    says = subprocess.run(["df", "--output=source,fstype", tmp_path], capture_output=True, text=True, check=True)
    assert [found.device, found.filesystem] == says.stdout.splitlines()[1].split()


def test_storage_of_a_missing_folder_is_unknown(tmp_path):
    assert "does not exist" in host_facts.machine(tmp_path / "nowhere").storage


def test_variables_that_libraries_read_are_kept_and_secrets_without_their_values(monkeypatch):
    for name in ("NCCL_ALGO", "OMP_NUM_THREADS", "NVIDIA_TF32_OVERRIDE"):
        monkeypatch.setenv(name, "1")
    for name in ("WANDB_API_KEY", "CUDA_TOKEN", "NVIDIA_API_KEY", "SOME_PASSWORD", "HOME"):
        monkeypatch.setenv(name, "hidden")
    variables = environment(None).variables
    assert variables["NCCL_ALGO"] == variables["OMP_NUM_THREADS"] == variables["NVIDIA_TF32_OVERRIDE"] == "1"
    assert "hidden" not in variables.values()
    assert variables["CUDA_TOKEN"] == "(set)"  # one that libraries read, so that it may matter
    assert "HOME" not in variables


# ---- files of other machines ----------------------------------------------------------------------------------------


@pytest.fixture
def other_machine(kernel_files, monkeypatch):
    """A machine that is not in a container, whose files it writes."""
    for name in ("APPTAINER_NAME", "KUBERNETES_SERVICE_HOST", "container"):
        monkeypatch.delenv(name, raising=False)
    return kernel_files


def test_sockets_cores_and_numa_nodes_are_counted(other_machine):
    siblings = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7"}
    other_machine({"sys/devices/system/node/has_cpu": "0-1"})
    for cpu in range(8):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        other_machine({f"{folder}/physical_package_id": str(cpu % 4 // 2)})
        other_machine({f"{folder}/thread_siblings_list": siblings[cpu % 4]})
        other_machine({f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor": "performance"})
    found = host_facts.machine(None)
    assert (found.cpu_sockets, found.cpu_cores, found.numa_nodes) == (2, 4, 2)
    assert found.cpu_governor == "performance"


def test_an_arm_cpu_is_named_by_its_part(other_machine):
    other_machine({"proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f"})
    assert "implementer 0x41 part 0xd4f" in host_facts.machine(None).cpu


def test_interfaces_that_are_up_have_their_speed(other_machine):
    other_machine({"sys/class/net/eth0/operstate": "up", "sys/class/net/eth0/speed": "100000"})
    other_machine({"sys/class/net/eth1/operstate": "down", "sys/class/net/veth9/operstate": "up"})
    other_machine({"sys/class/net/virt0/operstate": "up", "sys/class/net/virt0/speed": "-1"})
    port = "sys/class/infiniband/mlx5_0/ports/1"
    other_machine({f"{port}/state": "4: ACTIVE", f"{port}/rate": "400 Gb/sec (4X NDR)"})
    assert host_facts.machine(None).network == ["eth0 100 Gb/s", "virt0", "mlx5_0 port 1 400 Gb/s (4X NDR)"]


@pytest.mark.parametrize(
    ("mark", "runtime"), [(".dockerenv", "docker"), ("run/.containerenv", "podman"), (".singularity.d", "apptainer")]
)
def test_a_container_is_known_by_its_mark(other_machine, mark, runtime):
    assert isinstance(host_facts.machine(None).container, Unknown)
    other_machine({mark: ""})
    assert host_facts.machine(None).container == runtime


def test_the_deepest_mount_holds_the_images(other_machine, tmp_path):
    images = tmp_path / "images of cats"
    images.mkdir()
    point = str(images).replace(" ", "\\040")
    mounts = [f"27 1 254:0 / {tmp_path} rw - ext4 /dev/sda rw", f"30 27 8:17 / {point} rw shared:1 - xfs /dev/sdb1 rw"]
    other_machine({"proc/self/mountinfo": "\n".join(mounts), "sys/block/sdb/queue/rotational": "1"})
    other_machine({"sys/block/sdb/sdb1/partition": "1"})
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/8:17").symlink_to(tmp_path / "sys/block/sdb/sdb1")
    found = host_facts.machine(images).storage
    assert found == Storage(path=str(images), filesystem="xfs", device="/dev/sdb1", rotational=True)
