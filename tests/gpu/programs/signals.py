# SPDX-License-Identifier: Apache-2.0
"""PyTorch with signal handlers, which Python runs between its instructions.

It works until SIGTERM's handler says that it may end.  Each time a handler runs
its name is added to the file $PROGRESS with ".signals".
"""

import os
import signal

import prog

torch = prog.need("torch")

over = False


def note(number, _frame):
    global over
    name = signal.Signals(number).name
    with open(os.environ["PROGRESS"] + ".signals", "a") as out:
        out.write(f"{name}\n")
    over = over or number == signal.SIGTERM


def main():
    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGHUP, note)
    data = torch.arange(64 << 20, device="cuda", dtype=torch.int32)
    step = 0
    bad = 0
    while not over:
        step += 1
        data += 1
        bad += int(data[0].item()) != step
        prog.progress(step)
    bad += int(data[-1].item()) != step + (64 << 20) - 1
    print("bad", bad)
    raise SystemExit(bad != 0)


main()
