"""What feeding takes, what that does to a prediction, and how far off it may be."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

import resnetx
from resnetx import workloads
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.collectives.internode import from_host, from_storage
from resnetx.interconnect.systems.system import load, parts_table
from resnetx.prediction import messages
from resnetx.prediction.compute import RATE_ERRORS, STORED
from resnetx.prediction.predict import predict
from resnetx.prediction.scaling import LEAST_COST, scaling_errors
from resnetx.prediction.scenario import Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.step import Overlap
from resnetx.settings.files import CONFIGS

GX8 = load("gx8")
GIB = 2**30


def point(*, gpus=8, batch_size=256, recipe="imagenet", **setting):
    words = {"model": "alexnet", "batch_size": batch_size, "strategy": "after", "gpus": 1}
    request = request_from(compose({**words, "input": "dali", "input.recipe": recipe}))
    workload = Workload.of(request, workloads.table(request.model, request.image_size), "caffe")
    return Point(workload, Deployment(GX8, "nccl1"), tuple(range(gpus)), batch_size, TrainingSetup(**setting))


def what(answer):
    return {line.what: line for line in answer.inputs}


# ---- the errors are those of what was measured


def test_a_measured_rate_is_as_far_off_as_the_published_copies_from_host_memory():
    """Tallent et al. 2017, section 4.4: 11.1 and 10.7 GB/s, taken as powers of two."""
    off = [
        from_host(load(name), [0]).rate_Bps / GIB / stated - 1 for name, stated in (("dgx1-p100", 11.1), ("gx8", 10.7))
    ]
    assert all(each > 0 for each in off)
    assert max(off) == pytest.approx(RATE_ERRORS["measured"], abs=0.005)


def test_a_datasheet_is_as_far_off_as_the_links_whose_copies_were_measured():
    measured = [wire for wire in parts_table("links").values() if wire.copy_Bps.provenance == "measured"]
    off = [wire.bandwidth_Bps.value / wire.copy_Bps.value - 1 for wire in measured]
    assert len(measured) > 5
    assert max(off) == pytest.approx(RATE_ERRORS["datasheet"], abs=0.005)


def test_a_figure_is_trusted_as_its_weakest_source():
    assert from_storage(GX8, range(8)).provenance == "assumed"
    assert from_host(GX8, range(8)).provenance == "measured"


def test_an_input_that_is_from_the_code_names_a_file_that_is_there():
    sources = [line.source for line in predict(point()).inputs if line.source.startswith("prediction/")]
    assert sources and all((Path(resnetx.__file__).parent / source).is_file() for source in sources)


def test_a_file_server_is_one_for_all_nodes():
    """Shi et al. 2018: the machines of cluster 1 share one NFS of 1.1 GB/s; each of cluster 2 has an SSD of its own."""
    shared, own = (
        [from_storage(load(name, nodes), range(4 * nodes)) for nodes in (1, 4)] for name in ("k80-10gbe", "v100-ib")
    )
    assert [supply.rate_Bps for supply in shared] == pytest.approx([1.1e9 / 4, 1.1e9 / 16])
    assert [supply.rate_Bps for supply in own] == pytest.approx([0.3673e9 / 4] * 2)
    assert shared[1].through == "nfs-shi at 1.10 GB/s, one for all nodes"


def test_own_and_shared_storage_add_up(tmp_path):
    text = (CONFIGS / "system" / "k80-10gbe.yaml").read_text()
    text = text.replace("  nfs: {storage", "  ssd: {storage: ssd-sata, at: [0.2, 2.7]}\n  nfs: {storage")
    text += "  - {between: [ssd, cpu0], link: pcie3, lanes: 4}\n"
    (tmp_path / "both.yaml").write_text(text)
    both = load(str(tmp_path / "both.yaml"), nodes=2)
    assert from_storage(both, range(8)).rate_Bps == pytest.approx(0.5e9 / 4 + 1.1e9 / 8)
    assert from_storage(both, [0]).rate_Bps == pytest.approx(0.5e9 + 1.1e9)


# ---- what is read


def test_bytes_of_an_image_are_those_of_the_recipe_unless_asked_for():
    for recipe, asked, size_bytes in (
        ("imagenet", None, 110_000),
        ("paper", None, STORED["paper"].size_bytes),
        ("paper", 196_608, 196_608),
    ):
        found = predict(point(recipe=recipe, image_bytes=asked, overlap=Overlap(False, False))).point
        copied_s = 32 * 3 * 227**2 * 4 / from_host(GX8, range(8)).rate_Bps
        assert found.input_s == pytest.approx(256 * size_bytes / 0.5e9 + copied_s)
    assert STORED["paper"].size_bytes < STORED["imagenet"].size_bytes


def test_each_rate_stands_among_the_inputs_with_its_error():
    found = what(predict(point()))
    assert (found["storage of gx8"].origin, found["storage of gx8"].error) == ("assumed", RATE_ERRORS["assumed"])
    assert found["copies from the host of gx8"].error == RATE_ERRORS["measured"]
    assert found["bytes of an image"].error == STORED["imagenet"].error
    assert what(predict(point(image_bytes=1000)))["bytes of an image"].error == 0


# ---- what it does


def test_input_that_outlasts_everything_is_the_limit_and_the_interval_is_as_wide_as_its_error():
    found = predict(point(batch_size=512)).point
    assert found.iteration_s == pytest.approx(found.input_s)
    assert found.limited_by == "input"
    without = predict(point(batch_size=512, image_bytes=1)).point
    assert found.limit_share == pytest.approx(1 - without.iteration_s / found.iteration_s)
    assert found.input_error == pytest.approx(0.50, abs=0.02)  # of reading, which takes longer than copying
    longest = predict(point(batch_size=512, image_bytes=500_000)).point  # messages are hidden even at their worst
    low_s, high_s = longest.interval_s
    slower = scaling_errors().spread.times(LEAST_COST).slower
    longer = math.hypot(math.log(1 + longest.input_error), slower)
    assert high_s == pytest.approx(longest.iteration_s * math.exp(longer), rel=0.02)
    assert low_s < 0.8 * longest.iteration_s


def test_compute_is_a_limit_only_where_the_iteration_gets_shorter_without_it():
    hidden = predict(point(batch_size=512)).point
    assert hidden.compute_s > 0.25 * hidden.iteration_s
    assert hidden.interval_by_compute_s == pytest.approx([hidden.iteration_s] * 2)
    alone = predict(point(gpus=1, batch_size=512, image_bytes=1)).point
    assert (alone.limited_by, alone.limit_share) == ("compute", pytest.approx(0.9, abs=0.1))  # the host has the rest


def test_of_two_parts_that_hide_each_other_the_longer_one_is_named(monkeypatch):
    """Nothing is saved without either of them."""
    monkeypatch.setattr(messages, "CONTENTION", {})  # messages beside computing would cost it something
    equal = point(batch_size=512)
    balanced = predict(replace(equal, setting=TrainingSetup(image_bytes=1))).point
    size_bytes = round(balanced.iteration_s * 0.5e9 / 512)
    found = predict(replace(equal, setting=TrainingSetup(image_bytes=size_bytes))).point
    assert found.iteration_s == pytest.approx(found.input_s, rel=1e-4)
    assert found.limit_share < 1e-3
    assert found.limited_by == "input"


@pytest.mark.parametrize(("strategy", "batch_size"), [("after", 256), ("layerwise", 512), ("bucket", 256)])
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_an_interval_holds_its_iteration_to_the_last_digit(strategy, batch_size, gpus):
    request = request_from(compose({"model": "alexnet", "batch_size": batch_size, "strategy": strategy, "gpus": 1}))
    workload = Workload.of(request, workloads.table(request.model, request.image_size), "caffe")
    for library in ("nccl1", "nccl2"):
        asked = Point(
            workload, Deployment(GX8, library), tuple(range(gpus)), batch_size, TrainingSetup(clock_Hz=1.227e9)
        )
        found = predict(asked).point
        for low_s, high_s in (found.interval_s, found.interval_by_compute_s):
            assert low_s <= found.iteration_s <= high_s


def test_host_time_is_somebodys_figure_and_as_uncertain():
    plain = predict(point(image_bytes=1)).point
    held_up = predict(point(image_bytes=1, host_s=0.1)).point
    shares = [math.log(found.interval_s[1] / found.iteration_s) for found in (plain, held_up)]
    longer = math.log((held_up.iteration_s + 0.5 * 0.1) / held_up.iteration_s)
    rest = shares[0] * plain.iteration_s / held_up.iteration_s
    assert shares[1] == pytest.approx(math.hypot(rest, longer), rel=0.2)  # what scaling costs is in proportion


@pytest.mark.parametrize("framework", ["cntk", "mxnet", "tensorflow"])  # whose steps wait for their copies
def test_the_rate_of_one_gpu_that_is_stated_has_its_own_copies_in_it(framework):
    words = {"model": "alexnet", "input": "torchvision", "batch_size": 256, "scaling": "weak", "gpus": [1, 2]}
    asked = {**words, "rate": 2000, "framework": framework, "launch_mode": "process-per-gpu"}
    one, two = resnetx.predict(systems=["gx8"], **asked).points
    assert one.images_per_s == pytest.approx(2000)
    assert two.speedup < 2  # the two share a bus


@pytest.mark.parametrize("ahead", [(False, True), (True, False), (False, False)])
def test_a_stated_rate_of_one_gpu_is_as_sure_whatever_its_loop_waits_for(ahead):
    """It has the input of its one GPU in it; however slow that is, the rest of the step is the shorter."""
    asked = {"systems": ["dgx1-v100"], "model": "resnet50", "batch_size": 256, "scaling": "weak", "rate": 300}
    asked |= {"input": "torchvision", "gpus": [1, 8]}
    beside = resnetx.predict(**asked).points
    waiting = resnetx.predict(**asked, overlap={"input": ahead[0], "host_to_device": ahead[1]}).points
    assert waiting[0].iteration_s == pytest.approx(256 / 300)
    assert waiting[0].interval_s == pytest.approx(beside[0].interval_s)
    assert waiting[1].iteration_s > beside[1].iteration_s  # others wait for their share of the host, too
