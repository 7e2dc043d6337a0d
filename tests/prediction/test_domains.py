"""The table of where predictions were checked says what today's model says of the same measurements."""

from math import log
from pathlib import Path
from statistics import fmean

import pytest

import resnetx
from resnetx.choices import SyntheticInput
from resnetx.interconnect.collectives.internode import from_host
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.system import load
from resnetx.literature import collectives
from resnetx.literature import training as validation
from resnetx.literature.training_rates import training
from resnetx.prediction import messages, roofline
from resnetx.prediction.result import domains
from resnetx.prediction.scaling import scaling_errors
from resnetx.record import RunRecord, known, read
from resnetx.request import Request
from tests.prediction.gloo_truth import judged

pytestmark = pytest.mark.slow  # predicts what was published

FROM_ONE, ONE_BOX = "rates of several GPUs from that of one, networks left out: ", "(one box, each network left out)"
FROM_FEWEST = "rates of several GPUs from that of the fewest of their series: transformers, "
H100 = Path(__file__).parents[2] / "results/h100"
DIGIT = 0.0006  # the table is rounded to a thousandth


@pytest.fixture(scope="module")
def table():
    return {domain.what: domain for domain in domains()}


@pytest.fixture(scope="module")
def published():
    return {summary.group: summary for summary in validation.summaries(validation.validate())}


def of(table, start):
    (found,) = [domain for what, domain in table.items() if what.startswith(start)]
    return found


@pytest.mark.parametrize(
    ("start", "group"),
    [
        ("AlexNet of 2017", validation.CALIBRATED),
        ("AlexNet on 8 GPUs", validation.ITERATIONS),
        ("messages of ResNet-50", validation.LAYERWISE),
        (f"{FROM_ONE}one path", f"{validation.NO_PEERS}: one path through the host, as told {ONE_BOX}"),
        (f"{FROM_ONE}each GPU's path", f"{validation.NO_PEERS}: a path for each, as told {ONE_BOX}"),
    ],
)
def test_published_training(table, published, start, group):
    domain, summary = of(table, start), published[group]
    assert domain.points == summary.rows
    assert domain.mean_error == pytest.approx(summary.mean_error, abs=DIGIT)
    assert domain.worst_error == pytest.approx(summary.worst_error, abs=DIGIT)


@pytest.mark.parametrize("how", ["DDP, one node", "DDP, several nodes", "FSDP, several nodes"])
def test_transformers(table, how):
    groups = [f"{validation.TRANSFORMERS}: {how.replace(',', f' on {gpu},')}" for gpu in ("A100", "H100", "V100")]
    errors = [abs(row.log_error) for row in validation.validate() if row.group in groups]
    domain = of(table, f"{FROM_FEWEST}{how}")
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(fmean(errors), abs=DIGIT)
    assert domain.worst_error == pytest.approx(max(errors), abs=DIGIT)


@pytest.mark.parametrize("read", ["input prepared", "images decoded"])
def test_an_eighth_of_a_batch(table, read):
    rows = [row for row in validation.validate() if row.group.startswith(validation.SMALLER) and read in row.group]
    errors = [abs(row.log_error) for row in rows]
    domain = table[f"rates of one GPU at about an eighth of the batch whose rate is known, systems left out: {read}"]
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(fmean(errors), abs=DIGIT)
    assert domain.worst_error == pytest.approx(max(errors), abs=DIGIT)


def test_copies_from_host_memory(table):
    stated = {"dgx1-p100": 11.1, "gx8": 10.7}  # GiB/s: Tallent et al. 2017, section 4.4
    errors = [from_host(load(name), [0]).rate_Bps / (GiBps * 2**30) - 1 for name, GiBps in stated.items()]
    domain = of(table, "copies from host memory")
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(fmean(errors), abs=DIGIT)
    assert domain.worst_error == pytest.approx(max(errors), abs=DIGIT)


def test_scaling(table, published):
    kinds = scaling_errors().kinds
    assert len([what for what in table if what.startswith("rates of several GPUs")]) == 14
    for kind in kinds:
        summary = published.get(f"from the rate of one GPU: {kind.text}")
        if summary is not None and summary.open < summary.rows:  # of V100s in half precision on several nodes all are
            rows = summary.rows - summary.open
            assert (kind.points, kind.mean) == (rows, pytest.approx(summary.mean_error, abs=DIGIT))


def test_the_roofline(table):
    domain, fit = of(table, "published rates of one GPU, programs of others, by the roofline"), roofline.fitted()
    assert (domain.points, domain.mean_error) == (fit.rows, pytest.approx(fit.error, abs=DIGIT))
    assert domain.worst_error == pytest.approx(fit.worst_error, abs=DIGIT)


@pytest.mark.parametrize(
    ("what", "folders"),
    [("predicted before they were measured", ["one-gpu-rest"]), ("its loop's two constants", ["one-gpu", "train"])],
)
def test_steps_of_one_h100(what, folders, table):
    made = resnetx.predict(systems="dgx-h100", study="one-gpu").points
    predicted_s = {_case(point.request): point.iteration_s for point in made if isinstance(point.request, Request)}
    files = [file for folder in folders for file in sorted((H100 / folder).glob("*/record.json"))]
    runs = [run for run in (read(file, RunRecord) for file in files) if _is_plain(run)]
    errors = [abs(log(predicted_s[_case(run.request)] * run.iterations_per_s)) for run in runs]
    (domain,) = (domain for domain in table.values() if "one H100" in domain.what and what in domain.what)
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(fmean(errors), abs=DIGIT)
    assert domain.worst_error == pytest.approx(max(errors), abs=DIGIT)


def _is_plain(run):
    """It is no graph, whose passes were chosen on two of these runs."""
    request = run.request
    plain = request.measure == "step" and isinstance(request.input, SyntheticInput) and not request.graph
    return plain and known(run.iterations_per_s)


def _case(request):
    return request.model, request.batch_size, request.precision, request.graph


def test_messages_between_nodes_are_as_uncertain_as_they_were_off(published):
    """Whether cards read GPU memory is inferred for one of the two clusters: the error is that of not knowing it."""
    errors = []
    for entry in training().layerwise:
        gpu_direct = system.parts_table("networks")[load(entry.system).network].gpu_direct
        made = plan(load(entry.system, gpu_direct=gpu_direct), "allreduce", None, entry.library)
        predicted_s = sum(made.cost(4 * sum(layer.parameters)).time_s for layer in entry.table(224) if layer.parameters)
        errors.append(abs(predicted_s / entry.communication_s - 1))
    assert fmean(errors) == pytest.approx(messages.BETWEEN_NODES, abs=0.01)
    assert published[validation.LAYERWISE].mean_error < messages.BETWEEN_NODES


def test_no_group_between_nodes_is_further_off_than_plans_say():
    groups = {group.group: group for group in collectives.summaries(collectives.validate())}
    for name in ("internode", "internode-small"):
        assert groups[name].rows > 20
        assert groups[name].mean_error < messages.BETWEEN_NODES


def test_two_gloo_ranks(table):
    errors = [abs(point.error) for point in judged().values()]
    domain = of(table, "two gloo ranks")
    assert domain.points == len(errors)
    assert domain.mean_error == pytest.approx(fmean(errors), abs=DIGIT)
    assert domain.worst_error == pytest.approx(max(errors), abs=DIGIT)
