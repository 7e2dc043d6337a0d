"""Every parser of files, by name."""

from tests.fuzz import (
    of_other_programs,
    of_packed,
    of_pair_copies,
    of_predictions,
    of_records,
    of_steering,
    of_verbs,
    of_words,
    of_yaml,
)

TARGETS = {
    target.name: target
    for module in (
        of_records,
        of_yaml,
        of_other_programs,
        of_packed,
        of_pair_copies,
        of_predictions,
        of_steering,
        of_verbs,
        of_words,
    )
    for target in module.TARGETS
}
