/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init - what happens when: configuration at load, start at the first
 * context, fork, exit.
 */
#ifndef VS_INIT_H
#define VS_INIT_H

#include "base/cuda.h"

/* A context was made, retained or made current: learn it; with the first one
 * start the threads, the socket and the signals.  Cheap when nothing is new.
 * Called on program threads after the driver's success. */
void vs_init_context(CUcontext context);

#endif
