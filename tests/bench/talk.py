# SPDX-License-Identifier: Apache-2.0
"""What the benchmark's programs in Python share: where they compute, commands.

One command a line from stdin, one answer a line to stdout.
"""

import importlib
import os
import sys


def leave(why):
    """This machine cannot run it."""
    print(why, file=sys.stderr, flush=True)
    sys.exit(77)


def torch_and_device():
    """PyTorch and $BENCH_DEVICE, which is cuda; 77 without one of them."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        leave("no torch")
    device = os.environ.get("BENCH_DEVICE") or "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        leave("no GPU for torch")
    return torch, device


def number(name, otherwise):
    """A setting from the environment."""
    return int(os.environ.get(name) or otherwise)


def obey(verbs):
    """Answer commands, until quit, with what the function of that name says."""
    print("ok ready", flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        if name == "quit":
            break
        try:
            print("ok", verbs[name](*words), flush=True)
        except Exception as error:  # pylint: disable=broad-except
            print(f"error {error!r}".replace("\n", " "), flush=True)
    print("ok bye", flush=True)
