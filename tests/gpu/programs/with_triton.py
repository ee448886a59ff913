# SPDX-License-Identifier: Apache-2.0
"""Triton: kernels of its own on memory of PyTorch's.

A product of small whole numbers, an elementwise kernel and an atomic sum: exact
in any order.
"""

import prog

torch = prog.need("torch")
triton = prog.need("triton")
tl = prog.need("triton.language")

SIDE = 2048
TILE = 64
STEPS = prog.steps(400)


@triton.jit
def multiply(a, b, c, side, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inner = tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for at in range(0, side, TILE):
        left = tl.load(a + row[:, None] * side + (at + inner)[None, :])
        right = tl.load(b + (at + inner)[:, None] * side + column[None, :])
        total += tl.dot(left, right)
    tl.store(c + row[:, None] * side + column[None, :], total)


@triton.jit
def fold(c, a, words, sums, n, value, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    number = tl.load(c + at, mask=inside, other=0.0).to(tl.int32) + value
    small = (number & 7) - 3
    tl.store(a + at, small.to(tl.float16), mask=inside)
    word = tl.load(words + at, mask=inside, other=0) * 31 + small
    tl.store(words + at, word, mask=inside)
    tl.atomic_add(sums, tl.sum(word.to(tl.int64)))


def main():
    device = torch.device("cuda")
    count = SIDE * SIDE
    index = torch.arange(count, device=device)
    a = (index * 7919 % 7 - 3).to(torch.float16)
    b = (index * 104729 % 5 - 2).to(torch.float16)
    words = (index % 1000003).to(torch.int32)
    sums = torch.zeros(1, dtype=torch.int64, device=device)
    tiles = (SIDE // TILE, SIDE // TILE)
    for step in range(1, STEPS + 1):
        torch.cuda._sleep(20000000)
        c = torch.empty(count, device=device)
        multiply[tiles](a, b, c, SIDE, TILE=TILE)
        fold[(triton.cdiv(count, 1024),)](
            c, a, words, sums, count, step, BLOCK=1024
        )
        value = int(sums.item())
        if step % 25 == 0:
            print(f"step {step} sum {value}", flush=True)
        prog.progress(step)
    print("done", prog.digest([a.cpu().numpy(), words.cpu().numpy()]))


main()
