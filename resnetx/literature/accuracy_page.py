"""`docs/accuracy.md`: how far off predictions were of every published rate, and which figures were fitted to what."""

from collections.abc import Iterator, Sequence
from math import log
from statistics import fmean

from resnetx.interconnect.collectives import collective_errors
from resnetx.literature import collectives, scaling_check, training
from resnetx.literature.collectives import CollectiveRow
from resnetx.literature.rivals import median_efficiencies
from resnetx.literature.scaling_check import cases
from resnetx.literature.training import TrainingRow, TrainingSummary
from resnetx.literature.training_fit import rescaled_pairs, rescalings
from resnetx.literature.training_rates import rates, series
from resnetx.prediction import host_step, roofline
from resnetx.prediction.messages import CONTENTION, CONTENTION_A_CARD
from resnetx.prediction.result import domains
from resnetx.prediction.scaling import LEAST_COST, KindError, scaling_errors
from resnetx.table import GENERATED, table
from resnetx.units import off_by, share_text, short

FEW = 16  # samples

HEAD = f"""# Accuracy of predictions

{GENERATED}

Every published training rate that resnetx ships, beside what it predicts. The system of a rate is left out of the fit
of what scaling costs, whoever measured there; of several nodes, the cluster with all its programs; and
whoever published a rate is left out of the roofline. So each error is one on something that the model has not seen,
but for the rows that say otherwise: the host's part of a step was chosen on one machine. The figures themselves were
known while the model was written, but for 69 of one batch on several GPUs, 143 at an eighth of one, 182 between two,
344 of 2 to 32 GPUs (254 open): predicted before they were entered, these were 26, 26, 5 and 2 % off, 39, 103, 151 and
316 inside.
`resnetx predict --validate --all` prints each.

- **open**: rates that nothing determines but two ends. They have no error; **held** counts the ends.
- **mean**, **worst**: error of the predicted rate, as |ln(predicted / measured)|.
- **linear**: mean error of "GPUs x the rate of one" (of a smaller batch: of the larger one's rate; between two: of the
  line between their steps; of another GPU: in proportion to the peaks of both; no rate known: FLOP over the peak,
  divided by the median share of it that other publishers' rates reach at the precision), the simplest prediction there
  is, on the same rates.
- **five constants**: mean error of that times the median efficiency of all other rates of these tables on as many GPUs,
  with the same left out (of one batch on several GPUs: that of other publishers' such rates).
- **held**: share of the rates within the predicted 90 % interval; **half**: its mean half width, as a logarithm.
- **score**: the mean width of the intervals, and 20 times what they miss by (Winkler; less is better), beside those of
  the rivals, whose intervals are what nine of ten of their own errors on other systems are within.
"""

FITTED = f"""## What was fitted to what

- Rooflines (`resnetx/prediction/roofline.py`): six figures for each generation of GPUs, to published rates of one
  GPU (`results/published/training.yaml`). A generation's own fit is regularised towards the fit to all: what its few
  rates do not determine stays that of all. `python -m resnetx.literature.training_fit` fits again.
- What scaling costs beyond messages (`resnetx/prediction/scaling.py`): five figures, to the rates of several
  GPUs of one node (`results/published/scaling.yaml`), and one, to those of several nodes, of transformers, too, whose
  root of the GPUs that share a card was chosen with these in sight. `python -m resnetx.literature.scaling_fit` fits
  again.
- What leaves a point open between two ends (`resnetx/prediction/open_points.py`): the long end of one process that
  drives all GPUs of a node was chosen so that it holds the rates above; loaders of one node are open above what the
  slower of two published alone delivers, as above the slowest of all a third of their rates would be. That two cores
  of each rank decode nothing was chosen on the rates above, with each system left out. The long end of half precision
  over nodes was chosen so that it holds all rates but one, each taken to be of a generation left out.
- The host's part of a step (`resnetx/prediction/host_step.py`) is not fitted: its constants were chosen on the steps at
  batch 1 of milabench on an H100 (`results/published/steps.yaml`), whose rows above are therefore no evidence for them;
  that operations are counted, and the GPU's time for each, with those of all machines in sight.
  How much longer a host may take, and that of programs that decode, was chosen with the steps of all machines in sight;
  the rating of a CPU at which they hold is that of Zeus's host of A40s.
  What going parallel costs was chosen on the rows that say so.
  Those of resnetx's own loop were chosen on four networks that one H100 trained (`{host_step.OWN_ON}`).
- What computing loses to messages beside it is assumed, not fitted; the interval reaches from nothing to all,
  between nodes to 20 %.
- Collectives ([interconnect.md](interconnect.md)): the figures of `results/published/collectives-fit.yaml`, to
  published times (`results/published/collectives.yaml`). `python -m resnetx.literature.collectives_fit` fits again.
  Of the 22 inside nodes `pcie_ll` stands on its bound, and is no fit (0.5: each 4 bytes have a flag of 4).
"""


SINGLE = """AlexNet of 2017 on the P100 DGX-1 (TensorFlow, NCCL 1) is predicted from the rate of one GPU and from two
measured all-reduces on as many GPUs, of 1 GiB and of 8 bytes. The others are predicted from descriptions alone:
all-reduces of the layers of ResNet-50 on 16 GPUs (Shi et al. 2018), and AlexNet on 8 GPUs (Tallent et al. 2017) with
each batch and library that the paper may mean.
"""

TRANSFORMERS = """BERT under DDP on A100 and V100, decoders of 0.76 to 13 billion parameters under FSDP on H100, and one
global batch of nanoGPT under DDP on H100, each predicted from its rate on the fewest GPUs, one to 32
(`results/published/transformers.yaml`, which says what is left out and what is assumed;
`resnetx/literature/transformers.py`). Of what scaling costs, the loss between nodes is fitted to them, too, each
cluster left out of its own. BERT-base without accumulation loses most, on one card a node (DLPerf). Two rates belong to
a series whose rate on eight GPUs is 8 % below its others, for each GPU. The intervals are those of `predict`.

Lambda's rates are of steps after the 51st, by the times in its logs. What its program prints has the first steps of a
run of 100 in it, which take one GPU about a second and eight three: 21 such rates of H100, H200 and B200 were 2.9 %
off (five constants 1.2 %), of which steps alone are 0.8 % (2.0 %).
"""

BLEND = """A rival that is nearer by its kind alone is not used. A weight between the model and the five constants,
chosen for each kind without a rate's system, is 3.1 % off of 522 rates of image networks (the model 3.0 %), 3.1 % of
413 of transformers (3.1 %) and 2.3 % of 227 calibrated by one rate (2.3 %); no rule for when to trust such a weight
does better (where all other systems gain by it: 3.0, 3.1, 2.3 %). It gains of JPEG loaders over nodes (4.1 for 5.1 %
of 11, five constants 4.2 %), and loses of those of one node (4.3 for 3.6 % of 72), of FSDP over nodes (2.3 for 2.1 %
of 27) and of several nodes calibrated (3.3 for 3.2 % of 24). Of parameter servers with JPEG loaders there is one
system, and of one process calibrated over nodes, too.
"""

ROOFLINES = """Mean errors of rates of one GPU that the fit has not seen: single rates, whole networks, or all rates of
a publisher are left out. **nine of ten**: what nine of ten rates are within. "all of a stated clock" is for GPUs of any
other generation: there, whole generations are left out. A generation is here where its own fit is better than that to
all, both without the rate's publisher (MI325X, of one: without its network), each publisher counting alike.
Transformers are fitted apart, on all GPUs together.
"""

ANOTHER_GPU = """Rates of one GPU, each predicted from the rate that the same program had on another one (both
directions, nearest batches), the publisher left out of the rooflines. The intervals above are those of pairs of other
publishers and without the GPU. That the ratio of both GPUs is the geometric mean of the roofline's and their memories',
and that between generations half of it is what the roofline says with no rate, was chosen on 58 of these and on 288 of
Lambda's with ResNet-50 and BERT (lambdal/deeplearning-benchmark), whichever publisher or GPU was left out. Public rates
that were read after that, in no fit then: 176 pairs of seven publishers 14.1 % off, 92 % inside (in proportion to peaks
37.8 %, to memories 32.6 %, to both 20.4 %, by the roofline with no rate 20.7 %); 1,002 of all of Lambda's logs, most of
newer GPUs and some of them those above, 19.7 % off, 78 % inside (55.9, 22.6, 32.8, 32.6 %).
"""

LOSES = """The rates above that are more than a tenth below "GPUs x the rate of one", predicted from the rate of one and
not open. A mean over all rates hides them: most published points hardly lose anything.

What is left of the loaders is TensorFlow on a DGX-1 (EfficientNets, SSD), which loses from 15 % on where the loaders of
others keep up: what those programs do to an image is in none of their figures. AlexNet on A100s
gets 17,300 and 19,300 images/s in TF32 and 30,100 and 29,300 in half precision, whose images have half the bytes; on
hosts of few cores (Lambda's RTX 6000) precision makes no difference: no rate of the host's memory is assumed. The
sound is WaveGlow's: its steps take 66 to 134 ms more on 4 GPUs and 170 to 200 on 8, whichever these are and in whatever
precision, and nothing published says why: it is open (`samples=by-host`).
"""

LAB = """Validated on shaped TCP: iterations whose computing is replaced by idle time, between processes whose links are
as a system's, so many times slower ([lab.md](lab.md)). Each was predicted, dated and hashed before any of them was
measured, and none is left out; but the errors are those of today's model, which for ZeRO-1 was made after its points
were seen, as its rows say. Here an error is predicted / measured - 1, not a logarithm. It tests the simulation of an
iteration, buckets and strategies, and how messages share links; not NCCL's protocols, nor the times of GPUs. The
first of these commands compares what was predicted then, the others measure it again (45 minutes on two cores, as
root):

```bash
resnetx compare results/lab/truth/prediction results/lab/truth/study
resnetx lab systems=dgx1-p100,gx8 -- predict study=lab-truth out=prediction
resnetx lab systems=dgx1-p100,gx8 -- sweep study=lab-truth
```
"""


COLLECTIVES = """{figures} published figures, each predicted by a fit to machines of all other kinds alone: a kind is
what carries the data (links and their generation, directly or through switches, staged or not), of one maker's GPUs. No
published time calibrates a prediction here. Errors are |ln(predicted / measured)|.
`resnetx topology --validate --all` lists each figure.

- **in the fit**: by the model as it ships. **left out**: without the kind; this is the error that is stated.
- **alpha-beta**, **power law**: two textbook forms (`resnetx/literature/rivals.py`), fitted to the same other kinds.
- **half-width**: of the 90 % interval that all other kinds (of one host: in one host) give, {widened:.2f} times as wide
  as theirs (between hosts {between:.2f} times, counted on four kinds). Each kind counts alike. **within**: the figures
  inside. A machine of a kind that nobody measured gets this interval. Sizes are of one host, where nothing is said.
- A machine of a kind of which several are published gets what 90 % of their figures are within, each machine counting
  alike, {in_kind:.2f} times as wide (between hosts {between_in_kind:.2f} times): then 90 % of each machine left out are
  inside. Where one process starts all GPUs and launches decide, no interval is narrower than {launch_q90:.0%}: so far
  hosts differ.
- **open**: figures whose interval spans more than a factor of {open_span:g} from end to end: no point is said of such.
- Messages (all-to-all, send-receive, gather, scatter) have nothing fitted. Their constants
  (`resnetx/interconnect/collectives/sends.py`) are from SuperBench, li-plus/playground and MIT ORCD: no error of
  these three is of figures not known before; those of NVIDIA/nccl and MGHPCC are. Too few kinds were measured to give
  an interval to each other.
- One figure is fitted to times between nodes: what a channel hands on in trees (LL). Clusters with RoCE are predicted
  without any of them, those with InfiniBand likewise, rivals too; they are counted as one kind, as its intervals are
  narrower and hold as often. The one of H200 and one of MI300X do not name their network; InfiniBand is taken.
- The rates of SummitDev's CPUs are from its own figures. How MI300X reach
  their network cards (`configs/system/mi300x.yaml`) was chosen of RCCL's two files with the figures of both clusters in
  sight: no error of two nodes of AMD's is of figures not known before. Two clusters with under {few} figures of a band
  each do not speak for a third (8 to 64 MiB of MI300X, each left out: 4 of 6 inside): its interval is the wide one.
"""


def page() -> str:
    """The page; takes some seconds."""
    rows = training.validate()
    lines = [
        HEAD,
        *_groups("asked", training.summaries(rows, "question")),
        "",
        _constants(),
        "",
        _smallest(),
        "",
        "## By kind",
        "",
        *_groups("published figures", training.summaries(rows)),
        "",
        BLEND,
        "## Where scaling loses",
        "",
        LOSES,
        *_losing(rows),
        "",
        "## In the lab",
        "",
        LAB,
        *_lab(),
        "",
        "## From one GPU to another",
        "",
        ANOTHER_GPU,
        *_another_gpu(),
        "",
        "## By publisher",
        "",
        f"Rates of several GPUs, predicted from the rate of one ({len(series())} series).",
        "",
        *_by_publisher(rows),
        "",
        "## Transformers",
        "",
        TRANSFORMERS,
        *_transformers(rows),
        "",
        "## Single cases",
        "",
        SINGLE,
        *_cases(rows),
        "",
        "## Rooflines",
        "",
        ROOFLINES,
        *_rooflines(),
        "",
        "## Collectives",
        "",
        *_collectives(),
        "",
        "### SummitDev between nodes",
        "",
        *section(),
        "",
        "## The intervals",
        "",
        *_intervals(),
        "",
        FITTED,
        *_figures(),
    ]
    return "\n".join(lines) + "\n"


def _groups(what: str, summaries: list[TrainingSummary]) -> list[str]:
    cells = ([summary.about, *(column.cell(summary) for column in training.SUMMARIES)] for summary in summaries)
    errors = ["open", "mean", "linear", "five constants", "worst"]
    intervals = ["held", "half", "score", "linear's", "five constants'"]
    return table([what, "rows", *errors, *intervals], cells)


def _constants() -> str:
    each = ", ".join(f"{share:.3f} on {gpus}" for gpus, share in median_efficiencies(cases()).items())
    return f"With nothing left out, the five constants are {each} GPUs."


def _smallest() -> str:
    few = [row for row in scaling_check.judged() if row.pair.batch <= FEW]
    off, linear = fmean(abs(row.log_error) for row in few), fmean(abs(row.linear_error) for row in few)
    rates_of = f"{len(few)} rates are of {FEW} samples or fewer"
    return f"At an eighth of a batch, {rates_of}: {off:.1%} off (linear {linear:.1%})."


def _losing(rows: Sequence[TrainingRow]) -> list[str]:
    by_group, by_loss = training.losing(rows)
    groups = [*by_group, *by_loss, training.exposing(rows)]
    cells = (
        [
            summary.about,
            f"{summary.rows}",
            share_text(summary.mean_error),
            share_text(summary.linear_error),
            share_text(summary.five_constants_error),
            share_text(summary.worst_error),
            share_text(summary.held),
            share_text(summary.half_width),
        ]
        for summary in groups
    )
    return table(["published figures", "rows", "mean", "linear", "five constants", "worst", "held", "half"], cells)


def _lab() -> list[str]:
    cells = (
        [domain.what, f"{domain.points}", share_text(domain.mean_error), share_text(domain.worst_error), domain.source]
        for domain in domains(in_lab=True)
    )
    return table(["in the lab", "points", "mean", "worst", "records"], cells)


def _by_publisher(rows: Sequence[TrainingRow]) -> list[str]:
    scaled = [row for row in rows if row.group.startswith(training.FROM_ONE)]
    names = dict.fromkeys(row.publisher for row in scaled)
    return table(
        ["publisher", "rates", "open", "mean", "bias", "linear", "held"],
        (_publisher(name, [row for row in scaled if row.publisher == name]) for name in names),
    )


def _another_gpu() -> list[str]:
    """By kind, beside simpler forms."""
    pairs = rescaled_pairs()
    counted = [(error, [pair for pair in pairs if pair.kind == error.kind]) for error in rescalings(pairs)]
    cells = (
        [
            error.kind,
            f"{error.pairs}",
            f"{error.programs}",
            share_text(error.mean),
            *(share_text(sum(abs(pair.rivals[name]) for pair in own) / len(own)) for name in own[0].rivals),
            share_text(error.error_90),
        ]
        for error, own in counted
    )
    return table(["GPUs of", "pairs", "programs", "rescaled", *pairs[0].rivals, "nine of ten"], cells)


def _transformers(rows: Sequence[TrainingRow]) -> list[str]:
    """By program, and all."""
    own = [row for row in rows if row.group.startswith(training.TRANSFORMERS)]
    groups = {name: [row for row in own if row.source == name] for name in dict.fromkeys(row.source for row in own)}
    return table(
        ["program", "rates", "open", "mean", "bias", "linear", "held"],
        (_publisher(name, each) for name, each in {**groups, "all": own}.items()),
    )


def _publisher(name: str, rows: list[TrainingRow]) -> list[str]:
    count = len(rows)
    errors = [row.log_error for row in rows if row.log_error is not None]
    linear = sum(abs(log(row.linear / row.measured)) for row in rows if row.linear is not None)
    return [
        name,
        f"{count}",
        f"{count - len(errors) or ''}",
        share_text(sum(map(abs, errors)) / len(errors)) if errors else "",
        f"{sum(errors) / len(errors):+.1%}" if errors else "",
        share_text(linear / count),
        share_text(sum(bool(row.held) for row in rows) / count),
    ]


def _cases(rows: Sequence[TrainingRow]) -> list[str]:
    single = (training.CALIBRATED, training.LAYERWISE, training.ITERATIONS)
    return table(
        ["case", "system", "GPUs", "unit", "measured", "predicted", "error"],
        (
            [
                row.what,
                row.system,
                f"{row.gpus}",
                row.unit,
                short(row.measured),
                "" if row.predicted is None else short(row.predicted),
                "" if row.error is None else f"{row.error:+.1%}",
            ]
            for row in rows
            if row.group in single
        ),
    )


def _rooflines() -> list[str]:
    return table(
        [
            "fitted to",
            "rates",
            "left out singly",
            "worst",
            "networks",
            "publishers",
            "nine of ten",
            "in half precision",
        ],
        [
            *map(_roofline, sorted(roofline.fits().values(), key=lambda fit: fit.generation)),
            *map(_roofline, roofline.transformer_fits().values()),
        ],
    )


def _roofline(fit: roofline.Roofline) -> list[str]:
    everything = fit.generation == roofline.ALL
    own = fit.generation if fit.generation in roofline.TRANSFORMERS.values() else ""
    fitted = (rate.entry.gpu for rate in rates() if rate.entry.generation == fit.generation)
    names = dict.fromkeys(name.partition("-")[0].upper() for name in fitted)
    return [
        "all of a stated clock" if everything else own or ", ".join(names),
        f"{fit.rows}",
        share_text(fit.error),
        share_text(fit.worst_error),
        share_text(fit.unseen_network_error),
        "one publisher" if fit.unseen_source_error is None else share_text(fit.unseen_source_error),
        share_text(fit.unseen_gpu_90 if everything else fit.error_90),
        share_text(fit.unseen_gpu_90 if everything else fit.half_error_90),
    ]


_KIND_HEADINGS = (
    "kind of machine",
    "figures",
    "in the fit",
    "left out",
    "alpha-beta",
    "power law",
    "half-width",
    "within",
)


def _collectives() -> Iterator[str]:
    measured = collective_errors.table()
    widened = {"widened": measured.widened["one host"], "between": measured.widened["several hosts"]}
    in_kind = {
        "in_kind": measured.widened_in_kind["one host"],
        "between_in_kind": measured.widened_in_kind["several hosts"],
        "launch_q90": measured.launch_q90,
        "open_span": collective_errors.OPEN_SPAN,
        "few": collective_errors.FEWEST,
    }
    yield COLLECTIVES.format(figures=sum(kind.points for kind in measured.kinds), **widened, **in_kind)
    yield from table(
        [*_KIND_HEADINGS, "below 1 MiB within x 1.5"],
        (
            [
                kind_errors.name,
                f"{kind_errors.points}",
                *map(
                    share_text,
                    (kind_errors.fitted, kind_errors.left_out, kind_errors.alpha_beta, kind_errors.power_law),
                ),
                share_text(kind_errors.half_width),
                share_text(None if kind_errors.within is None else kind_errors.within / kind_errors.points),
                share_text(kind_errors.small_within_half),
            ]
            for kind_errors in measured.kinds
        ),
    )
    yield ""
    yield from table(
        ["size", "figures", "kinds", "by", "mean", "within x 1.5", "half-width", "within", "within, by kind", "open"],
        (row for band in measured.bands for row in _band(band)),
    )
    yield ""
    yield "With one large size of the machine measured (`calibration=`): ladders, each calibrated by its largest size."
    yield ""
    yield from table(
        ["size", "figures", "without it", "with it", "90 % within"],
        (
            [
                collective_errors.sizes_text(of_size.place, of_size.band),
                f"{of_size.points}",
                *map(share_text, (of_size.uncalibrated, of_size.mean, of_size.q90)),
            ]
            for of_size in measured.by_one_size
        ),
    )


def _band(band: collective_errors.BandErrors) -> Iterator[list[str]]:
    for name, judged in band.ways:
        yield [
            band.text,
            f"{band.points}",
            f"{band.kinds}",
            name,
            *map(share_text, (judged.mean, judged.within_half, judged.half_width, judged.within / band.points)),
            share_text(judged.within_by_kind),
            f"{judged.open or ''}",
        ]


def _intervals() -> Iterator[str]:
    scaling = scaling_errors()
    spreads = scaling.spread, scaling.spread_calibrated, scaling.spread_no_peers
    slower, faster = (", ".join(f"{getattr(each, side):.1f}" for each in spreads) for side in ("slower", "faster"))
    yield (
        "Nine of ten measurements should lie within the interval of a prediction. It has the errors of all parts, as "
        "the root of the sum of their squares. What scaling adds goes with how much longer a step is predicted to take "
        f"because ranks wait and share their host, as a logarithm, and {LEAST_COST:.0%}: a step may be {slower} times "
        f"that longer, and {faster} times shorter (given the rate of one GPU, or of the fewest; those of other counts; "
        "of GPUs that are no peers those of 2 and 4), the 5th and 95th percentile of the errors above over it, of all "
        "kinds. Below, each interval is made without a rate's system (several nodes: its cluster) and its program. "
        "With a spread for each kind, that went with the doublings of the number of GPUs, 88.9 % of the rates of image "
        "networks lay inside, at a mean half-width of 8.3 % and a score of 26.7 %."
    )
    yield ""
    yield from table(_INTERVAL_HEADINGS, map(_interval, (*scaling.kinds, *scaling.transformers)))
    yield ""
    yield (
        "Where the rates of other counts of the same series are known (`calibration=`), some of them on as many nodes "
        "(one, several), the same is counted over the rates of such series, each given all others:"
    )
    yield ""
    yield from table(_INTERVAL_HEADINGS, map(_interval, scaling.calibrated))


_INTERVAL_HEADINGS = ("kind", "rates", "systems", "mean", "held without its system", "half", "score")


def _interval(error: KindError) -> list[str]:
    shares = map(share_text, (error.mean, error.held, error.half, error.score))
    return [error.text, f"{error.points}", f"{error.systems}", *shares]


def _figures() -> list[str]:
    costs = scaling_errors().costs
    contention = ", ".join(f"{library} {share:.0%}" for library, share in CONTENTION.items())
    fit, rows = roofline.fitted(), scaling_errors().points
    return table(
        ["figure", "value", "from"],
        [
            ["variation of a rank's steps", f"{costs.variation:.2%}", f"fitted to {rows} rates"],
            ["the same of NVIDIA's GPUs since Ampere", f"{costs.steady:.2%}", "fitted to the same"],
            ["variation where samples differ in size", f"{costs.uneven:.1%}", "fitted to the rates of such programs"],
            ["the same of NVIDIA's GPUs since Ampere", f"{costs.uneven_steady:.1%}", "fitted to the same"],
            ["longer steps where decoding keeps all cores busy", f"{costs.host_load:.0%}", "fitted to the same"],
            [
                "longer steps on several nodes, for each doubling of the GPUs beyond 8, times the root of those a card",
                f"{costs.between:.2%}",
                f"fitted to {scaling_errors().farther} rates of {scaling_errors().clusters} clusters, each alike",
            ],
            ["computing lost while messages are sent", contention, "assumed"],
            [
                "of that, between nodes",
                f"{CONTENTION_A_CARD:.1%} for each card, at most",
                "two channels of NCCL a card",
            ],
            ["share of the peak, all GPUs", f"{fit.matmul_efficiency:.0%}", f"fitted to {fit.rows} rates of one GPU"],
            ["speed-up of square kernels, all GPUs", f"{fit.square_speedup:.2f}", "fitted to the same"],
            [
                "slowness of depthwise convolutions over the peak in fp32, all GPUs",
                f"{fit.depthwise_slowness:.0f}",
                "fitted to the same",
            ],
            ["exponent of what feeding tensor cores takes, all GPUs", f"{fit.feeding:.2f}", "fitted to the same"],
            ["fixed time of an operation, all GPUs", f"{fit.operation_s * 1e6:.0f} us", "assumed"],
        ],
    )


# Collectives between the nodes of SummitDev, published and modelled, for `docs/accuracy.md`.

GROUPS = {
    "internode": "Bus bandwidth of 1 GiB, in GB/s:",
    "internode-small": "Time of 8 bytes, in us:",
}

ABOUT = """\
Li et al. 2019 (Tartan), Fig. 30: one GPU (P100) in each of 2 to 8 nodes, two EDR InfiniBand cards a node. Each
cell: published, **model**, and how far off the model is. The rates of staging in host memory are taken from the
bandwidths; no latency is fitted. In brackets: rows that do not count in the errors above.
"""

WHERE_WRONG = """\
- All-gather and reduce-scatter of 1 GiB lose more than half of their rate at 3 and 5 nodes, but not at 6 and 7. The
  source gives no cause; alignment would explain it: the share of each node, 2^30 / 4 / n elements of 4 bytes, is a
  whole multiple of 8 bytes at 2, 4, 6, 7 and 8 nodes, not at 3 and 5, and NCCL of that time copied 8 bytes at once
  only between pointers that are aligned to them (`ReduceOrCopy` of its source: "fast, 64-bit aligned path"), else
  element by element. The model has no such path.
- Reduce over three and more nodes is 13 to 16 % faster than the model: for data that come in and go on at once, the
  model has one rate, that of the all-reduces. Over two nodes, its rate is between the broadcast's and the reduce's.
- All-gather over two nodes is 14 % slower than the model; the source gives no cause.
- All-reduce of 8 bytes over five nodes is 16 % faster than the model, whose steps all cost the same: published are 5 us
  from four to five nodes, and 14 to 22 us for each other node. The reduce's 34 us over eight nodes are similar.
- 8 bytes are less than an element for each GPU in all-gather and reduce-scatter over three and more nodes: the
  published 12 us are a call that sends nothing, and the model's time is that of a transfer. These rows do not count.
"""


def section() -> Iterator[str]:
    """The lines of the section."""
    rows = collectives.validate()
    yield ABOUT
    for group, title in GROUPS.items():
        yield title
        yield ""
        yield from _between_nodes_figures([row for row in rows if row.group == group])
        yield ""
    yield WHERE_WRONG.rstrip()


def _between_nodes_figures(rows: Sequence[CollectiveRow]) -> list[str]:
    """A line for each collective, a column for each number of nodes."""
    counts = sorted({row.gpus for row in rows})
    cells = {(row.collective, row.gpus): _cell(row) for row in rows}
    return table(
        ["collective", *(f"{count} nodes" for count in counts)],
        ([name, *(cells[name, count] for count in counts)] for name in dict.fromkeys(row.collective for row in rows)),
    )


def _cell(row: CollectiveRow) -> str:
    shown = f"{row.measured:.3g} **{row.predicted:.3g}** {off_by(row.error, 0)}"
    return f"({shown})" if row.explained else shown
