"""What a job of Slurm needs: its commands, an answer, nodes in order, and what the site file names."""

import shutil
from collections import Counter

from resnetx.launching import Launch
from resnetx.measure.doctor.finding import Finding, ProbeResult, limited, missing, ok
from resnetx.measure.launch import slurm
from resnetx.measure.launch.several_nodes import TEMPLATES

COMMANDS = ("sbatch", "srun", "scontrol", "sinfo")


def examine_cluster(launch: Launch) -> list[Finding]:
    """Findings about launcher=slurm from here, with this site file."""
    lacking = [name for name in COMMANDS if not shutil.which(name)]
    if lacking:
        what = f"no {', '.join(lacking)} here: start resnetx on a login node of the cluster"
        return [Finding("Slurm", *missing(what, "apt-get install slurm-client   (with the cluster's slurm.conf)"))]
    version, cluster = slurm.said(["sbatch", "--version"]).strip() or "sbatch", slurm.cluster_name()
    if cluster is None:
        return [Finding("Slurm", *missing(f"{version}, but slurmctld does not answer", "scontrol ping"))]
    probes = {"nodes": _nodes(launch), "site": _site(launch), "container": _container(launch)}
    where = "inside a job" if slurm.inside() else "outside of a job: runs are submitted with sbatch"
    found = {"Slurm": ok(f"{version}, cluster {cluster}; {where}"), **probes}
    return [Finding(topic, *probe) for topic, probe in found.items()]


def _nodes(launch: Launch) -> ProbeResult:
    """Whether enough nodes are in order, of the site's partition, or of the one that jobs get by default."""
    partition = launch.site.partition or slurm.default_partition()
    nodes = slurm.partition_nodes(partition)
    if not nodes:
        return missing(
            f"Slurm has no partition {partition}", "sinfo --summarize   (then set partition in the site file)"
        )
    states = Counter(node.state for node in nodes)
    what = f"partition {partition}: " + ", ".join(f"{count} {state}" for state, count in states.items())
    lost = [f"{node}" for node in nodes if not node.usable]
    usable = sum(node.usable for node in nodes)
    if usable < launch.nodes:
        return missing("; ".join([f"{what}; nodes={launch.nodes} would wait", *lost[:4]]), "sinfo --list-reasons")
    if (own := launch.site.gpus_per_node) and not any("gpu:" in node.resources for node in nodes):
        return missing(f"{what}; none of them has GPUs for Slurm, and gpus_per_node={own}", "sinfo --Format=nodes,gres")
    return limited("; ".join([what, *lost[:4]])) if lost else ok(what)


def _site(launch: Launch) -> ProbeResult:
    """What a job is asked for, where that is worth a word."""
    site = launch.site
    if site.partition is None and site.interface is None:
        return limited("no site file: the default partition, and interfaces as the libraries choose", "site=site.yaml")
    if site.interface is None:
        return limited("no interface: gloo takes that of the host's name, NCCL the first one", "interface: ib0")
    return ok(f"ranks meet on {site.interface}, by torchrun's {site.rendezvous}")


def _container(launch: Launch) -> ProbeResult:
    container = launch.site.container
    if container is None:
        return ok("ranks run outside of containers, with the Python of this command")
    if not (TEMPLATES / "container.sh").is_file():
        return missing(f"{TEMPLATES / 'container.sh'} is not there", "pip install --force-reinstall resnetx")
    if not shutil.which(container.kind):
        return limited(f"no {container.kind} here; it may be on the nodes alone", f"srun which {container.kind}")
    return ok(f"{container.kind} starts {container.image}")
