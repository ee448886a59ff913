/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal - the signals that sleep, wake and set the marker, where the program
 * leaves them.
 *
 * A signal whose disposition is not the default belongs to the program and is
 * not touched; one that the program sets later is given to it for good.  The
 * handler pokes the server thread and does nothing else.
 */
#ifndef VS_CONTROL_SIGNAL_H
#define VS_CONTROL_SIGNAL_H

/* Install what VSLEEP_SIGNALS and VSLEEP_MARK_SIGNAL name; after
 * vs_server_start. */
void vs_signal_start(void);

/* The server was poked with what vs_signal_start gave to the program. */
void vs_signal_tell_given(int number);

/* Give the default back where our handler still is: for a forked child.
 * Async-signal-safe. */
void vs_signal_stop(void);

#endif
