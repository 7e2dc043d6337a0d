"""`python -m resnetx.workloads.tables` writes the kept layer tables anew, as torch.fx finds them."""

from resnetx import workloads
from resnetx.workloads import tables

for name, (model, image_size) in tables.KEPT.items():
    tables.write(name, workloads.traced(model, image_size))
    print(tables.file(name))
