"""`python -m resnetx.api.dataset` writes the dataset that ships."""

from resnetx.api.dataset.sources import FILE, dataset
from resnetx.reporting.table import write_csv

write_csv(FILE, dataset())
print(FILE)
