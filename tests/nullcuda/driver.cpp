// Of the driver's library, what torch asks it outside the runtime, and what Triton does, which compiles the kernels of
// torch.compile: they are compiled for the GPU that is played, loaded and launched, and compute nothing.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))
enum Result { SUCCESS = 0, INVALID_VALUE = 1 };

// Of libcudart's part of the null device: see device.h.
struct Access;
EXPORTED int null_has_context(int device);
EXPORTED int null_enqueue(void*, const char*, void (*)(void*), void*, const Access*, int);
EXPORTED int cudaGetDeviceCount(int*);
EXPORTED int cudaGetDevice(int*);
EXPORTED int cudaSetDevice(int);
EXPORTED int cudaDeviceGetAttribute(int*, int, int);  // whose numbers are the driver's
EXPORTED int cudaRuntimeGetVersion(int*);
EXPORTED int cudaStreamIsCapturing(void*, int*);

// ---- devices and contexts: that of device 2 is "3" --------------------------------------------------------------------

static void* context_of(int device) { return reinterpret_cast<void*>(device + 1L); }

EXPORTED int cuInit(unsigned) { return SUCCESS; }
EXPORTED int cuDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
EXPORTED int cuDeviceGetCount(int* count) { return cudaGetDeviceCount(count); }
EXPORTED int cuDeviceGet(int* device, int number) { *device = number; return SUCCESS; }
EXPORTED int cuDeviceGetAttribute(int* value, int asked, int device) { return cudaDeviceGetAttribute(value, asked, device); }
EXPORTED int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = null_has_context(device);
  return SUCCESS;
}
EXPORTED int cuDevicePrimaryCtxRetain(void** context, int device) { *context = context_of(device); return SUCCESS; }
EXPORTED int cuCtxSetCurrent(void* context) { return cudaSetDevice(static_cast<int>(reinterpret_cast<long>(context)) - 1); }
EXPORTED int cuCtxGetDevice(int* device) { return cudaGetDevice(device); }
EXPORTED int cuCtxGetCurrent(void** context) {
  int device;
  cudaGetDevice(&device);
  *context = null_has_context(device) ? context_of(device) : nullptr;
  return SUCCESS;
}
EXPORTED int cuCtxGetLimit(size_t* value, int) { *value = 1 << 20; return SUCCESS; }
EXPORTED int cuCtxSetLimit(int, size_t) { return SUCCESS; }
EXPORTED int cuGetErrorString(int, const char** text) {
  *text = "an error of null CUDA";
  return SUCCESS;
}

// ---- modules and kernels: each is its name ----------------------------------------------------------------------------

EXPORTED int cuModuleLoad(void** made, const char*) { *made = context_of(0); return SUCCESS; }
EXPORTED int cuModuleLoadData(void** made, const void*) { return cuModuleLoad(made, nullptr); }
EXPORTED int cuModuleUnload(void*) { return SUCCESS; }
EXPORTED int cuModuleGetFunction(const char** function, void*, const char* name) {
  static std::set<std::string> names;
  *function = names.insert(name).first->c_str();
  return SUCCESS;
}
EXPORTED int cuFuncGetAttribute(int* value, int asked, void*) {
  *value = asked == 0 ? 1024 : asked == 4 ? 32 : 0;  // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, NUM_REGS; nothing spills
  return SUCCESS;
}
EXPORTED int cuFuncSetAttribute(void*, int, int) { return SUCCESS; }
EXPORTED int cuFuncSetCacheConfig(void*, int) { return SUCCESS; }
EXPORTED int cuPointerGetAttribute(void* value, int, unsigned long long pointer) {
  memcpy(value, &pointer, sizeof pointer);  // CU_POINTER_ATTRIBUTE_DEVICE_POINTER
  return SUCCESS;
}
EXPORTED int cuStreamIsCapturing(void* stream, int* status) { return cudaStreamIsCapturing(stream, status); }

EXPORTED int cuLaunchKernel(const char* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            void* stream, void**, void**) {
  return null_enqueue(stream, function, nullptr, nullptr, nullptr, 0);
}
struct LaunchConfig {  // CUlaunchConfig of CUDA 13
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
};
EXPORTED int cuLaunchKernelEx(const LaunchConfig* config, const char* function, void**, void**) {
  return null_enqueue(config->stream, function, nullptr, nullptr, nullptr, 0);
}
