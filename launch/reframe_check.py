"""`resnetx check` as a test of ReFrame: sane where nothing stands out; its slowest node and pair are its performance.

    reframe -c launch/reframe_check.py -r                                        # this machine
    reframe -c launch/reframe_check.py -r -S nodes=16 -S settings=budget=5m,systems=dgx-h100,network=ndr400

Of several nodes, ReFrame's own job holds them, and resnetx starts a step of it for each run. A site's reference values
go into `reference`, as for any other test (ReFrame, "Regression Test API").
"""

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher

METRICS = "resnetx.prom"


@rfm.simple_test
class ResnetxCheck(rfm.RunOnlyRegressionTest):
    """Short all-reduces and a training point on each node, then pairs of nodes."""

    descr = "resnetx check: are all nodes, and pairs of them, as fast as the others?"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "resnetx"
    nodes = variable(int, value=1)  # whose names ReFrame has in the body of a test
    exclusive_access = True  # else other jobs are measured, too
    settings = variable(typ.List[str], value=[])  # of resnetx: ["budget=5m", "model.x=16"]

    @run_after("init")
    def set_command(self) -> None:
        launch = ["launcher=slurm", "nodes=ALL"] if self.nodes > 1 else []
        self.num_tasks, self.num_tasks_per_node = self.nodes, 1
        self.executable_opts = ["check", *launch, f"prometheus={METRICS}", *self.settings]

    @run_before("run")
    def start_once(self) -> None:
        """One process, on the first node: it starts those of the others."""
        self.job.launcher = getlauncher("local")()

    @sanity_function
    def nothing_stands_out(self) -> bool:
        slow = sn.extractall(
            r'^resnetx_check_outlier_cause\{what="(.*)",name="(.*)",cause="(.*)"\}', METRICS, (1, 2, 3)
        )
        outliers = sn.extractsingle(r"^resnetx_check_outliers (\S+)", METRICS, 1, float)
        return sn.assert_eq(outliers, 0, f"{sn.evaluate(slow)} of the {self.nodes} nodes: see {self.stdout}")

    @run_before("performance")
    def set_figures(self) -> None:
        """The slowest of each measure, in seconds; a measure that was not tried has none."""
        for name in ("allreduce", "iteration", "pair_allreduce"):
            times_s = sn.evaluate(sn.extractall(rf"^resnetx_check_{name}_seconds\{{.*\}} (\S+)", METRICS, 1, float))
            if times_s:
                self.perf_variables[name] = sn.make_performance_function(sn.max(times_s), "s")
