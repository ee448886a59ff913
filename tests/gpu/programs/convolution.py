# SPDX-License-Identifier: Apache-2.0
"""cuDNN: convolutions forth and back, of several kinds, in two precisions."""

import prog

torch = prog.need("torch")
nn = torch.nn

BATCH = 32
SIDE = 64
STEPS = prog.steps(250)


def model():
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.Conv2d(128, 128, 3, padding=1, groups=8), nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 3, 1),
    )


def main():
    torch.manual_seed(41)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if not torch.backends.cudnn.is_available():
        prog.leave("no cuDNN")
    single = model().cuda()
    half = model().cuda().to(memory_format=torch.channels_last)
    parameters = [*single.parameters(), *half.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    random = torch.Generator(device="cuda").manual_seed(43)
    for step in range(1, STEPS + 1):
        torch.cuda._sleep(20000000)
        x = torch.randn(BATCH, 3, SIDE, SIDE, generator=random, device="cuda")
        loss = (single(x) - x).square().mean()
        with torch.autocast("cuda", dtype=torch.float16):
            y = half(x.to(memory_format=torch.channels_last))
        loss = loss + (y.float() - x).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        if step % 25 == 0:
            print(f"step {step} loss {prog.exact(value)}", flush=True)
        prog.progress(step)
    print("done", prog.digest([p.detach().cpu().numpy() for p in parameters]))


main()
