/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda - the one way to the toolkit's headers.
 *
 * With the internal version macro every exported spelling is declared under
 * its own name (cuMemAlloc_v2, cuMemcpyHtoD_v2_ptds) and none is renamed.
 */
#ifndef VS_BASE_CUDA_H
#define VS_BASE_CUDA_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include "base/driver-compat.h"

#endif
