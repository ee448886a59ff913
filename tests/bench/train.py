# SPDX-License-Identifier: Apache-2.0
"""A training loop whose steps are timed, beside memory that does not change.

  go              start training, in a thread; it goes on until the end
  mean FROM TO    mean milliseconds of the steps that lie in that while; times
                  are microseconds since 1970

A model of WIDTH x WIDTH layers and Adam; $PREPARED_MIB of other memory, as a
frozen model would take.
"""

import statistics
import threading
import time

import talk

torch, DEVICE = talk.torch_and_device()
WIDTH = talk.number("BENCH_WIDTH", 4096)
LAYERS = talk.number("BENCH_LAYERS", 4)
BATCH = talk.number("BENCH_BATCH", 4096)
steps = []  # begin and end of each, in microseconds since 1970
leaving = threading.Event()


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def train():
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(BATCH, WIDTH, device=DEVICE)
    while not leaving.is_set():
        begin = time.time()
        loss = torch.nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        synchronize()
        steps.append((begin * 1e6, time.time() * 1e6))


trainer = threading.Thread(target=train)


def go():
    trainer.start()
    return "going"


def mean(begin, end):
    took = [b - a for a, b in list(steps) if a >= int(begin) and b <= int(end)]
    if not took:
        raise ValueError("no step lies in that while")
    return f"ms={statistics.fmean(took) / 1e3:.4f} steps={len(took)}"


def main():
    torch.manual_seed(11)
    frozen = [
        torch.randint(-2**62, 2**62, (64 * 2**20 // 8,), device=DEVICE)
        for _ in range(talk.number("PREPARED_MIB", 64) // 64)
    ]
    synchronize()
    talk.obey({"go": go, "mean": mean})
    leaving.set()
    if trainer.is_alive():
        trainer.join()
    del frozen


main()
