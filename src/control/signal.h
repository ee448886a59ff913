/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal - two signals that sleep and wake, where the program leaves them.
 *
 * A signal whose disposition is not the default belongs to the program and is
 * not touched.  The handler pokes the server thread and does nothing else.
 */
#ifndef VS_CONTROL_SIGNAL_H
#define VS_CONTROL_SIGNAL_H

/* Install what VSLEEP_SIGNALS names; after vs_server_start. */
void vs_signal_start(void);

/* Give the default back where our handler still is: for a forked child.
 * Async-signal-safe. */
void vs_signal_stop(void);

#endif
