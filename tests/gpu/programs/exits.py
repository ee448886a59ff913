# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that ends with its tensors alive.

$PROGRESS reads "ready", it waits for a line on stdin and leaves by sys.exit(6).
With the argument "late" an object copies from the device when the interpreter
takes it down, with "atexit" a function that runs before.
"""

import atexit
import os
import sys

import torch

tensors = [torch.full((64 << 20,), i, device="cuda") for i in range(4)]
torch.cuda.synchronize()


class Late:
    """Copies a tensor out when the interpreter takes it down."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __del__(self):
        print("late sum", int(self.tensor[:1000].sum().item()), flush=True)


def last_words():
    print("atexit sum", int(tensors[2][:1000].sum().item()), flush=True)


if "atexit" in sys.argv:
    atexit.register(last_words)
late = Late(tensors[3]) if "late" in sys.argv else None
with open(os.environ["PROGRESS"], "w") as out:
    out.write("ready\n")
sys.stdin.readline()
sys.exit(6)
