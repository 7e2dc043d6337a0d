"""Which runs of a check stand out, how often a fleet in good order has an outlier, and what metrics say of it."""

import json
import math
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import resnetx
from resnetx.fleet import metrics_text
from resnetx.fleet.outliers import FLOOR, LEAST, SPREADS, against, checked, facts_of, fleet_limit, outliers
from resnetx.record import SCHEMA, seal
from resnetx.record.topologies import Cause, Check, Outlier
from tests.reporting.checked_fleet import all_reduce, machine, training

WHY = "made by a test"


def judged(tried):
    """Outliers and remarks of a made fleet."""
    runs = checked(tried, None, WHY)
    names = list(dict.fromkeys(node for each in tried for node in each.nodes))
    own = {name: [each.record for each in tried if each.nodes == (name,)] for name in names}
    return outliers(runs, [facts_of(name, own[name]) for name in names])


# ---- the limit ------------------------------------------------------------------------------------------------------


def test_the_limit_is_five_robust_deviations_or_a_tenth_over_the_median():
    assert fleet_limit([1.0, 1.0]) is None
    still = fleet_limit([2.0, 2.0, 2.0, 9.0])
    assert (still.median_s, still.limit_s) == (2.0, pytest.approx(2.2))
    noisy = fleet_limit([0.9, 1.0, 1.1])
    assert noisy.limit_s == pytest.approx(1.0 + 5 * 1.4826 * 0.1)


# Share of fleets in good order (normal times with this standard deviation, of so many nodes) that have an outlier at
# all, at most: docs/check.md has what was counted.
@pytest.mark.parametrize(
    ("nodes", "noise", "most"),
    [(3, 0.01, 0.0), (3, 0.10, 0.11), (4, 0.05, 0.03), (8, 0.05, 0.03), (64, 0.05, 0.005), (256, 0.03, 0.005)],
)
def test_a_fleet_in_good_order_seldom_has_an_outlier(nodes, noise, most):
    times_s = 1 + noise * np.random.default_rng(20).standard_normal((1000, nodes))
    alarms = sum(max(fleet) > fleet_limit(fleet).limit_s for fleet in times_s.tolist())
    assert alarms / len(times_s) <= most


def test_times_with_a_long_tail_raise_alarms_which_the_docs_say():
    """What the rule is not made for: a count that would show if the docs were wrong."""
    times_s = 1 + 0.05 * np.random.default_rng(20).exponential(size=(500, 64))
    alarms = sum(max(fleet) > fleet_limit(fleet).limit_s for fleet in times_s.tolist())
    assert 0.5 < alarms / len(times_s) < 0.75


@pytest.mark.parametrize("nodes", [4, 16, 256])
def test_a_node_that_takes_half_as_long_again_is_found(nodes):
    times_s = 1 + 0.03 * np.random.default_rng(20).standard_normal((300, nodes))
    times_s[:, 0] *= 1.5
    found = [fleet[0] > fleet_limit(fleet).limit_s for fleet in times_s.tolist()]
    assert sum(found) / len(found) > 0.98


# ---- runs that stand out --------------------------------------------------------------------------------------------


def fleet(*times_s, **of_last):
    """All-reduces of nodes a, b, ... as long as given."""
    last = len(times_s) - 1
    nodes = [chr(ord("a") + place) for place in range(len(times_s))]
    return [
        all_reduce(node, time_s, environment=machine(node, **(of_last if place == last else {})))
        for place, (node, time_s) in enumerate(zip(nodes, times_s, strict=True))
    ]


def test_a_slow_node_is_named_with_its_figures():
    (found,), _ = judged(fleet(1.00e-3, 1.02e-3, 0.98e-3, 2.00e-3))
    assert (found.what, found.name, found.measure, found.against) == ("node", "d", "all-reduce", ["fleet"])
    assert found.found.startswith("2 ms, 98% over the fleet's median of 1.01 ms (limit ")
    assert [cause.kind for cause in found.causes] == ["unknown"]


def test_a_fast_node_is_none():
    assert judged(fleet(1.0, 1.0, 1.0, 0.3)) == ([], [])


def test_two_nodes_are_no_fleet():
    runs = checked(fleet(1.0, 9.0), None, WHY)
    assert [against(run) for run in runs] == [[], []]
    assert "fewer than 3" in runs[0].limit_s and LEAST == 3


def test_a_failed_run_is_an_outlier_with_its_reason_and_the_others_are_judged():
    tried = [*fleet(1.0, 1.0, 1.0, 2.0), all_reduce("e", None, "rank 1 was killed (SIGKILL)")]
    found, _ = judged(tried)
    assert [(each.name, each.against) for each in found] == [("d", ["fleet"]), ("e", ["run"])]
    assert found[1].found == "failed: rank 1 was killed (SIGKILL)"


def test_wrong_sums_are_a_failure_however_fast():
    tried = [*fleet(1.0, 1.0, 1.0), all_reduce("d", 1.0, wrong=7)]
    (found,), _ = judged(tried)
    assert found.found == "failed: 7 elements of its sums were wrong"


def test_nodes_of_other_kinds_are_not_compared():
    slow = [all_reduce(node, 3.0, environment=machine(node, gpus=None, cpu="Xeon")) for node in "xyz"]
    assert judged([*fleet(1.0, 1.0, 1.0), *slow]) == ([], [])


def test_a_description_judges_without_a_fleet(predicted_of):
    point = predicted_of(0.10)  # known to a tenth
    (slow, well) = checked([training("a", 0.2), training("b", 0.1)], point, "")
    assert (against(slow), against(well)) == (["description"], [])
    (found,), _ = outliers([slow, well], [])
    assert found.found == "200 ms, the description allows 100 ms (110 ms at most)"


# ---- record and metrics ---------------------------------------------------------------------------------------------


def made_check(tried, left_out=()) -> Check:
    runs = checked(tried, None, WHY)
    names = [each.nodes[0] for each in tried if each.measure == "all-reduce"]
    found, remarks = outliers(runs, [facts_of(each.nodes[0], [each.record]) for each in tried if len(each.nodes) == 1])
    return seal(
        Check(
            kind="check", schema=SCHEMA, resnetx="0", started_at="2026-01-01T00:00:00.000+00:00", duration_s=20.0,
            settings={"words": ""}, nodes=names, gpus=2, size_bytes=2**20, workload="ResNet/1", batch_size=8,
            system="dgx-h100", budget_s=120.0, spreads=SPREADS, floor=FLOOR, runs=runs, outliers=found, remarks=remarks,
            left_out=list(left_out), pairs=6, pairs_tried=2, unknown={},
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def check():
    pairs = [all_reduce("a b", 2e-3), all_reduce("c d", None, 'said "no"\nand left \\')]
    return made_check([*fleet(1e-3, 1e-3, 1e-3, 2e-3), *pairs])


def test_the_record_follows_its_schema(check):
    schema = json.loads((Path(resnetx.__file__).parent / "schemas" / "check.schema.json").read_text())
    jsonschema.validate(msgspec.to_builtins(check), schema)
    assert check.outlying_nodes == ["d"] and not check.healthy
    assert len(check.rows()) == 6 and check.rows()[4]["nodes"] == "a - b"


def test_prometheus_reads_the_metrics(check):
    families = {each.name: each for each in text_string_to_metric_families(metrics_text(check))}
    assert all(each.type == "gauge" and each.documentation and each.samples for each in families.values())

    def values(name):
        return {tuple(sample.labels.values()): sample.value for sample in families[f"resnetx_check_{name}"].samples}

    assert values("outliers") == {(): 2.0}
    assert values("node_outlier") == {("a",): 0.0, ("b",): 0.0, ("c",): 0.0, ("d",): 1.0}
    assert values("allreduce_seconds") == {("a",): 1e-3, ("b",): 1e-3, ("c",): 1e-3, ("d",): 2e-3}
    assert values("pair_allreduce_seconds") == {("a", "b"): 2e-3}, "no number for the one that failed"
    assert values("pair_allreduce_slow") == {("a", "b"): 0.0, ("c", "d"): 1.0}
    assert values("pairs_left_out") == {(): 4.0}
    assert values("timestamp_seconds") == {(): 1767225620.0}
    assert all(math.isfinite(sample.value) for each in families.values() for sample in each.samples)


def test_labels_keep_any_name():
    name = 'odd "name" \\ of\nnode'
    named = Outlier(
        what="node", name=name, nodes=[name], measure="pair", against=["run"], found="x", causes=[Cause("switch", "y")]
    )
    text = metrics_text(msgspec.structs.replace(made_check(fleet(1.0, 1.0)), outliers=[named]))
    (cause,) = [each for each in text_string_to_metric_families(text) if each.name == "resnetx_check_outlier_cause"]
    assert cause.samples[0].labels["name"] == name
