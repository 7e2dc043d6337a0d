// Kernels: their names, how long each takes, and the faults that tests ask for.
//
// torch's operators come from operators.cpp (null_enqueue); a kernel that is launched all the same computes nothing,
// and NULLCUDA_UNCOMPUTED has its name written to stderr once. Only `spin_kernel` has none.
//
// A step is what a rank launches from one backward pass of its loss to the next.
#include "device.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace null {

namespace {

// Since the process began, and at the beginning of this step.
struct Counts {
  unsigned long long launches, synchronisations, copied[4];
};
Counts counts, before;
unsigned long long steps = 0;
// Of this step, each behind so many kernels: m: a message (its bytes), w: a stream that computes waits for one that sends.
std::string order;
unsigned long long messages = 0;

const char* rank() {
  const char* text = getenv("RANK");
  return text ? text : "0";
}

}  // namespace

// NULLCUDA_STEPS=FILE gets a line for each step that ends: of which rank, and what it launched, waited for and copied.
static void begin_step() {
  LOCKED;
  static const char* path = getenv("NULLCUDA_STEPS");
  if (path && steps)
    if (FILE* file = fopen(path, "a")) {
      auto since = [](unsigned long long now, unsigned long long then) { return now - then; };
      fprintf(file, "%s %llu %llu %llu %llu %llu %llu %s\n", rank(), steps, since(counts.launches, before.launches),
              since(counts.synchronisations, before.synchronisations), since(counts.copied[1], before.copied[1]),
              since(counts.copied[2], before.copied[2]), since(counts.copied[3], before.copied[3]), order.c_str());
      fclose(file);
    }
  steps++;
  before = counts;
  order = "-";
  messages = 0;
}
static void note(char what, size_t bytes = 0) {
  LOCKED;
  auto kernels = std::to_string(counts.launches - before.launches - messages);
  order += "," + std::string(1, what) + kernels + (bytes ? ":" + std::to_string(bytes) : "");
}

void count_launch() {
  {
    LOCKED;
    counts.launches++;
  }
  if (fault("crash")) raise(SIGSEGV);
  if (fault("hang")) for (;;) sleep(1000);
}
void count_synchronisation() { LOCKED; counts.synchronisations++; }
void count_copied(size_t bytes, int kind) { LOCKED; counts.copied[kind & 3] += bytes; }
void count_wait() { note('w'); }
static void count_message(cudaStream_t handle, size_t bytes) {
  LOCKED;
  stream_of(handle)->sends = handle != nullptr;
  note('m', bytes);
  messages++;
}

// NULLCUDA_FAULT=KIND:RANK:STEP[:LAUNCH]: from the rank's LAUNCH-th piece of work in its STEP-th step on; step 0 is all
// that it does before its first backward pass.
bool fault(const char* kind) {
  static const char* text = getenv("NULLCUDA_FAULT");
  if (!text) return false;
  static char wanted[32];
  static int of_rank;
  static unsigned long long at_step, at = 0;
  static bool read = sscanf(text, "%31[^:]:%d:%llu:%llu", wanted, &of_rank, &at_step, &at) >= 3;
  LOCKED;
  bool reached = steps > at_step || (steps == at_step && counts.launches - before.launches >= at);
  return read && !strcmp(wanted, kind) && atoi(rank()) == of_rank && reached;
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
// Of the driver's attributes, torch asks for one: 132, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, which NCCL's memory needs.
static int attribute(int* value, int asked, int) {
  *value = asked == 132;
  return 0;
}
EXPORTED cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                      cudaDriverEntryPointQueryResult* result) {
  *function = strcmp(name, "cuDeviceGetAttribute") ? reinterpret_cast<void*>(nothing) : reinterpret_cast<void*>(attribute);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// ---- what operators.cpp and nccl.cpp call ----------------------------------------------------------------------------

// An operator; what it does was done, `work` does it again when a graph that holds it is launched.
EXPORTED int null_enqueue(void* handle, const char* what, void (*work)(void*), void* argument, const Access* touched, int count) {
  auto stream = static_cast<cudaStream_t>(handle);
  if (!strcmp(what, "aten::nll_loss_backward")) begin_step();
  count_launch();
  Work again = work && capturing(stream) ? Work([=] { work(argument); }) : Work();
  return enqueue(stream, kernel_s(), what, again, {touched, touched + count});
}
// A kernel whose work is done here: a copy that changes types or the order in memory.
EXPORTED int null_copy_kernel(void* stream, const char* what, void (*work)(void*), void* argument, const Access* touched,
                              int count) {
  count_launch();
  return enqueue(static_cast<cudaStream_t>(stream), kernel_s(), what, [=] { work(argument); }, {touched, touched + count});
}
EXPORTED unsigned long long null_launches() { LOCKED; return counts.launches; }
EXPORTED unsigned long long null_synchronisations() { LOCKED; return counts.synchronisations; }
// Bytes that were copied: 1: host to device, 2: device to host, 3: device to device.
EXPORTED unsigned long long null_copied_bytes(int kind) { LOCKED; return counts.copied[kind & 3]; }
EXPORTED int null_fault(const char* kind) { return fault(kind); }
// A message of NCCL, which may wait for other ranks: `message` is called at each launch, what it returns where the
// stream comes to it, without the lock.
EXPORTED int null_message(void* handle, const char* what, const std::function<Task()>& message,
                          const std::vector<Access>& accesses) {
  count_message(static_cast<cudaStream_t>(handle), accesses[0].bytes);
  count_launch();
  return put(static_cast<cudaStream_t>(handle), what, How::waiting, {nullptr, nullptr, message, accesses});
}
