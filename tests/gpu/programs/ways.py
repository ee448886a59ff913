# SPDX-License-Identifier: Apache-2.0
"""Device memory by a framework's way of allocating, as ways.c for bare CUDA.

ways.py NAME: WAYS_MIB (256) of it.  Each line on stdin is a step: everything is
compared, some of it goes and comes anew, all of it gets new values.  At the end
it prints "equal" or that it is not.  How a framework takes its memory is up to
the environment, but for CuPy's pools, which are chosen by NAME.
"""

import os
import sys

import prog

BYTES = int(os.environ.get("WAYS_MIB") or 256) << 20
FACTOR = 40503


class Torch:
    def __init__(self):
        self.torch = prog.need("torch")
        if not self.torch.cuda.is_available():
            prog.leave("no GPU in PyTorch")

    def make(self, words, seed):
        index = self.torch.arange(words, dtype=self.torch.int32, device="cuda")
        return index.mul_(FACTOR).add_(seed)

    def same(self, array, seed):
        return self.torch.equal(array, self.make(array.numel(), seed))

    def done(self):
        self.torch.cuda.synchronize()


class CuPy:
    def __init__(self, asynchronous):
        self.cupy = prog.need("cupy")
        if asynchronous:
            self.pool = self.cupy.cuda.MemoryAsyncPool()
            self.cupy.cuda.set_allocator(self.pool.malloc)

    def make(self, words, seed):
        index = self.cupy.arange(words, dtype=self.cupy.uint32)
        index *= self.cupy.uint32(FACTOR)
        index += self.cupy.uint32(seed)
        return index

    def same(self, array, seed):
        return bool((array == self.make(array.size, seed)).all())

    def done(self):
        self.cupy.cuda.Device().synchronize()


class Jax:
    def __init__(self):
        self.jax = prog.need("jaxlib", "jax")
        if self.jax.default_backend() != "gpu":
            prog.leave(f"no GPU in JAX: {self.jax.default_backend()}")
        self.last = None

    def make(self, words, seed):
        jnp = self.jax.numpy
        index = jnp.arange(words, dtype=jnp.uint32)
        self.last = index * jnp.uint32(FACTOR) + jnp.uint32(seed)
        return self.last

    def same(self, array, seed):
        return bool((array == self.make(array.size, seed)).all())

    def done(self):
        self.last.block_until_ready()
        self.last = None


KINDS = {
    "torch": Torch,
    "cupy": lambda: CuPy(False),
    "cupy-async": lambda: CuPy(True),
    "jax": Jax,
}


def main():
    kind = KINDS[sys.argv[1]]()
    sizes = [BYTES // 16] * 12 + [BYTES // 32] * 8 + [2048, 4096, 5000,
                                                      70000] * 16
    blocks = [(kind.make(size // 4, n), n) for n, size in enumerate(sizes)]
    kind.done()
    print(f"bytes={sum(sizes)}", flush=True)
    prog.mark("filled")
    wrong = 0
    step = 0
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        step += 1
        wrong += sum(not kind.same(a, seed) for a, seed in blocks)
        # a part of another size comes where one has gone
        sizes[step % 20] += 1 << 20
        for n, size in enumerate(sizes):
            blocks[n] = None
            seed = 1000 * step + n
            blocks[n] = (kind.make(size // 4, seed), seed)
        kind.done()
        prog.progress(step)
    wrong += sum(not kind.same(a, seed) for a, seed in blocks)
    print(f"{wrong} arrays differ" if wrong else "equal", flush=True)
    sys.exit(bool(wrong))


main()
