// The machine that the null CUDA plays: streams and events on a virtual time line, captures, memory, and who used it.
#pragma once
#define __CUDA_RUNTIME_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>
#include <pthread.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace null {

using Work = std::function<void()>;

// Bytes that one piece of work reads or writes.
struct Access {
  const void* start;
  size_t bytes;
  bool writes;
};

struct Stream;

// What a capture holds; launching it does the work again, in the order of the capture.
struct Graph {
  struct Node {
    double seconds;
    Work work;
    std::vector<Access> accesses;
  };
  std::vector<Node> nodes;
  Stream* origin = nullptr;
  std::set<Stream*> forked, unjoined;
  bool invalid = false, open = true;
  unsigned long long id = 0;
  // By stream: when its work ends, in seconds after the graph's start; the longest of them is what a launch takes.
  std::map<Stream*, double> ends;
};

// How far each stream (and the host: nullptr) had come, by number of its pieces of work, when something began.
using Clock = std::map<const Stream*, unsigned long long>;

struct Stream {
  int device;
  int priority = 0;
  bool blocking = true;  // with the default stream
  double ready = 0;      // when all that it was given has ended
  unsigned long long works = 0;
  Clock knows;
  Graph* capture = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  pthread_t by = 0;
};

struct Event {
  int device;
  bool timed;
  Stream* recorded = nullptr;
  double at = 0;
  Clock knows;
  Graph* capture = nullptr;
};

extern std::recursive_mutex state;
#define LOCKED std::lock_guard<std::recursive_mutex> locked(null::state)

double now();                     // seconds of the clock that all processes of this machine share
void sleep_until(double time);
double setting(const char* name, double otherwise);  // of the environment
int devices();
extern thread_local int device;   // the calling thread's
bool has_context(int device);
void touch(const char* by);       // the current device has a context from now on

cudaError_t fail(cudaError_t error, const char* what);  // says so on stderr, too
Stream* stream_of(cudaStream_t handle);
const std::set<Stream*>& all_streams();
bool capturing(cudaStream_t handle);
cudaError_t forbidden_in_capture(const char* what);  // by the mode of this thread and of captures that go on
void forget_races(const void* start, size_t bytes);  // memory that was freed
void know(Clock& mine, const Clock& other);
void host_knows(Stream* stream);                     // the host has waited for it
Clock& host();
void check_races(Stream* stream, const std::vector<Access>& accesses, const char* what);

// Work of `seconds` behind all that the stream was given; what it does to memory is done at once (docs: README.md).
cudaError_t enqueue(cudaStream_t handle, double seconds, const char* what, const Work& work,
                    const std::vector<Access>& accesses = {});
// The same that ends when all ranks' messages have come: at `ends`, if later.
void delay(cudaStream_t handle, double ends);

// A fault that tests ask for: NULLCUDA_FAULT=KIND:RANK:LAUNCH, from this launch on.
bool fault(const char* kind);
void count_launch();

}  // namespace null
