# SPDX-License-Identifier: Apache-2.0
"""PyTorch with two DataLoader workers and pinned memory: loader.py fork|spawn.

Forked workers are started anew for every pass over the data, while the parent
uses the device; spawned ones stay.
"""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import prog  # noqa: E402

torch = prog.need("torch", "torch.utils.data", "torch")

WIDTH = 4096
BATCH = 64
BATCHES = 40
PASSES = prog.steps(8)


class Numbers(torch.utils.data.Dataset):
    """Items that depend on their place alone."""

    def __len__(self):
        return BATCH * BATCHES

    def __getitem__(self, i):
        random = torch.Generator().manual_seed(i)
        return torch.randn(WIDTH, generator=random), i


def main():
    method = sys.argv[1]
    torch.manual_seed(5)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=BATCH, num_workers=2, pin_memory=True,
        shuffle=True, generator=torch.Generator().manual_seed(3),
        multiprocessing_context=method,
        persistent_workers=method == "spawn",
    )
    step = 0
    for _ in range(PASSES):
        for x, places in loader:
            step += 1
            torch.cuda._sleep(20000000)
            x = x.cuda(non_blocking=True)
            places = places.cuda(non_blocking=True)
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = int(places.sum().item())
            if step % 20 == 0:
                print(f"step {step} places {total} loss "
                      f"{prog.exact(loss.item())}", flush=True)
            prog.progress(step)
    values = [p.detach().cpu().numpy() for p in model.parameters()]
    print("done", prog.digest(values))


if __name__ == "__main__":
    main()
