# SPDX-License-Identifier: Apache-2.0
"""CuPy: its default pool, elementwise work, products, a kernel from source.

Small whole numbers, so that every sum is exact in any order.  With POOL=async
the pool is the driver's.
"""

import os

import prog

cupy = prog.need("cupy")

SIDE = 2048
STEPS = prog.steps(350)

SOURCE = r"""
extern "C" __global__ void blend(unsigned *p, const unsigned *q, int n,
				 unsigned value)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * blockDim.x)
		p[i] = p[i] * 2654435761u + q[n - 1 - i] + value;
}

extern "C" __global__ void spin(unsigned long long ns)
{
	unsigned long long from, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
	do {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	} while (now - from < ns);
}
"""


def main():
    if os.environ.get("POOL") == "async":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    module = cupy.RawModule(code=SOURCE)
    blend = module.get_function("blend")
    spin = module.get_function("spin")
    index = cupy.arange(SIDE * SIDE, dtype=cupy.uint32)
    words = index * cupy.uint32(2654435761)
    a = (words >> 7).reshape(SIDE, SIDE).astype(cupy.float32) % 9 - 4
    b = (words >> 11).reshape(SIDE, SIDE).astype(cupy.float32) % 9 - 4
    total = 0
    for step in range(1, STEPS + 1):
        spin((1,), (1,), (cupy.uint64(12000000),))
        product = a @ b
        a = cupy.mod(product + 3 * b, 9) - 4
        # temporary memory of many sizes for the pool
        part = cupy.sort(words[: 1000 * step])
        blend(
            (512,), (256,),
            (words, index, cupy.int32(words.size), cupy.uint32(step)),
        )
        total += int(part[:: max(1, step)].sum(dtype=cupy.uint64))
        total += int(a.sum(dtype=cupy.float64))
        total %= 1 << 64
        if step % 50 == 0:
            cupy.get_default_memory_pool().free_all_blocks()
        if step % 25 == 0:
            print(f"step {step} total {total:016x}", flush=True)
        prog.progress(step)
    print("done", prog.digest([cupy.asnumpy(a), cupy.asnumpy(words)]))


main()
