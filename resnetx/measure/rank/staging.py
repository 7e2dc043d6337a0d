"""Images on the nodes of a run: the first rank of each node copies them there before any rank reads."""

from pathlib import Path

import msgspec

from resnetx.choices import Folders
from resnetx.host import node_name
from resnetx.inputs import stage
from resnetx.measure.launch import hang
from resnetx.measure.rank.distributed import Ranks
from resnetx.record import Staging, Unknown
from resnetx.request import Request


def staged(request: Request, ranks: Ranks) -> tuple[Request, list[Staging] | Unknown]:
    """The request as this rank reads its images, and what was staged on each node.

    Every rank waits for all nodes. What is recorded has the request as it was asked.
    """
    if not isinstance(request.input, Folders):
        return request, Unknown("no images are read")
    if request.input.stage is None:
        return request, Unknown("images are read where they are: input.stage is not set")
    hang.begin("staging its images", expected_s=hang.UNLIMITED_S)  # where it may wait for what another run copies
    mine = _here(request.input, ranks.rank) if ranks.local_rank == 0 else None
    nodes = [found for found in ranks.gather(mine) if found is not None]
    hang.begin("describing its node")
    here = next(each for each in reversed(nodes) if each.rank <= ranks.rank)  # ranks of a node follow each other
    reading = msgspec.structs.replace(request.input, root=here.folder)
    return msgspec.structs.replace(request, input=reading), nodes


def _here(input: Folders, rank: int) -> Staging:
    assert input.stage is not None, "nothing is to be staged"
    found = stage.copied(Path(input.root), Path(input.stage))
    return Staging(
        node=node_name(),
        rank=rank,
        folder=str(found.folder),
        images=found.images,
        size_bytes=found.size_bytes,
        copied_bytes=found.copied_bytes,
        list_s=found.list_s,
        wait_s=found.wait_s,
        copy_s=found.copy_s,
    )
