# SPDX-License-Identifier: Apache-2.0
"""Two processes that hand CUDA tensors to each other: torch.multiprocessing.

The one that reports fills tensors, small ones and large ones, and sends them;
the other, started by spawn, adds up what it got, changes it in place, and sends
tensors of its own back.  Some are kept for many steps on both sides.  Whole
numbers, so that every sum is exact.
"""

import ctypes
import signal

import prog

torch = prog.need("torch")

STEPS = prog.steps(250)
SIZES = (1000, 5000, 300000, 6000000)
KEPT = 8
PR_SET_PDEATHSIG = 1


def words(size, seed):
    index = torch.arange(size, device="cuda", dtype=torch.int64)
    return index * 2654435761 % 4294967291 + seed


def answer(inbox, outbox):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    kept = []
    while True:
        step, tensor = inbox.get()
        if tensor is None:
            return
        total = int(tensor.sum())
        tensor.mul_(3).add_(step)
        torch.cuda.synchronize()
        kept = (kept + [tensor])[-KEPT:]
        total += sum(int(old[-1]) for old in kept)
        del tensor
        outbox.put((total, words(SIZES[step % 3], step)))


def main():
    torch.multiprocessing.set_start_method("spawn")
    inbox = torch.multiprocessing.Queue()
    outbox = torch.multiprocessing.Queue()
    other = torch.multiprocessing.Process(target=answer, args=(inbox, outbox))
    other.start()
    total = 0
    mine, theirs = [], []
    for step in range(1, STEPS + 1):
        torch.cuda._sleep(20000000)
        tensor = words(SIZES[step % 4], step)
        torch.cuda.synchronize()
        inbox.put((step, tensor))
        said, reply = outbox.get(timeout=300)
        mine = (mine + [tensor])[-KEPT:]
        theirs = (theirs + [reply])[-KEPT:]
        del tensor, reply
        total += said
        total += sum(int(old[-1]) for old in theirs)
        total += sum(int(old[0]) for old in mine)
        total %= 1 << 64
        if step % 25 == 0:
            print(f"step {step} total {total:016x}", flush=True)
        prog.progress(step)
    del mine, theirs
    inbox.put((0, None))
    other.join()
    print("done", other.exitcode)


if __name__ == "__main__":
    main()
