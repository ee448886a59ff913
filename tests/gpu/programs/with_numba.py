# SPDX-License-Identifier: Apache-2.0
"""Numba: kernels compiled from Python, device arrays, streams, pinned memory.

Whole numbers throughout; what comes back is compared with the host's own.
"""

import time

import prog

numpy = prog.need("numpy")
# Numba asks for names that NumPy has dropped meanwhile.
for old, new in (("row_stack", "vstack"), ("in1d", "isin"),
                 ("trapz", "trapezoid")):
    if not hasattr(numpy, old):
        setattr(numpy, old, getattr(numpy, new))
cuda = prog.need("numba", "numba.cuda")

COUNT = 8 << 20
STEPS = prog.steps(500)


@cuda.jit
def mix(data, value):
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        data[i] = (data[i] * 31 + value + i) % 1000003


@cuda.jit
def add_up(data, sums):
    total = 0
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        total += data[i] * (i % 17 + 1)
    cuda.atomic.add(sums, 0, total)


def main():
    if not cuda.is_available():
        prog.leave("no GPU in Numba")
    stream = cuda.stream()
    host = numpy.arange(COUNT, dtype=numpy.int64)
    expected = host.copy()
    place = numpy.arange(COUNT, dtype=numpy.int64)
    data = cuda.to_device(host)
    pinned = cuda.pinned_array(COUNT // 8, dtype=numpy.int64)
    wrong = 0
    for step in range(1, STEPS + 1):
        mix[512, 256, stream](data, step)
        if step <= 20:
            expected = (expected * 31 + step + place) % 1000003
        sums = cuda.to_device(numpy.zeros(1, dtype=numpy.int64))
        stream.synchronize()
        add_up[512, 256](data, sums)
        total = int(sums.copy_to_host()[0])
        data[: COUNT // 8].copy_to_host(pinned, stream=stream)
        stream.synchronize()
        if step == 20:
            wrong += int((data.copy_to_host() != expected).sum())
        spare = cuda.device_array(step * 10007, dtype=numpy.float32)
        del spare
        if step % 25 == 0:
            first = prog.digest([pinned])[:16]
            print(f"step {step} sum {total} first {first}", flush=True)
        time.sleep(0.008)
        prog.progress(step)
    print("done", prog.digest([data.copy_to_host()]), "wrong", wrong)
    raise SystemExit(wrong != 0)


main()
