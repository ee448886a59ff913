# SPDX-License-Identifier: Apache-2.0
"""plot.py LINES PNG: time against size, from the benchmark's lines."""

import re
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

# (name in the lines, label, form) in each of the two pictures
SLEEPS = (
    ("first-sleep", "vsleep, first", "o-"),
    ("later-sleep", "vsleep, later, all changed", "s-"),
    ("unchanged-sleep", "vsleep, later, nothing changed", "^-"),
    ("vllm-sleep", "vLLM's flow", "x"),
    ("tms-sleep", "torch_memory_saver's flow", "+"),
    ("checkpoint-sleep", "driver checkpoint", "*"),
)
WAKES = (
    ("wake-after-1s", "vsleep", "o-"),
    ("vllm-wake-at-once", "vLLM's flow", "x"),
    ("tms-wake-at-once", "torch_memory_saver's flow", "+"),
    ("checkpoint-wake-at-once", "driver checkpoint", "*"),
)
LINE = re.compile(r"bench (\S+?)(?:-(\d+)(MiB|GiB))? ([\d.]+) (\S+) \S+")


def read(path):
    """{name: {GiB, None where the name has no size: value}}"""
    found = {}
    with open(path, encoding="ascii") as lines:
        for match in filter(None, map(LINE.fullmatch,
                                      map(str.strip, lines))):
            name, size, unit, value, _ = match.groups()
            gib = int(size) / (1024 if unit == "MiB" else 1) if size else None
            found.setdefault(name, {})[gib] = float(value)
    return found


def draw(axes, title, found, rows, limit):
    sizes = set()
    for name, label, form in rows:
        points = sorted((gib, value)
                        for gib, value in found.get(name, {}).items() if gib)
        if points:
            axes.plot(*zip(*points), form, label=label)
            sizes.update(gib for gib, _ in points)
    rate = found.get(limit, {}).get(None)
    if rate and sizes:
        ends = (min(sizes), max(sizes))
        axes.plot(ends, [gib / rate for gib in ends], "k:",
                  label=f"the link, {rate:.1f} GiB/s")
    axes.set(title=title, xlabel="GiB", ylabel="seconds", xscale="log",
             yscale="log")
    if sizes:
        axes.set_xticks(sorted(sizes), [f"{gib:g}" for gib in sorted(sizes)])
        axes.minorticks_off()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=2)
    axes.grid(True, alpha=0.3)


def main():
    found = read(sys.argv[1])
    figure, axes = pyplot.subplots(1, 2, figsize=(12, 6), sharey=True)
    draw(axes[0], "sleep", found, SLEEPS, "limit-d2h")
    draw(axes[1], "wake", found, WAKES, "limit-h2d")
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=100)


main()
