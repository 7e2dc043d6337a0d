// Devices: how many, which one the thread drives, contexts, errors.
#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>
#undef cudaGetDeviceProperties

namespace null {

std::recursive_mutex state;
thread_local int device = 0;
static thread_local cudaError_t last = cudaSuccess;
static std::set<int> contexts;
static std::set<std::pair<int, int>> peers;

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

void sleep_until(double time) {
  for (double n = now(); n < time; n = now()) usleep(static_cast<useconds_t>(std::min(time - n, 1.0) * 1e6) + 1);
}

double setting(const char* name, double otherwise) {
  const char* text = getenv(name);
  return text && *text ? atof(text) : otherwise;
}

static const char* kind() {
  const char* name = getenv("NULLCUDA_KIND");
  return name ? name : "H100";
}
static bool volta() { return !strcmp(kind(), "V100"); }

// Those of CUDA_VISIBLE_DEVICES, which are numbers here; the first that is none ends the list, as CUDA's does.
static std::vector<int> visible() {
  std::vector<int> found;
  int count = static_cast<int>(setting("NULLCUDA_GPUS", 1));
  const char* text = getenv("CUDA_VISIBLE_DEVICES");
  if (!text) {
    for (int i = 0; i < count; i++) found.push_back(i);
    return found;
  }
  for (const char* at = text; *at;) {
    char* end;
    long number;
    if (!strncmp(at, "GPU-", 4)) {
      number = strtol(at + 28, &end, 16);
    } else {
      number = strtol(at, &end, 10);
    }
    if (end == at || number < 0 || number >= count) break;
    found.push_back(static_cast<int>(number));
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') break;
  }
  return found;
}

int devices() { return static_cast<int>(visible().size()); }
bool has_context(int device) { LOCKED; return contexts.count(device) != 0; }

void touch(const char* by) {
  LOCKED;
  if (!contexts.insert(device).second) return;
  if (const char* path = getenv("NULLCUDA_CONTEXTS")) {
    const char* rank = getenv("RANK");
    if (FILE* file = fopen(path, "a")) {
      fprintf(file, "%d %s %d %s\n", getpid(), rank ? rank : "-", visible()[device], by);
      fclose(file);
    }
  }
}

cudaError_t fail(cudaError_t error, const char* what) {
  last = error;
  if (error != cudaSuccess && error != cudaErrorNotReady)
    fprintf(stderr, "null CUDA: %s: %s\n", what, cudaGetErrorName(error));
  return error;
}

}  // namespace null

using namespace null;

EXPORTED cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return *count ? cudaSuccess : fail(cudaErrorNoDevice, "cudaGetDeviceCount");
}
EXPORTED cudaError_t cudaGetDevice(int* found) { *found = device; return cudaSuccess; }
EXPORTED cudaError_t cudaSetDevice(int wanted) {
  if (wanted < 0 || wanted >= devices()) return fail(cudaErrorInvalidDevice, "cudaSetDevice");
  device = wanted;
  touch("cudaSetDevice");
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int wanted) {
  if (wanted < 0 || wanted >= devices()) return fail(cudaErrorInvalidDevice, "cudaGetDeviceProperties");
  // NVIDIA H100 and V100 data sheets, and CUDA's table of compute capabilities 9.0 and 7.0.
  memset(p, 0, sizeof *p);
  strcpy(p->name, volta() ? "Tesla V100-SXM2-16GB" : "NVIDIA H100 80GB HBM3");
  p->totalGlobalMem = volta() ? 16ull << 30 : 80ull << 30;
  p->major = volta() ? 7 : 9;
  p->multiProcessorCount = volta() ? 80 : 132;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = volta() ? 98304 : 232448;
  p->sharedMemPerMultiprocessor = volta() ? 98304 : 233472;
  for (int i = 0; i < 3; i++) {
    p->maxThreadsDim[i] = i < 2 ? 1024 : 64;
    p->maxGridSize[i] = i ? 65535 : 2147483647;
  }
  p->l2CacheSize = volta() ? 6 << 20 : 50 << 20;
  p->pciBusID = 0x1b + visible()[wanted];
  p->uuid.bytes[15] = static_cast<char>(visible()[wanted]);
  p->unifiedAddressing = p->concurrentKernels = p->canMapHostMemory = p->managedMemory = 1;
  p->maxBlocksPerMultiProcessor = 32;
  p->memoryBusWidth = volta() ? 4096 : 5120;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int wanted) {
  cudaDeviceProp p;
  if (auto error = cudaGetDeviceProperties(&p, wanted)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
    case cudaDevAttrClockRate: *value = volta() ? 1530000 : 1980000; break;
    case cudaDevAttrTextureAlignment: *value = 512; break;
    default: *value = 1;
  }
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int wanted) {
  snprintf(text, length, "0000:%02x:00.0", 0x1b + visible().at(wanted));
  return cudaSuccess;
}
static bool joined(int one, int other) { return one != other && setting("NULLCUDA_PEERS", 1) != 0; }
EXPORTED cudaError_t cudaDeviceCanAccessPeer(int* can, int one, int other) { *can = joined(one, other); return cudaSuccess; }
EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
  LOCKED;
  touch("cudaDeviceEnablePeerAccess");
  if (!joined(device, other)) return fail(cudaErrorPeerAccessUnsupported, "cudaDeviceEnablePeerAccess");
  return peers.insert({device, other}).second ? cudaSuccess : (last = cudaErrorPeerAccessAlreadyEnabled);
}
EXPORTED cudaError_t cudaDeviceDisablePeerAccess(int other) {
  LOCKED;
  return peers.erase({device, other}) ? cudaSuccess : (last = cudaErrorPeerAccessNotEnabled);
}
EXPORTED cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) { *least = 0; *most = -5; return cudaSuccess; }
EXPORTED cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
EXPORTED cudaError_t cudaRuntimeGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
EXPORTED cudaError_t cudaGetLastError() { auto error = last; last = cudaSuccess; return error; }
EXPORTED cudaError_t cudaPeekAtLastError() { return last; }
EXPORTED const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAMED(name) case name: return #name
    NAMED(cudaSuccess); NAMED(cudaErrorInvalidValue); NAMED(cudaErrorMemoryAllocation); NAMED(cudaErrorNoDevice);
    NAMED(cudaErrorInvalidDevice); NAMED(cudaErrorInvalidResourceHandle); NAMED(cudaErrorIllegalState);
    NAMED(cudaErrorNotReady); NAMED(cudaErrorIllegalAddress); NAMED(cudaErrorLaunchFailure);
    NAMED(cudaErrorPeerAccessUnsupported); NAMED(cudaErrorPeerAccessAlreadyEnabled);
    NAMED(cudaErrorPeerAccessNotEnabled); NAMED(cudaErrorStreamCaptureUnsupported);
    NAMED(cudaErrorStreamCaptureInvalidated); NAMED(cudaErrorStreamCaptureUnjoined);
    NAMED(cudaErrorStreamCaptureIsolation); NAMED(cudaErrorStreamCaptureImplicit); NAMED(cudaErrorCapturedEvent);
    NAMED(cudaErrorStreamCaptureWrongThread); NAMED(cudaErrorNoKernelImageForDevice); NAMED(cudaErrorNotSupported);
#undef NAMED
    default: return "an error of null CUDA";
  }
}
EXPORTED const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}
EXPORTED int null_has_context(int wanted) { return has_context(wanted); }
