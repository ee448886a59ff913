# SPDX-License-Identifier: Apache-2.0
"""PyTorch with CUDA graphs: capture once, replay many times, capture anew.

Each graph does a forward pass, a backward pass and an update of the weights;
every 40 steps the old graph goes and a new one is captured.
"""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import prog  # noqa: E402

torch = prog.need("torch")
nn = torch.nn

WIDTH = 4096
LAYERS = 8
BATCH = 256
REPLAYS = 4
STEPS = prog.steps(250)


class Trainer:
    def __init__(self, device):
        layers = []
        for _ in range(LAYERS):
            layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
        self.model = nn.Sequential(*layers).to(device)
        self.x = torch.zeros(BATCH, WIDTH, device=device)
        self.loss = None
        self.graph = None

    def work(self):
        parameters = list(self.model.parameters())
        loss = (self.model(self.x) - self.x.roll(1, dims=1)).square().mean()
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, grad in zip(parameters, grads):
                parameter.add_(grad, alpha=-0.05)
        return loss.detach()

    def warm_up(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.work()
        torch.cuda.current_stream().wait_stream(side)

    def capture(self):
        self.loss = None
        self.graph = None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.loss = self.work()
        self.graph = graph


def main():
    torch.manual_seed(4321)
    torch.use_deterministic_algorithms(True)
    device = torch.device("cuda")
    random = torch.Generator(device=device)
    random.manual_seed(7)
    trainer = Trainer(device)
    trainer.x.normal_(generator=random)
    trainer.warm_up()
    for step in range(1, STEPS + 1):
        if step % 40 == 1:
            trainer.capture()
        trainer.x.normal_(generator=random)
        for _ in range(REPLAYS):
            trainer.graph.replay()
        if step % 5 == 0:
            value = trainer.loss.item()
            if step % 25 == 0:
                print(f"step {step} loss {prog.exact(value)}", flush=True)
        prog.progress(step)
    values = [p.detach().cpu().numpy() for p in trainer.model.parameters()]
    print("done", prog.digest(values))


main()
