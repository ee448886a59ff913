# SPDX-License-Identifier: Apache-2.0
"""What the Python programs share, as prog.h for those in C."""

import hashlib
import importlib
import os
import sys


def steps(number):
    """How many steps: $STEPS, else the number."""
    return int(os.environ.get("STEPS") or number)


def leave(why):
    """This machine cannot run it."""
    print(why, file=sys.stderr, flush=True)
    sys.exit(77)


def need(*names):
    """Import modules, the last of which is returned; leave with 77 without."""
    module = None
    for name in names:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            print(error, file=sys.stderr)
            leave(f"no {name}")
    return module


def mark(text):
    """Put the text into the file that $PROGRESS names, in one write."""
    path = os.environ.get("PROGRESS")
    if path:
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(out, f"{text:<20}\n".encode(), 0)
        os.close(out)


def progress(step):
    """Step n is done: one line on stderr, and $PROGRESS."""
    print(f"step {step}", file=sys.stderr, flush=True)
    mark(f"step {step}")


def exact(value):
    """A float as text that loses nothing."""
    return float(value).hex()


def digest(arrays):
    """The SHA-256 of arrays of NumPy's."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(array.tobytes())
    return total.hexdigest()
