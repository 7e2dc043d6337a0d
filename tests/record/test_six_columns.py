"""Six columns in and out; the sample is Table VI of Shi et al. 2018 as the paper prints it."""

from pathlib import Path

import pytest

from resnetx import choices, workloads
from resnetx.errors import ConfigError
from resnetx.formats import six_columns
from resnetx.record.traces import LayerTimes, TracedLayer

# S. Shi et al., A DAG Model of Synchronous Stochastic Gradient Descent in Distributed Deep Learning (2018), Table VI:
# one iteration of AlexNet on a K80 (two GPUs, 1024 images on each).
TABLE_VI = """\
Id Name Forward Backward Comm. Size
0 data 1.20e+06 0 0 0
1 conv1 3.27e+06 288202 123.424 139776
2 relu1 17234.5 27650.9 0 0
3 pool1 32175.7 60732.6 0 0
4 conv2 3.14e+06 1.03216e+06 292.032 1229824
5 relu2 11507.5 18422.5 0 0
6 pool2 19831.2 32459 0 0
7 conv3 3.886e+06 791825 288214 3540480
8 relu3 4770.3 10996.3 0 0
9 conv4 1.87e+06 510405 1.03218e+06 2655744
10 relu4 4760.26 7872.45 0 0
11 conv5 1.13e+06 306129 275772 1770496
12 relu5 3201.22 4939.42 0 0
13 pool5 5812 18666.2 0 0
14 fc6 44689.7 73935 311170 151011328
15 relu6 295.168 1092.83 0 0
16 drop6 359.744 131247 0 0
17 fc7 19787.8 34423.8 610376 67125248
18 relu7 295.04 451.904 0 0
19 drop7 358.048 317.312 0 0
20 fc8 8033.12 9922.72 130964 16388000
21 loss 1723.49 293.024 0 0
"""
FILE = Path("trace.tsv")


def parsed(text: str) -> LayerTimes:
    return six_columns.parse(text, FILE)


def figures(text: str) -> list[tuple[str, list[float]]]:
    """Name and numbers of every line that has a layer."""
    cells = [line.split("\t") if "\t" in line else line.split() for line in text.splitlines() if line.strip()]
    return [(name, list(map(float, (id_, *rest)))) for id_, name, *rest in cells if id_.isdigit()]


def test_table_vi_reads() -> None:
    times = parsed(TABLE_VI)
    layers = {layer.name: layer for layer in times.layers}
    assert len(layers) == 21  # and the input
    assert times.input_s == [1.2]
    assert sum(layer.gradient_bytes for layer in times.layers) == 243_860_896 == 4 * 60_965_224
    assert layers["conv2"].forward_s == [3.14]
    assert layers["conv1"].communication_s == [pytest.approx(123.424e-6)]
    assert layers["relu1"].communication_s == []  # has nothing to send
    assert times.update_s == times.host_to_device_s == []


def test_table_vi_has_the_parameters_of_our_alexnet_layer_by_layer() -> None:
    ours = [4 * sum(layer.parameters) for layer in workloads.table(choices.AlexNetSettings(classes=1000), 227)]
    theirs = [layer.gradient_bytes for layer in parsed(TABLE_VI).layers]
    assert [size for size in theirs if size] == [size for size in ours if size]


def test_what_is_written_has_the_figures_that_were_read() -> None:
    text = six_columns.write_six_columns(parsed(TABLE_VI))
    assert figures(text) == figures(TABLE_VI)
    assert parsed(text) == parsed(TABLE_VI)


@pytest.mark.parametrize(
    "text",
    [
        "0 data 10 0 0 0\n1 conv 1 2 3 4\n0 data 12 0 0 0\n1 conv 5 6 7 4\n",  # the id begins again
        "# two iterations\n\nid\tname\tforward\tbackward\tcomm\tsize\n0\tdata\t10\t0\t0\t0\n1\tconv\t1\t2\t3\t4\n\n\n"
        "id\tname\tforward\tbackward\tcomm\tsize\n0\tdata\t12\t0\t0\t0\n  1\tconv\t5\t6\t7\t4\n",
        "5 data 10 0 0 0\n6 conv 1 2 3 4\n\n7 data 12 0 0 0\n8 conv 5 6 7 4\n",  # the id goes on, behind a blank line
    ],
)
def test_iterations_are_told_apart(text: str) -> None:
    times = parsed(text)
    assert times.input_s == pytest.approx([10e-6, 12e-6])
    (conv,) = times.layers
    assert conv.forward_s == pytest.approx([1e-6, 5e-6])
    assert conv.backward_s == pytest.approx([2e-6, 6e-6])
    assert conv.communication_s == pytest.approx([3e-6, 7e-6])
    assert conv.gradient_bytes == 4


def test_names_may_have_blanks_between_tabs() -> None:
    (layer,) = parsed("0\tconv 1 of 2\t1\t2\t0\t4\n").layers
    assert layer.name == "conv 1 of 2"


def test_a_trace_in_which_nobody_sends_has_measured_no_communication() -> None:
    (layer,) = parsed("0 conv 1 2 0 4\n").layers
    assert layer.communication_s == []


def test_the_mean_stands_for_what_has_fewer_entries() -> None:
    layer = TracedLayer(
        name="a\tb", forward_s=[1.0, 2.0, 3.0], backward_s=[4.0, 6.0], communication_s=[], gradient_bytes=8
    )
    nothing = {"step_s": None, "clean_step_s": None, "device_busy": None, "host_bound": None}
    times = LayerTimes(
        clock="host",
        layers=[layer],
        input_s=[0.5],
        host_to_device_s=[0.25] * 3,
        update_s=[],
        gradient_copy_Bps=None,
        **nothing,
    )
    assert figures(six_columns.write_six_columns(times)) == [
        ("data", [0, 750_000, 0, 0, 0]),
        ("a b", [1, 1e6, 4e6, 0, 8]),
        ("data", [0, 750_000, 0, 0, 0]),
        ("a b", [1, 2e6, 6e6, 0, 8]),
        ("data", [0, 750_000, 0, 0, 0]),
        ("a b", [1, 3e6, 5e6, 0, 8]),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line has a layer"),
        ("# nothing\n\nid name forward backward comm size\n", "no line has a layer"),
        ("0 data 1 0 0 0\n", "no layer but data"),
        ("0 data 1 0 0 0\n1 conv 1 2 3\n", "line 2: 5 columns; expected the six"),
        ("0 conv 1 2 3 4\n1 conv two 2 3 4\n", "line 2: forward is 'two'; expected microseconds, 0 or more"),
        ("0 conv 1 -2 3 4\n", "line 1: backward is '-2'"),
        ("0 conv 1 2 nan 4\n", "line 1: comm is 'nan'"),
        ("0 conv 1 2 inf 4\n", "line 1: comm is 'inf'"),
        ("0 conv 1 2 3 4.5\n", "line 1: size is '4.5'; expected a whole number, 0 or more"),
        ("0 conv 1 2 3 1e300\n", "line 1: size is '1e300'"),
        ("0 a 1 2 3 4\n1 b 1 2 3 4\n\n0 a 1 2 3 4\n", "line 4: an iteration ends here with 1 of the 2 layers"),
        ("0 a 1 2 3 4\n1 b 1 2 3 4\n0 a 1 2 3 4\n1 c 1 2 3 4\n", "line 4: c of 4 bytes, where .* has b of 4"),
        ("0 a 1 2 3 4\n1 a 1 2 3 4\n", "line 2: a second layer is called a"),
        ("not a trace at all\n", "line 1: 5 columns"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"trace\.tsv.*{message}"):
        six_columns.parse(text, FILE)
