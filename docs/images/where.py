"""Draws where.svg, the picture of the README: `python docs/images/where.py`, after any change of predictions."""

from itertools import accumulate
from pathlib import Path

import resnetx
from resnetx.record.prediction import PredictedPoint

FILE = Path(__file__).with_name("where.svg")
SYSTEMS = {"dgx1-p100": "DGX-1: NVLink", "gx8": "GX8: PCIe"}
PARTS = {"useful": "useful", "communication": "exposed communication", "rest": "smaller batches, host, waiting"}
STYLE = """<style>
  .ground { fill: #ffffff }
  text { font: 14px Helvetica, Arial, "Segoe UI", system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 18px; font-weight: 600 }
  .grey { font-size: 13px; fill: #59636e }
  .factor { font-size: 16px; font-weight: 700 }
  text.in { fill: #ffffff; text-anchor: middle }
  .useful { fill: #1f6f8b }
  .communication { fill: #e4572e }
  .rest { fill: #8b949e }
  @media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } text { fill: #e6e8eb } .grey { fill: #9aa4ad } }
</style>"""


def picture() -> str:
    """Two systems, a bar for each number of GPUs: what the time of a step goes into, and the speed-up."""
    points = resnetx.predict(systems=[*SYSTEMS], model="alexnet", batch_size=256, gpus=[1, 2, 4, 8]).points
    best, worst = (next(each for each in points if (each.system, each.gpus) == (name, 8)) for name in SYSTEMS)
    drawn = [
        STYLE,
        '<rect class="ground" x="-10" y="-4" width="860" height="300"/>',
        f'<text class="title" y="22">Eight GPUs train {best.speedup:.1f} times as fast as one over NVLink, '
        f"{worst.speedup:.1f} times over PCIe</text>",
        '<text class="grey" y="44">AlexNet, batch 256, two machines of eight P100, predicted. '
        "In brackets: nine of ten measurements should lie within.</text>",
    ]
    for left, (name, title) in zip((0, 425), SYSTEMS.items(), strict=True):
        drawn.append(f'<text x="{left}" y="80">{title}</text>')
        for row, point in enumerate(each for each in points if each.system == name):
            drawn += bar(point, left, 90 + 42 * row)
    for left, (part, words) in zip((0, 100, 310), PARTS.items(), strict=True):
        drawn.append(f'<rect class="{part}" x="{left}" y="272" width="14" height="14"/>')
        drawn.append(f'<text class="grey" x="{left + 20}" y="284">{words}</text>')
    size = 'viewBox="-10 -4 860 300" width="860" height="300"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *drawn, "</svg>"]) + "\n"


def bar(point: PredictedPoint, left: int, top: int) -> list[str]:
    """One number of GPUs: percents of the step, and at its end the speed-up, of eight GPUs with its interval."""
    shares = {part.name: 100 * part.share for part in point.parts}
    percents = [round(shares["useful"]), round(shares["communication"])]
    percents.append(100 - sum(percents))
    unit = "GPU" if point.gpus == 1 else "GPUs"
    drawn = [f'<text x="{left}" y="{top + 20}">{point.gpus} {unit}</text>']
    for part, percent, end in zip(PARTS, percents, accumulate(percents), strict=True):
        x, width = left + 55 + 2.2 * (end - percent), 2.2 * percent
        drawn.append(f'<rect class="{part}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="30"/>')
        if percent >= 7:
            drawn.append(f'<text class="in" x="{x + width / 2:.1f}" y="{top + 20}">{percent}</text>')
    drawn.append(f'<text class="factor" x="{left + 283}" y="{top + 20}">{point.speedup:.1f} x</text>')
    if point.gpus == 8:
        low, high = point.speedup_interval
        drawn.append(f'<text class="grey" x="{left + 332}" y="{top + 20}">({low:.1f} to {high:.1f})</text>')
    return drawn


if __name__ == "__main__":
    FILE.write_text(picture())
