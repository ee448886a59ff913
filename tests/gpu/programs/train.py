# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch: forward, backward, Adam, everything deterministic.

A model of about 1 GiB, STEPS steps; prints the exact loss now and then and the
SHA-256 of all parameters at the end.
"""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import prog  # noqa: E402

torch = prog.need("torch")
nn = torch.nn

WIDTH = 4096
LAYERS = 16
BATCH = 256
STEPS = prog.steps(250)


def main():
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(True)
    device = torch.device("cuda")
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU(approximate="tanh")]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    random = torch.Generator(device=device)
    random.manual_seed(99)
    for step in range(1, STEPS + 1):
        x = torch.randn(BATCH, WIDTH, generator=random, device=device)
        loss = nn.functional.mse_loss(model(x), x.roll(1, dims=1))
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            value = loss.item()
            if step % 25 == 0:
                print(f"step {step} loss {prog.exact(value)}", flush=True)
        prog.progress(step)
    values = [p.detach().cpu().numpy() for p in model.parameters()]
    print("done", prog.digest(values))


main()
