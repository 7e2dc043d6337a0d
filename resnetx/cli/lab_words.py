"""`resnetx lab SETTINGS -- VERB WORDS`: the words of VERB, with the settings of the lab as settings of its own."""

from resnetx.cli.lazy_words import is_system, settings_in
from resnetx.errors import ConfigError


def words_inside(words: list[str]) -> list[str]:
    """The command line that runs in the lab; `words` begin with "lab" and have "--" among them."""
    from resnetx.api.lab import INSIDE, settings_inside
    from resnetx.settings.words import written

    place = words.index("--")
    own, inside = words[1:place], words[place + 1 :]
    if not inside or inside[0] not in INSIDE:
        raise ConfigError(f"{(inside or ['--'])[0]}: expected a verb that runs in the lab: {', '.join(INSIDE)}")
    own = [f"systems={word}" if is_system(word) else word for word in own]
    for word in own:
        if "=" not in word or word.startswith("-"):
            raise ConfigError(f"{word}: the lab has settings (systems=, scale=, transport=); others go behind --")
    return [*inside, *written(settings_inside(settings_in(own, "lab")))]
