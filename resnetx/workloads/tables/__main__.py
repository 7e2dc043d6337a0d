"""`python -m resnetx.workloads.tables` writes what is kept anew: layer tables, and the names of classifiers."""

from resnetx import workloads
from resnetx.workloads import tables
from resnetx.workloads.kinds import installed_classifiers

for name, (model, image_size) in tables.KEPT.items():
    tables.write(name, workloads.traced(model, image_size))
    print(tables.file(name))

tables.write_classifiers(tables.Classifiers(tables.installed_version(), installed_classifiers()))
print(tables.CLASSIFIERS)
