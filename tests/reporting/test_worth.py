"""How many GPUs are worth it, and which way costs least."""

import re

import pytest

import resnetx
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.reporting.worth import Offer, cheapest, worth


@pytest.mark.parametrize(
    ("rates", "lost", "said"),
    [
        (
            {1: 100.0, 2: 190.0, 4: 195.0},
            {},
            "2 GPUs: the last one adds 90% of one GPU's rate, each of the next 2 adds 2%.",
        ),
        ({1: 100.0, 2: 190.0, 4: 210.0}, {}, "up to 4 GPUs, though each of the last 2 adds 10% of one GPU's rate."),
        ({1: 100.0, 2: 90.0}, {}, "1 GPU: the next one makes it slower: 2 train 0.90 times as fast as 1."),
        ({1: 100.0, 2: 99.0}, {}, "1 GPU: the next one adds nothing."),
        ({1: 100.0, 8: 108.0}, {}, "1 GPU: each of the next 7 adds 1% of one GPU's rate."),
        ({8: 800.0, 16: 500.0, 32: 850.0}, {}, "8 GPUs: each of the next 24 adds 2% of the rate of each of 8 GPUs."),
        (
            {8: 800.0, 16: 500.0, 32: 1600.0},
            {},
            "up to 32 GPUs, though each of the last 24 adds 33% of the rate of each of 8 GPUs.",
        ),
        (
            {1: 4700.0, 4: 15000.0, 8: 4600.0, 16: 4400.0},
            {},
            "4 GPUs: each of the last 3 adds 73% of one GPU's rate, each of the next 4 makes it slower: 8 train "
            "0.31 times as fast as 4.",
        ),
        ({4: 400.0, 8: 500.0}, {}, "up to 8 GPUs, though each of the last 4 adds 25% of the rate of each of 4 GPUs."),
        ({1: 100.0}, {"communication": 0.5}, ""),
    ],
)
def test_as_many_gpus_are_worth_it_as_are_about_as_fast_as_the_best_number_of_them(rates, lost, said):
    assert worth(rates, lost) == said


def test_more_gpus_are_slower_only_where_their_intervals_are_apart():
    rates = {1: 100.0, 2: 80.0}
    assert "makes it slower" in worth(rates, {}, shown_slower=lambda fewer, more: (fewer, more) == (1, 2))
    assert worth(rates, {}, shown_slower=lambda fewer, more: False) == "1 GPU: the next one adds nothing."


@pytest.mark.parametrize("batch", [64, 128, 256, 512])
@pytest.mark.parametrize("system", ["gx8", "dgx1-p100", "dgx-h100"])
def test_the_first_line_and_what_is_worth_it_name_one_number(system, batch, capsys):
    main(["predict", system, "model=alexnet", f"batch_size={batch}"])
    screen = " ".join(capsys.readouterr().out.split())
    use = re.search(r": use (\d+)\.", screen)
    assert f"worth: {use[1] if use else 'up to 8'} GPU" in screen


def test_what_would_change_it_is_the_largest_loss_first():
    lost = {"input": 0.2, "communication": 0.5, "waiting": 0.01, "launching": 0.3}
    said = worth({1: 100.0, 8: 200.0}, lost, otherwise="with graph=true 250 images/s")
    means = "at most 2 times with faster links, 1.2 with a faster loader."
    assert said.endswith(f". On 8 with graph=true 250 images/s; {means}")
    assert worth({1: 100.0, 8: 200.0}, lost).endswith(f". On 8 {means}")


def test_no_more_is_said_of_a_larger_batch_than_what_smaller_ones_cost():
    """A larger one makes launching, messages and the host's part smaller, too."""
    said = worth({1: 100.0, 8: 200.0}, {"smaller batches": 0.2, "launching": 0.5})
    assert said.endswith(". On 8 at most 1.2 times if smaller batches cost nothing.")


def test_the_cheapest_way_ends_in_time():
    slow, fast = Offer("slow", 1000.0, 900.0, 1.0), Offer("fast", 4000.0, 3600.0, 8.0)
    assert cheapest([slow, fast], 3.6e6, None).startswith("Cheapest for 3.6 M images: slow, 1.00 in 1 h (1 an hour).")
    assert "fast, 2.00 in 15 min" in cheapest([slow, fast], 3.6e6, 1800.0)
    assert "it is late (1 h 06 min)" in cheapest([slow], 3.6e6, 3700.0)
    assert cheapest([slow, fast], 3.6e6, 60.0).startswith("None trains 3.6 M images within 1 min: the fastest, fast")


@pytest.mark.parametrize(
    ("images", "job"),
    [(1e9, "1,000 M"), (2.5e11, "250,000 M"), (115.3e6, "115 M"), (1.28e6, "1.28 M"), (5e4, "50,000")],
)
def test_a_job_is_said_in_plain_figures(images, job):
    offer = Offer("one", 1000.0, 900.0, 1.0)
    assert cheapest([offer], images, 1.0).startswith(f"None trains {job} images within ")
    assert cheapest([offer], images, None).startswith(f"Cheapest for {job} images: ")


def test_the_usual_job_is_said_by_its_epochs_of_images_alone():
    offer = Offer("one", 1000.0, 900.0, 1.0)
    assert cheapest([offer], 90 * 1_281_167, None).startswith("Cheapest for 115 M images: ")
    assert cheapest([offer], 90 * 1_281_167, None, "sequences").startswith("Cheapest for 115 M sequences: ")


def test_a_price_is_of_one_gpu_or_of_each_system():
    asked = {"systems": ["gx8", "dgx1-p100"], "model": "alexnet", "batch_size": 256, "gpus": [1, 8]}
    assert "one GPU of dgx1-p100" in resnetx.predict(**asked, price=2.0).cheapest
    assert "8 GPUs of gx8" in resnetx.predict(**asked, price={"gx8": 1, "dgx1-p100": 100}).cheapest
    with pytest.raises(ConfigError, match="price: says nothing of dgx1-p100"):
        resnetx.predict(**asked, price={"gx8": 1})
    with pytest.raises(ConfigError, match=r"deadline=1h: .* give price="):
        resnetx.predict(**asked, deadline="1h")


def test_the_cheapest_is_told_from_other_variants_of_it():
    asked = {"systems": "dgx-a100", "model": "alexnet", "batch_size": 256, "price": 3}
    assert "one GPU, AlexNet, bf16, " in resnetx.predict(**asked, precision=["fp32", "bf16"]).cheapest
    assert "one GPU, bucket, " in resnetx.predict(**asked, strategy=["bucket", "after"]).cheapest
    assert "one GPU, 0.1" in resnetx.predict(**asked | {"price": 0.01}).cheapest


def test_a_gain_of_a_hundred_times_is_written_out():
    """A parameter server over gloo: it was "1e+02 times"."""
    assert "at most 100 times with faster links" in worth({1: 100.0, 8: 101.0}, {"communication": 0.99})
