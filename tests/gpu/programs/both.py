# SPDX-License-Identifier: Apache-2.0
"""Fill GIB on each device that is visible, and say so; wait to be told to
verify by SIGTERM."""

import os
import signal

import prog

torch = prog.need("torch")

SIZE = int(os.environ.get("GIB", "8")) << 30


def main():
    blocks = []
    for number in range(torch.cuda.device_count()):
        block = torch.arange(SIZE // 8, device=f"cuda:{number}")
        torch.cuda.synchronize(number)
        blocks.append(block)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    prog.mark("filled")
    signal.sigwait({signal.SIGTERM})
    for block in blocks:
        step = 1 << 26
        for start in range(0, len(block), step):
            part = block[start:start + step]
            same = torch.arange(start, start + len(part), device=part.device)
            if not torch.equal(part, same):
                print("wrong", block.device, start)
                return
    print(f"{len(blocks)} devices are as they were")


main()
