"""Types of settings in words."""

import pytest

from resnetx.settings.files import names
from resnetx.settings.setting_types import words
from resnetx.settings.verbs import VERBS, reads


@pytest.mark.parametrize(
    ("verb", "name", "said"),
    [
        ("sweep", "batch_size", "integer or list"),
        ("train", "batch_size", "integer"),
        ("predict", "clock", "text or number or list"),
        ("predict", "model.x", "integer or list"),
        ("predict", "devices", "list of integers"),
        ("predict", "transport", "list"),
        ("predict", "what_if.bandwidth", "map of names to values"),
        ("predict", "rate", "number or text or map or list"),
        ("predict", "framework", "list"),
        ("images", "input.root", "text"),
        ("images", "images.classes", "integer"),
        ("bench", "size", "integer or text or list"),
    ],
)
def test_the_type_of_a_setting_is_what_its_keyword_is_annotated_with(verb, name, said):
    assert words(verb, name) == said


def test_every_setting_of_every_verb_has_a_type():
    for verb, own in VERBS.items():
        for name in names():
            if reads(own.settings, name):
                words(verb, name)
