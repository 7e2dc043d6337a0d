"""What a rank hands to the record: unknown values on their way, and what a measure leaves out."""

import pickle

import msgspec
import torch

from resnetx.measure.launch import Moment
from resnetx.measure.machine.readings import Readings
from resnetx.measure.rank import main, nodes
from resnetx.measure.rank.device import describe_device
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.main import Place
from resnetx.measure.rank.results import RankResults, _sampling_warnings
from resnetx.measure.rank.windows import RankWindows
from resnetx.record import GpuSamples, InputState, RunRecord, StartUp, Unknown

ALONE = Ranks(rank=0, local_rank=0, world_size=1, device=torch.device("cpu"))


def test_what_a_rank_sends_keeps_its_reasons():
    device = describe_device(ALONE.device)
    sent = pickle.loads(pickle.dumps(device))  # as torch gathers it
    assert sent == device
    assert isinstance(sent.uuid, Unknown) and sent.uuid == "a CPU rank has no GPU"


def test_what_a_measure_leaves_out_is_null_and_its_reason_names_the_measure(task_of):
    start_up = StartUp(rank=0, imports_s=1.0, process_group_s=0.0, model_s=0.0, input_s=1.0, first_step_s=1.0)
    state = InputState(**dict.fromkeys(InputState.__struct_fields__, Unknown("not asked")) | {"encoded": False})
    measured = RankResults(start_up=[start_up], peak_memory_bytes=[5], input_state=state, images_per_s=7.0)
    place = Place(nodes.machines(None, ALONE), [describe_device(ALONE.device)], [""], Unknown("no images are read"))
    found = main._record(task_of({"measure": "input", "model.x": 1}, gpus=1), ALONE, measured, place, Moment.now())
    assert (found.outcome, found.images_per_s, found.peak_memory_bytes) == ("ok", 7.0, [5])
    left_out = {name for name, why in found.unknown.items() if why == "no part of measure=input"}
    assert {"loss", "buckets", "phases", "layers", "equality", "windows_s", "host_load"} <= left_out
    assert found.unknown["input_state.decoder"] == "not asked"
    assert msgspec.json.decode(msgspec.json.encode(found), type=RunRecord) == found


def test_a_run_whose_windows_are_slower_where_sensors_were_read_says_so(request_of):
    samples = GpuSamples(0, [0.1], [1e9], [300.0], [50.0], [1.0], [0], 5.0)

    def warned(*windows_s, samples=samples):
        readings = Readings(samples, Unknown("no links"), Unknown("not read"))
        rank = RankWindows(None, [], "", [*windows_s], 1, readings, 0, Unknown("not read"), 0)
        return [warning.message for warning in _sampling_warnings(request_of(windows=len(windows_s)), [rank])]

    (message,) = warned(1.00, 1.03, 1.01, 1.04, 1.00, 1.03)
    assert message == "windows in which the GPU's sensors were read took 3.0% longer than the others"
    assert warned(1.00, 1.03, 1.01, 1.04, 1.05, 1.03) == []  # so does another one
    assert warned(1.00, 1.005, 1.00, 1.005, 1.00, 1.005) == []
    assert warned(1.00, 1.03, 1.01, 1.04, 1.00, 1.03, samples=Unknown("the run uses no GPU")) == []
