"""What a rank hands to the record: unknown values on their way, and what a measure leaves out."""

import pickle

import msgspec
import torch

from resnetx.measure.launch.moment import Moment
from resnetx.measure.rank import main, nodes
from resnetx.measure.rank.device import describe_device
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.main import Place
from resnetx.measure.rank.results import RankResults
from resnetx.record import InputState, RunRecord, StartUp, Unknown

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
