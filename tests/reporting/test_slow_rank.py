"""Which rank of an observed job is slow: steps are drawn at random here, and a rank is late where a test says so."""

import csv

import msgspec
import numpy as np
import pytest

import resnetx
from resnetx.cli import main
from resnetx.record import Unknown, known, seal, write
from resnetx.record.traces import Observation, ObservedBucket, rank_folder
from resnetx.reporting.charts.records import job_figures
from resnetx.reporting.slow_rank import arrivals, observed_answer, observed_ranks

STEPS, NOISE = 64, 0.02  # of a step, for each rank by itself; all ranks are slow together by ten times that at times
PHASES_s = {"update": 0.005, "input": 0.01, "forward": 0.03, "backward": 0.05}
STEP_s = 0.1


def job(
    seed, ranks, late=None, phase="", by_s=0.05 * STEP_s, steps=STEPS, strategy="ddp", profiled=False, disturbed=0.0
):
    random = np.random.default_rng(seed)
    together = 1 + 10 * NOISE * (random.random(steps) < 0.3)
    own = []
    for rank in range(ranks):
        times = {
            name: time_s * together + random.normal(0, NOISE * STEP_s / 2, steps) for name, time_s in PHASES_s.items()
        }
        for name, time_s in times.items():  # by other work, which takes turns with this rank
            times[name] = time_s + (random.random(steps) < disturbed) * random.exponential(0.2 * STEP_s, steps)
        if rank == late:
            times[phase] = times[phase] + by_s
        own.append(times)
    step_s = np.max([sum(times.values()) for times in own], axis=0) + 0.002
    return [_observation(rank, ranks, times, step_s, strategy, profiled) for rank, times in enumerate(own)]


def _observation(rank, ranks, times, step_s, strategy, profiled):
    exposed = (step_s - sum(times.values())).tolist()
    return seal(
        Observation(
            kind="observation", schema=1, workload="Net", strategy=strategy, rank=rank, ranks=ranks, node="n1",
            device="CPU", sm_clock_Hz=known(Unknown("a CPU")), clock="host", software="torch", started_at="",
            batch_size=8, micro_batches=1, parameters=10, gradient_bytes=40, hooks=5,
            **{f"{name}_s": values.tolist() for name, values in times.items()}, waiting_s=[0.0] * len(step_s),
            exposed_s=exposed, step_s=step_s.tolist(), for_last_s=exposed if profiled else [],
            buckets=known(Unknown("not asked")), unknown={},
        )
    )  # fmt: skip


def named(found):
    return [(each.rank, each.phase) for each in observed_ranks(found) if each.late]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("phase", PHASES_s)
def test_a_rank_that_is_late_by_a_twentieth_of_a_step_is_named_with_its_phase(ranks, phase):
    for seed in range(20):
        late = seed % ranks
        assert named(job(seed, ranks, late, phase)) == [(late, phase)]


def test_without_a_delay_a_rank_is_named_in_at_most_one_of_a_hundred_jobs():
    assert sum(bool(named(job(seed, ranks))) for seed in range(50) for ranks in (2, 4)) <= 1


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_of_the_eleven_steps_of_a_profile_each_is_a_window(strategy):
    late = [
        named(job(seed, 4, 2, "forward", by_s=0.02, steps=11, strategy=strategy, profiled=True)) for seed in range(20)
    ]
    assert [each for each in late if each] == [[(2, "forward")]] * sum(map(bool, late)) and sum(map(bool, late)) >= 18
    without = [
        named(job(seed, ranks, steps=11, strategy=strategy, profiled=True)) for seed in range(50) for ranks in (2, 4)
    ]
    assert sum(map(bool, without)) <= 1


def test_other_work_on_the_machine_hides_no_delay_that_is_in_every_step_and_names_nobody():
    jobs = [(seed, ranks, seed % ranks, list(PHASES_s)[seed % 4]) for seed in range(20) for ranks in (2, 4)]
    found = [named(job(seed, ranks, late, phase, disturbed=0.15)) for seed, ranks, late, phase in jobs]
    right = [[(late, phase)] for _, _, late, phase in jobs]
    assert sum(each == wanted for each, wanted in zip(found, right, strict=True)) >= 34  # step by step alone: 3
    assert all(each in (wanted, [(wanted[0][0], "")], []) for each, wanted in zip(found, right, strict=True))
    assert sum(bool(named(job(seed, ranks, disturbed=0.15))) for seed in range(50) for ranks in (2, 4)) <= 1


def test_a_rank_that_is_late_as_other_programs_have_its_core_is_not_named_and_that_is_said():
    late_s = 0.05 * STEP_s
    for waiting, expected in ((2, []), (0, [(2, "backward")]), (None, [(2, "backward")])):
        found = [
            msgspec.structs.replace(each, core_wait_s=[(each.rank == waiting) * late_s] * STEPS)
            for each in job(1, 3, 2, "backward")
        ]
        assert named(found) == expected
        assert ("rank 2 waits 5 ms of a step for a core" in observed_answer(observed_ranks(found))[1]) == (not expected)


def test_a_delay_in_most_steps_is_shown_though_some_are_free_of_it():
    ranks = job(1, 2, 1, "input", by_s=0.0)
    often = [0.03 * (step % 4 > 0) for step in range(STEPS)]
    late = msgspec.structs.replace(ranks[1], input_s=[a + b for a, b in zip(ranks[1].input_s, often, strict=True)])
    assert named([ranks[0], late]) == [(1, "input")]


def test_the_answer_has_the_interval_and_what_the_rank_costs():
    sentences = observed_answer(observed_ranks(job(1, 4, 2, "backward", by_s=0.02)))
    assert sentences[1].startswith("Rank 2 (n1) is ") and "in backward; without it" in sentences[1]
    low, high = sentences[1].partition("(n1)")[2].partition("(")[2].partition(")")[0].split(" to ")
    assert float(low) < 20 < float(high)


def test_what_cannot_be_shown_is_said_with_its_reason():
    few = observed_ranks(job(1, 2, 1, "input", steps=31))
    assert not any(each.late for each in few) and "31 steps were seen, and 32 are needed" in observed_answer(few)[1]
    alone = observed_answer(observed_ranks(job(1, 1)))
    assert alone[1] == "No rank can be slow beside others: there is one."
    assert (
        "not seen to wait for each other" in observed_answer(observed_ranks(job(1, 2, 1, "input", strategy="bare")))[1]
    )


def test_two_ranks_that_are_slow_alike_are_said_to_be_perhaps():
    first, second = (job(1, 4, late, "forward") for late in (1, 3))
    both = [first[0], first[1], first[2], second[3]]
    assert named(both) == []
    assert "but several may be: ranks 1 and 3 are late alike; 64 steps)" in observed_answer(observed_ranks(both))[1]
    assert "several" not in observed_answer(observed_ranks(job(1, 4)))[1]
    titles = [figure.title for figure in job_figures(both, observed_ranks(both))]
    assert titles[-1].endswith("several may be behind: ranks 1 and 3")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 1}, "not judged: 1 step was seen, and 32 are needed: a longer loop, or more samples"),
        ({"strategy": "bare"}, "not judged: the ranks were not seen to wait for each other: DDP was found around "),
        ({"strategy": "fsdp"}, "no rank is shown to be behind in input or update; the passes are not judged"),
    ],
)
def test_figures_say_why_nobody_was_judged(options, said):
    found = job(1, 2, **options)
    ranks = observed_ranks(found)
    figures = job_figures(found, ranks)
    assert all(f": {said}" in figure.title for figure in figures)
    assert ("communication lies inside its passes" in figures[-1].caption) == ("strategy" in options) * (
        options.get("strategy") == "fsdp"
    )
    if "steps" in options:
        assert observed_answer(ranks)[1].count("1 step") == 1
        assert not any("1 steps" in figure.caption for figure in figures)


def test_under_fsdp_only_what_comes_before_the_first_layer_is_a_ranks_own():
    assert named(job(1, 2, 1, "input", strategy="fsdp")) == [(1, "input")]
    assert named(job(1, 2, 1, "backward", strategy="fsdp")) == []


def test_the_parts_of_a_rank_add_up_to_its_step_on_a_busy_machine_too():
    for each in observed_ranks(job(1, 2, disturbed=0.4)):
        parts = (each.update_s, each.input_s, each.forward_s, each.backward_s, each.exposed_s)
        assert sum(parts) == pytest.approx(each.step_s, rel=1e-6)


def with_buckets(observation):
    """Two, of which the first is full half-way through the backward pass."""
    before = np.add(observation.update_s, observation.input_s) + observation.forward_s
    ready = [(before + share * np.array(observation.backward_s)).tolist() for share in (0.5, 1.0)]
    return msgspec.structs.replace(observation, buckets=[ObservedBucket(10**6, times) for times in ready], unknown={})


def test_arrivals_are_moments_of_a_rank_itself_without_its_waiting():
    late = [with_buckets(each) for each in job(1, 3, 1, "forward", by_s=0.02)]
    waited = [msgspec.structs.replace(each, waiting_s=[0.02 * (each.rank != 1)] * STEPS) for each in late]
    for each in waited:
        for bucket in each.buckets:
            bucket.ready_s[:] = np.add(bucket.ready_s, each.waiting_s).tolist()
    seen = arrivals(waited)
    assert [each.done for each in seen[:5]] == ["update", "input", "forward", "bucket 1", "bucket 2"]
    behind = {(each.rank, each.done): each.behind_s for each in seen}
    assert all(behind[1, done] == pytest.approx(0.02, abs=0.003) for done in ("forward", "bucket 1", "bucket 2"))
    assert all(time_s < 0.005 for (rank, done), time_s in behind.items() if rank != 1 or done in ("update", "input"))
    fsdp = arrivals(job(1, 2, strategy="fsdp"))  # in its passes ranks wait for each other
    assert [each.done for each in fsdp] == ["update", "input"] * 2


@pytest.mark.parametrize("profiled", [False, True])
def test_an_observed_job_has_a_page_with_words_first_and_when_each_rank_is_where(tmp_path, profiled):
    observations = job(1, 20, 5, "backward", by_s=0.02, profiled=profiled)
    for each in observations:
        write(rank_folder(tmp_path / "mine", each.rank).record, with_buckets(each))
    page = resnetx.report(tmp_path / "mine")
    assert page == tmp_path / "report" / "mine" / "index.html"
    text = page.read_text()
    assert text.index("Rank 5 (n1) is") < text.index("rank 5 is behind") < text.index("<svg")
    assert "furthest behind, of 20" in text
    behind = {
        (row["rank"], row["done"].partition(",")[0]): float(row["behind_ms"])
        for row in rows(page.parent / "job-arrivals.csv")
    }
    assert behind["5", "bucket 2"] > 15 > 10 > behind["5", "forward"] and len(behind) == 16 * 5
    parts = {row["part"] for row in rows(page.parent / "job-steps.csv") if row["lane"] == "rank 5"}
    assert ("waiting" in parts, "communication and waiting" in parts) == (profiled, not profiled)
    resnetx.explain(tmp_path / "mine", out=tmp_path / "kept")
    assert (tmp_path / "kept" / "job-steps.svg").exists() and len(rows(tmp_path / "kept" / "ranks.csv")) == 20


def test_the_page_of_one_loop_has_its_parts_alone(tmp_path):
    write(rank_folder(tmp_path, 0).record, job(1, 1)[0])
    page = resnetx.report(tmp_path, out=tmp_path / "page")
    assert "No rank can be slow beside others" in page.read_text()
    assert (page.parent / "job-steps.csv").exists() and not (page.parent / "job-arrivals.csv").exists()


def test_two_jobs_are_explained_part_by_part_on_the_rank_that_is_last(tmp_path, capsys):
    for name, late in (("before", 2), ("after", None)):
        for each in job(1, 3, late, "input", by_s=0.02):
            write(rank_folder(tmp_path / name, each.rank).record, each)
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    found = resnetx.explain(before, after)
    parts = {each.part: each.a_s - each.b_s for each in found}
    assert parts["step"] == pytest.approx(0.02, abs=0.003) and max(parts, key=parts.get) in ("step", "input")
    assert sum(time_s for part, time_s in parts.items() if part != "step") == pytest.approx(parts["step"], abs=0.003)
    assert main(["explain", before, after]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        said.startswith("A step of Net on 3 ranks takes ")
        and "B is 1.19 times as fast" in said
        and "most by input (-" in said
    )
    assert "A: Rank 2 (n1) is" in said and "B: Slow rank: not shown" in said
    assert main(["compare", before, after]) == 2
    assert f"resnetx explain {before} {after}" in " ".join(capsys.readouterr().err.split())
    for sides in ((before, "results/cpu-2core/quickstart"), ("results/cpu-2core/quickstart", after)):
        with pytest.raises(resnetx.ConfigError, match="one is an observed job"):
            resnetx.explain(*sides)


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))
