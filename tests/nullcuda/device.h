// The machine that the null CUDA plays: streams and events on a virtual time line, captures, memory, and who used it.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define __CUDA_RUNTIME_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>
#include <pthread.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace null {

using Work = std::function<void()>;
// What a stream does when it comes to it: told when it may begin, it returns when that ends. May wait for other ranks.
using Task = std::function<double(double)>;

// Bytes that one piece of work reads or writes.
struct Access {
  const void* start;
  size_t bytes;
  bool writes;
};

// When a stream came to an event: not known while it is behind a message to which another rank has not come.
struct Moment {
  bool known = false;
  double at = 0;
};
using MomentOfEvent = std::shared_ptr<Moment>;

struct Stream;

// What a capture holds; launching it does the work again, in the order of the capture.
struct Graph {
  struct Node {
    Stream* stream;
    Task task;
    std::function<Task()> message;  // or this: called at each launch, whose message it then is
    std::vector<Access> accesses;
  };
  std::vector<Node> nodes;
  Stream* origin = nullptr;
  std::set<Stream*> forked, unjoined;
  bool invalid = false, open = true;
  unsigned long long id = 0;
};

// How far each stream (and the host: nullptr) had come, by number of its pieces of work, when something began.
using Clock = std::map<const Stream*, unsigned long long>;

struct Stream {
  int device;
  int priority = 0;
  bool blocking = true;  // with the default stream
  bool sends = false;    // NCCL's
  double ready = 0;      // when all that it has come to has ended
  // What it has not come to, as that is behind a message of several ranks, and when the host launched it. A thread of
  // the stream's own does it (streams.cpp).
  std::deque<std::pair<Task, double>> later;
  bool served = false;
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
  MomentOfEvent moment;
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

// How work goes to a stream: `now`: its values are needed, and the host waits until the stream has come to it;
// `behind`: its time alone, behind all that the stream was given; `waiting`: it waits for other ranks itself.
enum class How { now, behind, waiting };
cudaError_t put(cudaStream_t handle, const char* what, How how, const Graph::Node& work);
// Work of `seconds`; what it does to memory is done at once (README.md).
cudaError_t enqueue(cudaStream_t handle, double seconds, const char* what, const Work& work,
                    const std::vector<Access>& accesses = {});
void settle(cudaStream_t handle);  // the host waits until the stream has come to all that it was given
void settle_all();

bool fault(const char* kind);  // that tests ask for (README.md)
void count_launch();
void count_synchronisation();
void count_copied(size_t bytes, int kind);  // a cudaMemcpyKind
void count_wait();                          // of a stream that computes, for NCCL's

}  // namespace null
