// Memory of the device, which is the host's, and copies.
#include "device.h"

#include <cstring>
#include <execinfo.h>
#include <sys/mman.h>

using namespace null;

namespace {

enum { pinned = -1, registered = -2 };
struct Block {
  size_t bytes;
  int device;
};
std::map<const char*, Block> blocks;
std::map<int, size_t> used;
const size_t of_context = 500 << 20;  // what a context takes of a device

size_t total() {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  return p.totalGlobalMem;
}

cudaError_t take(void** start, size_t bytes, int where) {
  LOCKED;
  *start = nullptr;
  if (where >= 0) {
    touch("cudaMalloc");
    if (fault("oom") || used[where] + bytes + of_context > total())
      return fail(cudaErrorMemoryAllocation, "cudaMalloc");
  }
  size_t mapped = bytes ? bytes : 1;
  void* made = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return fail(cudaErrorMemoryAllocation, "mmap");
  if (where >= 0) used[where] += mapped;
  blocks[static_cast<char*>(made)] = {mapped, where};
  *start = made;
  return cudaSuccess;
}

cudaError_t give_back(void* start) {
  LOCKED;
  if (!start) return cudaSuccess;
  auto found = blocks.find(static_cast<char*>(start));
  if (found == blocks.end()) return fail(cudaErrorInvalidValue, "free of what was not allocated");
  if (found->second.device >= 0) used[found->second.device] -= found->second.bytes;
  forget_races(start, found->second.bytes);
  munmap(start, found->second.bytes);
  blocks.erase(found);
  return cudaSuccess;
}

const Block* block_of(const void* at) {
  auto next = blocks.upper_bound(static_cast<const char*>(at));
  if (next == blocks.begin()) return nullptr;
  --next;
  return static_cast<const char*>(at) < next->first + next->second.bytes ? &next->second : nullptr;
}

bool on_device(const void* at) {
  LOCKED;
  auto* block = block_of(at);
  return block && block->device >= 0;
}

double seconds(size_t bytes, bool with_host) {
  return 2e-6 + bytes / (with_host ? setting("NULLCUDA_HOST_GBPS", 50) : setting("NULLCUDA_MEMORY_GBPS", 2000)) / 1e9;
}

std::vector<Access> accesses(void* to, const void* from, size_t bytes) {
  std::vector<Access> found;
  if (on_device(from)) found.push_back({from, bytes, false});
  if (on_device(to)) found.push_back({to, bytes, true});
  return found;
}

}  // namespace

// While it lives, the thread drives the device of a stream: a copy may go to one of another device than the current one
// (CUDA C++ Programming Guide, "Stream and Event Behavior").
struct OnDeviceOf {
  int before = device;
  explicit OnDeviceOf(cudaStream_t stream) { if (stream) device = stream_of(stream)->device; }
  ~OnDeviceOf() { device = before; }
};

EXPORTED cudaError_t cudaMalloc(void** start, size_t bytes) {
  if (auto error = forbidden_in_capture("cudaMalloc")) return error;
  return take(start, bytes, device);
}
EXPORTED cudaError_t cudaMallocAsync(void** start, size_t bytes, cudaStream_t) { return take(start, bytes, device); }
EXPORTED cudaError_t cudaMallocManaged(void** start, size_t bytes, unsigned) { return take(start, bytes, device); }
EXPORTED cudaError_t cudaFree(void* start) {
  if (start)
    if (auto error = forbidden_in_capture("cudaFree")) return error;
  settle_all();
  return give_back(start);
}
EXPORTED cudaError_t cudaFreeAsync(void* start, cudaStream_t) { return give_back(start); }
EXPORTED cudaError_t cudaHostAlloc(void** start, size_t bytes, unsigned) { return take(start, bytes, pinned); }
EXPORTED cudaError_t cudaMallocHost(void** start, size_t bytes) { return take(start, bytes, pinned); }
EXPORTED cudaError_t cudaFreeHost(void* start) { return give_back(start); }
EXPORTED cudaError_t cudaHostRegister(void* start, size_t bytes, unsigned) {
  LOCKED;
  blocks[static_cast<char*>(start)] = {bytes, registered};
  return cudaSuccess;
}
EXPORTED cudaError_t cudaHostUnregister(void* start) {
  LOCKED;
  return blocks.erase(static_cast<char*>(start)) ? cudaSuccess : fail(cudaErrorInvalidValue, "cudaHostUnregister");
}
EXPORTED cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  LOCKED;
  touch("cudaMemGetInfo");
  *all = total();
  *free = *all - of_context - used[device];
  return cudaSuccess;
}
EXPORTED cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* at) {
  LOCKED;
  memset(a, 0, sizeof *a);
  a->type = cudaMemoryTypeUnregistered;
  a->device = -1;
  if (auto* block = block_of(at)) {
    a->type = block->device >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    a->device = block->device >= 0 ? block->device : 0;
    a->devicePointer = a->hostPointer = const_cast<void*>(at);
  }
  return cudaSuccess;
}

EXPORTED cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  int kind = !on_device(from) ? cudaMemcpyHostToDevice : on_device(to) ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  count_copied(bytes, kind);
  OnDeviceOf of(stream);
  return enqueue(stream, seconds(bytes, kind != cudaMemcpyDeviceToDevice), "cudaMemcpyAsync",
                 [=] { memmove(to, from, bytes); }, accesses(to, from, bytes));
}
EXPORTED cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (auto error = forbidden_in_capture("cudaMemcpy")) return error;
  if (auto error = cudaMemcpyAsync(to, from, bytes, kind, nullptr)) return error;
  return cudaStreamSynchronize(nullptr);
}
EXPORTED cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
EXPORTED cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                       size_t height, cudaMemcpyKind, cudaStream_t stream) {
  count_copied(width * height, cudaMemcpyDeviceToDevice);
  return enqueue(stream, seconds(width * height, !on_device(to) || !on_device(from)), "cudaMemcpy2DAsync", [=] {
    for (size_t row = 0; row < height; row++)
      memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  });
}
EXPORTED cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return enqueue(stream, seconds(bytes, false), "cudaMemsetAsync", [=] { memset(at, value, bytes); }, {{at, bytes, true}});
}
EXPORTED cudaError_t cudaMemset(void* at, int value, size_t bytes) { return cudaMemsetAsync(at, value, bytes, nullptr); }
EXPORTED cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }
EXPORTED cudaError_t cudaGetSymbolAddress(void** start, const void*) {
  static char symbols[1 << 16];
  *start = symbols;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  static int one;
  *pool = reinterpret_cast<cudaMemPool_t>(&one);
  return cudaSuccess;
}

// ---- what operators.cpp and nccl.cpp call ----------------------------------------------------------------------------

EXPORTED int null_copy_seconds(void* stream, const char* what, void (*work)(void*), void* argument, const Access* touched,
                               int count_of, size_t bytes, int kind) {
  count_copied(bytes, kind);
  return enqueue(static_cast<cudaStream_t>(stream), seconds(bytes, kind != cudaMemcpyDeviceToDevice), what,
                 [=] { work(argument); }, {touched, touched + count_of});
}
