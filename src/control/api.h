/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api - what a program asks of the vsleep that it runs under; the functions
 * are those of include/vsleep.h.
 *
 * They run on program threads, outside the gate, and wait for the operation
 * thread as a client does: so never on that thread, nor where the wait is for
 * the calling thread itself.  Owns nothing, no lock.
 */
#ifndef VS_CONTROL_API_H
#define VS_CONTROL_API_H

#include <stdbool.h>

/* Read the settings of a process that has not called CUDA yet; false: vsleep
 * is switched off.  Set by init. */
extern bool (*vs_api_prepare)(void);

#endif
