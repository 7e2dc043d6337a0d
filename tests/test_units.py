import pytest

from resnetx.units import GBps, duration, figure, frequency, in_ms, percents, seconds, si, size, size_text, whole


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (243_860_896, "B", "244 MB"),
        (1_204_224, "", "1.20 M"),
        (0.5, "B", "0.500 B"),
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1000, "B", "1.00 kB"),
        (17.2e9, "B/s", "17.2 GB/s"),
        (-2_000_000, "", "-2.00 M"),
    ],
)
def test_si_prints_three_significant_digits_with_a_decimal_prefix(value, unit, text):
    assert si(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(9.5e-6, "0.0095"), (0.0237, "23.7"), (0.9997, "1,000"), (1.284, "1,280"), (90, "90,000")]
)
def test_a_time_in_ms_is_no_power_of_ten(seconds, text):
    assert in_ms(seconds) == text


@pytest.mark.parametrize(
    ("rate_Bps", "text"), [(61.386e9, "61.4"), (1.234e12, "1,230"), (9e9, "9.00"), (4.7e4, "<0.001"), (0, "0")]
)
def test_a_bandwidth_has_three_figures_and_no_power_of_ten(rate_Bps, text):
    assert GBps(rate_Bps) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1471.93, "1,471.9"), (5.23, "5.2"), (0.5, "0.50"), (0.0521, "0.052"), (0, "0")]
)
def test_a_figure_below_one_keeps_two_significant_digits(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(
    ("useful", "percent"), [(0.1646, 16), (0.166, 17), (0.2246, 22), (0.005, 0), (0.996, 100), (1.0, 100)]
)
def test_percents_round_one_by_itself_and_still_sum_to_100(useful, percent):
    rest = 1 - useful
    whole = percents({"a": rest * 0.91, "useful": useful, "b": rest * 0.09, "none": 0.0}, by_itself="useful")
    assert whole["useful"] == percent and whole["none"] == 0 and sum(whole.values()) == 100


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.31, "0.3 s"), (59.4, "59 s"), (245, "4 min 05 s"), (7805, "2 h 10 min")]
)
def test_duration_grows_coarser_as_it_grows_longer(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("4096", 4096),
        ("8B", 8),
        ("64MiB", 2**26),
        ("1.5 GB", 1_500_000_000),
        ("1GiB", 2**30),
        ("250kB", 250_000),
        ("4KiB", 4096),
        ("128M", 2**27),  # as nccl-tests has it: -e 128M
        ("8k", 2**13),
        ("1gb", 10**9),
        ("2mib", 2**21),
    ],
)
def test_a_size_keeps_decimal_and_binary_units_apart(text, size_bytes):
    assert size(text) == size_bytes


@pytest.mark.parametrize("text", ["64Mb", "64gB", "big", "", "-1MiB", "1.2.3", "1.2.3MB", ".", "64 MiB/s", "9" * 400])
def test_what_is_no_size_or_an_ambiguous_one_is_refused(text):
    with pytest.raises(ValueError, match=r": not a size in B, kB"):
        size(text)


def test_a_size_is_exact_to_the_byte():
    assert size("9007199254740993") == 2**53 + 1


@pytest.mark.parametrize("text", ["1.2.3", ".", "9" * 400, "-1s", "1 week"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=r": not a duration$"):
        seconds(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (2**26, "64 MiB"),
        (1536 * 2**10, "1536 KiB"),
        (10**6, "1.00 MB"),
        (160_000_000, "160 MB"),
        (8, "8 B"),
        (0, "0 B"),
    ],
)
def test_a_size_is_printed_in_the_unit_that_fits_it(size_bytes, text):
    assert size_text(size_bytes) == text


def test_a_quantity_is_kept_whole_and_other_words_are_not():
    kept = whole("94.1 images/s on 2 GPUs of 16 GB, 62 % in 4.0 ms; 3 more runs of 5 steps").replace(
        "\N{NO-BREAK SPACE}", "_"
    )
    assert kept == "94.1_images/s on 2_GPUs of 16_GB, 62_% in 4.0_ms; 3 more runs of 5 steps"


@pytest.mark.parametrize("text", ["1227", "1227MHz", "1227 MHz", "1.227GHz"])
def test_a_frequency_is_in_mhz_unless_it_says_otherwise(text):
    assert frequency(text) == 1.227e9


@pytest.mark.parametrize("text", ["find", "1227Hz", "-5", "1e3", ""])
def test_what_is_no_frequency_is_refused(text):
    with pytest.raises(ValueError, match="not a frequency"):
        frequency(text)
