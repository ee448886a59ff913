/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA version of the driver, which is told when it is linked. */
#include "sim_internal.h"

const int sim_version = SIM_VERSION;
