# SPDX-License-Identifier: Apache-2.0
"""A transformer trained for STEPS (200) deterministic steps; prints every loss.

Mixed precision, dropout, clipped gradients, a schedule, and a copy of the state
that is taken and put back on the way.
"""

import copy
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import prog  # noqa: E402

torch = prog.need("torch")
nn = torch.nn

WORDS = 16000
WIDTH = 768
LENGTH = 128
BATCH = 16
STEPS = prog.steps(200)


class Model(nn.Module):
    """Embedding, six layers of attention, and the words again."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 12, 4 * WIDTH, dropout=0.1, batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(
            layer, 6, enable_nested_tensor=False
        )
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        return self.out(self.layers(self.words(x)))


def main():
    torch.manual_seed(31)
    torch.use_deterministic_algorithms(True)
    # of attention's kernels the plain one is deterministic backwards too
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    random = torch.Generator(device="cuda").manual_seed(37)
    saved = None
    for step in range(1, STEPS + 1):
        torch.cuda._sleep(20000000)
        x = torch.randint(WORDS, (BATCH, LENGTH), generator=random,
                          device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(
                model(x).flatten(0, 1), x.roll(1, dims=1).flatten()
            )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(f"step {step} loss {prog.exact(loss.item())}", flush=True)
        if step == STEPS // 4:
            saved = copy.deepcopy(model.state_dict())
        if step == STEPS // 2:
            model.load_state_dict(saved)
        prog.progress(step)
    values = [p.detach().cpu().numpy() for p in model.parameters()]
    print("done", prog.digest(values))


main()
