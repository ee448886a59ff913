/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_memory - memory that graphs allocate by their own nodes.
 *
 * It is the driver's: what no graph uses is given back at a sleep, and what
 * one does is counted as unmanaged, as the last sleep has found it.
 */
#ifndef VS_MEMORY_GRAPH_MEMORY_H
#define VS_MEMORY_GRAPH_MEMORY_H

/* Operation thread, the devices at rest. */
void vs_graph_memory_settle(void);

#endif
