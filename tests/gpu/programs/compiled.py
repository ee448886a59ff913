# SPDX-License-Identifier: Apache-2.0
"""torch.compile: forward and backward through kernels made by inductor.

Small whole numbers, so that sums are exact whatever kernels are chosen.
"""

import prog

torch = prog.need("torch")

SIDE = 2048
STEPS = prog.steps(300)


def small(x):
    return torch.remainder(x, 7) - 3


class Layer(torch.nn.Module):
    """A product, and what inductor makes kernels of."""

    def __init__(self, index):
        super().__init__()
        weight = small(index * 7919 + 1).reshape(SIDE, SIDE)
        self.weight = torch.nn.Parameter(weight.float())

    def forward(self, x):
        y = x @ self.weight
        scale = torch.where(x > 0, 2.0, 1.0)
        return (y * scale).sum(dim=1), torch.relu(y.detach() + 1)


def main():
    device = torch.device("cuda")
    index = torch.arange(SIDE * SIDE, device=device)
    layer = Layer(index)
    model = torch.compile(layer)
    fold = torch.compile(lambda y, n: small(torch.floor(y) + n))
    x = small(index * 104729).float().reshape(SIDE, SIDE)
    for step in range(1, STEPS + 1):
        torch.cuda._sleep(20000000)
        rows, y = model(x)
        layer.zero_grad(set_to_none=True)
        rows.sum().backward()
        with torch.no_grad():
            layer.weight.copy_(small(layer.weight + layer.weight.grad))
            x = fold(y, torch.tensor(float(step % 5), device=device))
        if step % 5 == 0:
            value = rows.sum(dtype=torch.float64).item()
            if step % 25 == 0:
                print(f"step {step} value {prog.exact(value)}", flush=True)
        prog.progress(step)
    weight = layer.weight.detach().cpu().numpy()
    print("done", prog.digest([weight, x.cpu().numpy()]))


main()
