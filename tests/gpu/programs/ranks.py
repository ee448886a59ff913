# SPDX-License-Identifier: Apache-2.0
"""Two processes of torchrun that train together.

They share a device through gloo, or with BACKEND=nccl have one each.  Gradients
are averaged by DistributedDataParallel, and a tensor on the host is added up
beside it.  The first one reports; with $PROGRESS the process id of number n is
in that file's name with ".rank" and n.  WATCH is the time limit of the group,
in seconds.
"""

import ctypes
import datetime
import os
import signal

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")

import prog  # noqa: E402

torch = prog.need("torch", "torch.distributed", "torch")

WIDTH = 1024
STEPS = prog.steps(250)
PR_SET_PDEATHSIG = 1


def main():
    rank = int(os.environ["RANK"])
    backend = os.environ.get("BACKEND", "gloo")
    # the launcher puts it into a session of its own, where no limit reaches it
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    device = torch.device("cuda", rank if backend == "nccl" else 0)
    torch.cuda.set_device(device)
    torch.manual_seed(17)
    torch.use_deterministic_algorithms(True)
    limit = datetime.timedelta(seconds=int(os.environ.get("WATCH", "600")))
    torch.distributed.init_process_group(backend, timeout=limit)
    layers = []
    for _ in range(4):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).to(device), device_ids=[device.index]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    random = torch.Generator(device=device).manual_seed(100 + rank)
    where = device if backend == "nccl" else torch.device("cpu")
    if "PROGRESS" in os.environ:
        with open(f"{os.environ['PROGRESS']}.rank{rank}", "w") as out:
            out.write(f"{os.getpid()}\n")
    for step in range(1, STEPS + 1):
        torch.cuda._sleep(20000000)
        x = torch.randn(128, WIDTH, generator=random, device=device)
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        both = loss.detach().to(where)
        torch.distributed.all_reduce(both)
        if rank == 0:
            if step % 20 == 0:
                print(f"step {step} loss {prog.exact(both.item())}",
                      flush=True)
            prog.progress(step)
    values = [p.detach().cpu().numpy() for p in model.parameters()]
    found = [None, None]
    torch.distributed.all_gather_object(found, prog.digest(values))
    if rank == 0:
        print("done", found[0], "same" if found[0] == found[1] else found[1])
    torch.distributed.destroy_process_group()


main()
