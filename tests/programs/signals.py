# SPDX-License-Identifier: Apache-2.0
"""What Python's signal module sees and does beside CUDA: before or after."""
import ctypes
import os
import signal
import sys

SEEN = []


def cuda():
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for code in (
        driver.cuInit(0),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        driver.cuCtxSetCurrent(context),
    ):
        if code:
            sys.exit(f"CUDA error {code}")


def handle(number, frame):
    SEEN.append(number)


if sys.argv[1] == "after":
    cuda()
print(signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2))
print(signal.signal(signal.SIGUSR1, handle))
if sys.argv[1] == "before":
    cuda()
os.kill(os.getpid(), signal.SIGUSR1)
print(SEEN, signal.getsignal(signal.SIGUSR1) is handle)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
print(signal.sigwait([signal.SIGUSR2]))
signal.siginterrupt(signal.SIGUSR1, False)
os.kill(os.getpid(), signal.SIGUSR1)
print(SEEN, signal.signal(signal.SIGUSR1, signal.SIG_DFL) is handle, flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
print("alive", flush=True)
