/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver-compat - what the headers of CUDA 12.4 to 12.9 lack of the table.
 *
 * All prototypes are declared, whatever the version: where the toolkit has
 * one too, the compiler compares.  Types that the toolkit lacks are opaque:
 * what a field of one is needed for is built with newer headers alone.
 */
#ifndef VS_BASE_DRIVER_COMPAT_H
#define VS_BASE_DRIVER_COMPAT_H

#if CUDA_VERSION < 12040
#error the headers of CUDA are older than 12.4
#endif

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
#endif

#if CUDA_VERSION < 12080
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
typedef struct CUcheckpointCheckpointArgs_st CUcheckpointCheckpointArgs;
typedef struct CUcheckpointLockArgs_st CUcheckpointLockArgs;
typedef struct CUcheckpointRestoreArgs_st CUcheckpointRestoreArgs;
typedef struct CUcheckpointUnlockArgs_st CUcheckpointUnlockArgs;
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef unsigned int CUprocessState;
typedef unsigned int CUtensorMapIm2ColWideMode;
#define CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE 21
#define CUDA_ERROR_CONTAINED 226
#endif

#if CUDA_VERSION < 12090
typedef unsigned int CUlogIterator;
typedef unsigned int CUlogLevel;
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;
typedef void (*CUlogsCallback)(void *data, CUlogLevel logLevel, char *message,
		size_t length);
#endif

#if CUDA_VERSION < 13000
typedef unsigned int CUatomicOperation;
#endif

/* Of cudaProfiler.h, which not every package of headers has. */
typedef unsigned int CUoutput_mode;

#pragma GCC visibility push(default)
CUresult cuCheckpointProcessCheckpoint(int pid,
		CUcheckpointCheckpointArgs *args);
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid);
CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state);
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args);
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args);
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args);
CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
		unsigned int flags, CUdevice dev);
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent);
CUresult cuCtxSynchronize_v2(CUcontext ctx);
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent);
CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
		const CUatomicOperation *operations, unsigned int count,
		CUdevice dev);
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
		const CUatomicOperation *operations, unsigned int count,
		CUdevice srcDevice, CUdevice dstDevice);
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart,
		CUevent hEnd);
CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId);
CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
		unsigned int flags, int priority);
CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel);
CUresult cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags);
CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile,
		unsigned int flags);
CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
		unsigned int flags);
CUresult cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
		CUlogsCallbackHandle *callback_out);
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback);
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray,
		size_t count, unsigned int flags, size_t *errorIndex,
		CUstream stream);
CUresult cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams *paramsArray,
		size_t count, unsigned int flags, size_t *errorIndex,
		CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
		size_t count, CUmemLocation *prefetchLocs,
		size_t *prefetchLocIdxs, size_t numPrefetchLocs,
		unsigned long long flags, CUstream hStream);
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs,
		size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
		size_t *prefetchLocIdxs, size_t numPrefetchLocs,
		unsigned long long flags, CUstream hStream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
		unsigned long long flags, CUstream hStream);
CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
		size_t count, unsigned long long flags, CUstream hStream);
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
		CUmemAllocationType type);
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
		CUmemAllocationType type);
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
		size_t count, CUmemLocation *prefetchLocs,
		size_t *prefetchLocIdxs, size_t numPrefetchLocs,
		unsigned long long flags, CUstream hStream);
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
		size_t count, CUmemLocation *prefetchLocs,
		size_t *prefetchLocIdxs, size_t numPrefetchLocs,
		unsigned long long flags, CUstream hStream);
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
		CUmemoryPool pool);
CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
		size_t *failIdx, unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DBatchAsync_ptsz(size_t numOps,
		CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
		unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
		unsigned long long flags, CUstream hStream);
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps,
		CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
		CUstream hStream);
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
		size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
		size_t numAttrs, size_t *failIdx, CUstream hStream);
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs,
		size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
		size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
		CUstream hStream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs,
		size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
		size_t *attrsIdxs, size_t numAttrs, CUstream hStream);
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs,
		size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
		size_t *attrsIdxs, size_t numAttrs, CUstream hStream);
CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx,
		CUgreenCtx *pGreenCtx);
CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx,
		CUgreenCtx *pGreenCtx);
CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device);
CUresult cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device);
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap,
		CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
		void *globalAddress, const cuuint64_t *globalDim,
		const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
		int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
		cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
		CUtensorMapInterleave interleave,
		CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
		CUtensorMapL2promotion l2Promotion,
		CUtensorMapFloatOOBfill oobFill);
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile,
		CUoutput_mode outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
#pragma GCC visibility pop

#endif
