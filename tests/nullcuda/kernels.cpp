// Kernels: their names, how long each takes, and the faults that tests ask for.
//
// torch's operators come from operators.cpp (null_enqueue); a kernel that is launched all the same computes nothing,
// and its name is written to stderr once, so that nobody takes its result for one. Only `spin_kernel` has none.
#include "device.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace null {

static unsigned long long launches = 0;

void count_launch() {
  {
    LOCKED;
    launches++;
  }
  if (fault("crash")) raise(SIGSEGV);
  if (fault("hang")) for (;;) sleep(1000);
}

// NULLCUDA_FAULT=KIND:RANK:LAUNCH: from the rank's LAUNCH-th piece of work on.
bool fault(const char* kind) {
  static const char* text = getenv("NULLCUDA_FAULT");
  if (!text) return false;
  static char wanted[32];
  static int of_rank;
  static unsigned long long at;
  static bool read = sscanf(text, "%31[^:]:%d:%llu", wanted, &of_rank, &at) == 3;
  const char* rank = getenv("RANK");
  LOCKED;
  return read && !strcmp(wanted, kind) && atoi(rank ? rank : "0") == of_rank && launches >= at;
}

static double kernel_s() {
  static double described = setting("NULLCUDA_KERNEL_US", 5) * 1e-6;
  return fault("slow") ? 10 * described : described;
}

}  // namespace null

using namespace null;

static std::map<const void*, std::string> names;

static cudaError_t launch(const void* function, void** arguments, cudaStream_t stream) {
  count_launch();
  std::string name;
  {
    LOCKED;
    name = names[function];
    static std::set<std::string> told;
    if (name.find("spin_kernel") == std::string::npos && told.insert(name).second && getenv("NULLCUDA_UNCOMPUTED"))
      fprintf(stderr, "null CUDA: computes nothing: %s\n", name.c_str());
  }
  double seconds = kernel_s();
  // torch.cuda._sleep counts cycles of a clock; torch's tests take the device's, and so does this.
  if (name.find("spin_kernel") != std::string::npos) seconds = *static_cast<int64_t*>(arguments[0]) / 1.98e9;
  return enqueue(stream, seconds, name.c_str(), nullptr);
}

EXPORTED void** __cudaRegisterFatBinary(void*) { static void* handles[8]; return handles; }
EXPORTED void __cudaRegisterFatBinaryEnd(void**) {}
EXPORTED void __cudaUnregisterFatBinary(void**) {}
EXPORTED void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, void*, void*, void*, void*, int*) {
  LOCKED;
  names[function] = name;
}
EXPORTED void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
static thread_local std::vector<Configuration> configurations;
EXPORTED unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
EXPORTED cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto one = configurations.back();
  configurations.pop_back();
  *grid = one.grid;
  *block = one.block;
  *shared = one.shared;
  *static_cast<cudaStream_t*>(stream) = one.stream;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaLaunchKernel(const void* f, dim3, dim3, void** a, size_t, cudaStream_t s) { return launch(f, a, s); }
EXPORTED cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
EXPORTED cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3, dim3, void** a, size_t, cudaStream_t s) { return launch(k, a, s); }
EXPORTED cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3, dim3, void** a, size_t, cudaStream_t s) { return launch(f, a, s); }
EXPORTED cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** a) { return launch(f, a, c->stream); }
EXPORTED cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->binaryVersion = a->ptxVersion = 90;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) { *blocks = 2; return cudaSuccess; }
EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t, unsigned) { *blocks = 2; return cudaSuccess; }

static long nothing() { return 0; }
EXPORTED cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                                      cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(nothing);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// ---- what operators.cpp and nccl.cpp call ----------------------------------------------------------------------------

// An operator; what it does was done, `work` does it again when a graph that holds it is launched.
EXPORTED int null_enqueue(void* handle, const char* what, void (*work)(void*), void* argument, const Access* touched, int count) {
  count_launch();
  auto stream = static_cast<cudaStream_t>(handle);
  Work again = work && capturing(stream) ? Work([=] { work(argument); }) : Work();
  return enqueue(stream, kernel_s(), what, again, {touched, touched + count});
}
EXPORTED unsigned long long null_launches() { LOCKED; return launches; }
EXPORTED int null_fault(const char* kind) { return fault(kind); }
// A message of NCCL: how long it takes is null_delay's, which `work` calls. It waits for other ranks, and so without the
// lock: torch's watchdog asks for events meanwhile.
EXPORTED int null_message(void* handle, const char* what, void (*work)(void*), void* argument, const void* from, size_t read,
                          const void* to, size_t written) {
  count_launch();
  auto stream = static_cast<cudaStream_t>(handle);
  bool captured = capturing(stream);
  auto error = enqueue(stream, 0, what, captured ? Work([=] { work(argument); }) : Work(),
                       {{from, read, false}, {to, written, true}});
  if (!error && !captured) work(argument);
  return error;
}
