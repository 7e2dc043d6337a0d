"""A paper reproduced: every statement beside what is predicted, its figures by number, and a page."""

import pytest

import resnetx
from resnetx.cli import main
from resnetx.errors import ConfigError
from resnetx.literature.papers import check_papers

pytestmark = pytest.mark.slow  # predicts the points of papers


def test_statements_are_those_that_compare_checks(tmp_path):
    made = resnetx.reproduce("shi2018", out=str(tmp_path / "page"))
    assert made == check_papers(["shi2018"])
    text = (tmp_path / "page" / "index.html").read_text()
    assert text.index("agree with what is predicted") < text.index("<figure>") < text.index("What is stated, beside")
    assert resnetx.load(str(tmp_path / "page")) == made


def test_a_figure_by_its_number_has_the_statements_on_what_it_shows(tmp_path, capsys):
    assert main(["reproduce", "tallent2017", "figure=12", f"out={tmp_path / 'page'}"]) == 0
    assert "checks of tallent2017" in capsys.readouterr().out
    assert {file.name for file in (tmp_path / "page").glob("*.svg")} == {"rate-nccl1.svg", "rate-nccl2.svg"}
    claims = resnetx.load(str(tmp_path / "page")).claims
    assert claims and all("AlexNet" in claim.where or "GoogLeNet" in claim.where for claim in claims)


@pytest.mark.parametrize(
    ("words", "settings", "sentence"),
    [
        ([], {}, "no paper given; expected one of tallent2017"),
        (["talent2017"], {}, "did you mean tallent2017"),
        (["tallent2017"], {"figure": 9}, "figure=9: not drawn of tallent2017; expected 10, 11, 12, 13"),
        (["li2019"], {"figure": 12}, "figure=12: not drawn of li2019; none of theirs is drawn"),
    ],
)
def test_what_is_not_known_is_a_sentence(words, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resnetx.reproduce(*words, **settings)
