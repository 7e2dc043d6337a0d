// Streams and events: a virtual time line on the host's clock, and who waits for whom.
//
// The host's call orders (vector clocks, races); times follow when the stream comes to it. That is in the call itself,
// unless the stream is behind a message that another rank has not come to: then a thread of the stream's own does in
// order what is behind it, as the host goes on.
#include "device.h"

#include <algorithm>

namespace null {

static std::set<Stream*> streams;
static std::map<int, Stream*> defaults;

const std::set<Stream*>& all_streams() { return streams; }

Stream* stream_of(cudaStream_t handle) {
  LOCKED;
  if (handle && handle != cudaStreamLegacy && handle != cudaStreamPerThread) return reinterpret_cast<Stream*>(handle);
  auto& one = defaults[device];
  if (!one) streams.insert(one = new Stream{device});
  return one;
}

static bool is_default(Stream* stream) {
  auto found = defaults.find(stream->device);
  return found != defaults.end() && found->second == stream;
}

bool capturing(cudaStream_t handle) { LOCKED; return stream_of(handle)->capture != nullptr; }

// Something that somebody may wait for has changed. Never destroyed: threads wait while the process ends.
static auto& changed = *new std::condition_variable_any;

static void serve(Stream* stream) {
  device = stream->device;
  std::unique_lock<std::recursive_mutex> lock(state);
  for (;;) {
    changed.wait(lock, [&] { return !stream->later.empty(); });
    auto [task, launched] = stream->later.front();
    double begin = std::max(stream->ready, launched);
    lock.unlock();
    double end = task(begin);
    lock.lock();
    stream->ready = end;
    stream->later.pop_front();
    changed.notify_all();
  }
}

// Gives a stream what it does now if it has come to all before; `waits`: for other ranks, and so without the lock.
static void give(Stream* stream, const Task& task, bool waits = false) {
  LOCKED;
  if (stream->later.empty() && !waits) {
    stream->ready = task(std::max(stream->ready, now()));
    return;
  }
  stream->later.push_back({task, now()});
  if (!stream->served) std::thread(serve, stream).detach();
  stream->served = true;
  changed.notify_all();
}

static Task recorded(const MomentOfEvent& moment) {
  return [=](double begin) {
    LOCKED;
    *moment = {true, begin};
    changed.notify_all();
    return begin;
  };
}
static Task waited(const MomentOfEvent& moment) {
  return [=](double begin) {
    std::unique_lock<std::recursive_mutex> lock(state);
    changed.wait(lock, [&] { return moment->known; });
    return std::max(begin, moment->at);
  };
}

// All that the stream is given from now on begins when the other has ended what it was given so far.
static void order(Stream* stream, Stream* behind) {
  know(stream->knows, behind->knows);
  if (behind->later.empty()) {
    stream->ready = std::max(stream->ready, behind->ready);
    return;
  }
  auto moment = std::make_shared<Moment>();
  give(behind, recorded(moment));
  give(stream, waited(moment), true);
}

cudaError_t put(cudaStream_t handle, const char* what, How how, const Graph::Node& work) {
  std::unique_lock<std::recursive_mutex> lock(state);
  Stream* stream = stream_of(handle);
  if (stream->device != device) return fail(cudaErrorInvalidResourceHandle, what);
  touch(what);
  if (is_default(stream))
    for (auto* other : streams)
      if (other->capture && other->blocking && other->device == device) {
        other->capture->invalid = true;
        return fail(cudaErrorStreamCaptureImplicit, what);
      }
  if (auto* graph = stream->capture) {
    graph->nodes.push_back(work);
    graph->nodes.back().stream = stream;
    return cudaSuccess;
  }
  // The default stream and the blocking ones wait for each other.
  for (auto* other : streams)
    if (other != stream && other->device == device && other->blocking && stream->blocking &&
        (is_default(other) || is_default(stream)))
      order(stream, other);
  if (how == How::now) changed.wait(lock, [&] { return stream->later.empty(); });
  know(stream->knows, host());
  stream->knows[stream] = ++stream->works;
  check_races(stream, work.accesses, what);
  give(stream, work.message ? work.message() : work.task, how == How::waiting);
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t handle, double seconds, const char* what, const Work& work,
                    const std::vector<Access>& accesses) {
  auto task = [=](double begin) {
    if (work) work();
    return begin + seconds;
  };
  return put(handle, what, work ? How::now : How::behind, {nullptr, task, nullptr, accesses});
}

static void settle(Stream* stream, std::unique_lock<std::recursive_mutex>& lock) {
  changed.wait(lock, [&] { return stream->later.empty(); });
}
void settle(cudaStream_t handle) {
  std::unique_lock<std::recursive_mutex> lock(state);
  settle(stream_of(handle), lock);
}
void settle_all() {
  std::unique_lock<std::recursive_mutex> lock(state);
  changed.wait(lock, [] {
    return std::all_of(streams.begin(), streams.end(), [](Stream* s) { return s->later.empty() || s->device != device; });
  });
}

}  // namespace null

using namespace null;

EXPORTED cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  LOCKED;
  touch("cudaStreamCreate");
  auto* stream = new Stream{device};
  stream->priority = priority;
  stream->blocking = !(flags & cudaStreamNonBlocking);
  streams.insert(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamCreate(cudaStream_t* handle) { return cudaStreamCreateWithPriority(handle, 0, 0); }
EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) { return cudaStreamCreateWithPriority(handle, flags, 0); }
EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
EXPORTED cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) { *priority = stream_of(handle)->priority; return cudaSuccess; }

static cudaError_t invalidate(Graph* graph, cudaError_t error, const char* what) {
  graph->invalid = true;
  return fail(error, what);
}

EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  double until;
  {
    std::unique_lock<std::recursive_mutex> lock(state);
    Stream* stream = stream_of(handle);
    if (stream->capture) return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize");
    if (auto error = forbidden_in_capture("cudaStreamSynchronize")) return error;
    count_synchronisation();
    settle(stream, lock);
    until = stream->ready;
    host_knows(stream);
  }
  sleep_until(until);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceSynchronize() {
  double until = 0;
  {
    std::unique_lock<std::recursive_mutex> lock(state);
    touch("cudaDeviceSynchronize");
    if (auto error = forbidden_in_capture("cudaDeviceSynchronize")) return error;
    count_synchronisation();
    auto all = streams;
    for (auto* stream : all)
      if (stream->device == device) {
        settle(stream, lock);
        until = std::max(until, stream->ready);
        host_knows(stream);
      }
  }
  sleep_until(until);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamQuery(cudaStream_t handle) {
  LOCKED;
  Stream* stream = stream_of(handle);
  if (stream->capture) return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported, "cudaStreamQuery");
  if (!stream->later.empty() || stream->ready > now()) return cudaErrorNotReady;
  host_knows(stream);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t call, void* argument, unsigned) {
  if (auto error = cudaStreamSynchronize(handle)) return error;
  call(handle, cudaSuccess, argument);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t call, void* argument) {
  return enqueue(handle, 0, "cudaLaunchHostFunc", [=] { call(argument); });
}

// ---- events ----------------------------------------------------------------------------------------------------------

static Event* event_of(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }
static bool happened(Event* event) { return !event->moment || (event->moment->known && event->moment->at <= now()); }

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  touch("cudaEventCreate");
  *handle = reinterpret_cast<cudaEvent_t>(new Event{device, !(flags & cudaEventDisableTiming)});
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventCreate(cudaEvent_t* handle) { return cudaEventCreateWithFlags(handle, 0); }
EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t handle) { delete event_of(handle); return cudaSuccess; }
EXPORTED cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t on, unsigned) {
  LOCKED;
  Stream* stream = stream_of(on);
  Event* event = event_of(handle);
  if (stream->device != event->device)
    return fail(cudaErrorInvalidResourceHandle, "cudaEventRecord on a stream of another device");
  event->recorded = stream;
  event->capture = stream->capture;
  event->moment = std::make_shared<Moment>();
  event->knows = stream->knows;
  if (stream->capture) stream->capture->nodes.push_back({stream, recorded(event->moment), nullptr, {}});
  else give(stream, recorded(event->moment));
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) { return cudaEventRecordWithFlags(handle, on, 0); }

static cudaError_t asked(Event* event, const char* what) {
  if (event->capture) {
    if (event->capture->open) return invalidate(event->capture, cudaErrorCapturedEvent, what);
    return fail(cudaErrorCapturedEvent, what);
  }
  return forbidden_in_capture(what);
}
EXPORTED cudaError_t cudaEventQuery(cudaEvent_t handle) {
  LOCKED;
  Event* event = event_of(handle);
  if (auto error = asked(event, "cudaEventQuery")) return error;
  if (!happened(event)) return cudaErrorNotReady;
  know(host(), event->knows);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  double until = 0;
  {
    std::unique_lock<std::recursive_mutex> lock(state);
    Event* event = event_of(handle);
    if (auto error = asked(event, "cudaEventSynchronize")) return error;
    count_synchronisation();
    know(host(), event->knows);
    if (auto moment = event->moment) {
      changed.wait(lock, [&] { return moment->known; });
      until = moment->at;
    }
  }
  sleep_until(until);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  LOCKED;
  Event *start = event_of(from), *end = event_of(to);
  if (!start->timed || !end->timed || !start->recorded || !end->recorded || start->device != end->device)
    return fail(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime");
  if (!happened(start) || !happened(end)) return fail(cudaErrorNotReady, "cudaEventElapsedTime");
  *ms = static_cast<float>((end->moment->at - start->moment->at) * 1e3);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t on, unsigned) {
  LOCKED;
  Stream* stream = stream_of(handle);
  Event* event = event_of(on);
  if (!event->recorded) return cudaSuccess;
  if (auto* graph = event->capture) {
    if (!graph->open) return fail(cudaErrorCapturedEvent, "cudaStreamWaitEvent");
    if (stream->capture && stream->capture != graph)
      return invalidate(graph, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent");
    if (!stream->capture) {  // it joins the capture
      stream->capture = graph;
      stream->mode = graph->origin->mode;
      stream->by = graph->origin->by;
      graph->forked.insert(stream);
    }
    graph->nodes.push_back({stream, waited(event->moment), nullptr, {}});
    if (stream != graph->origin) graph->unjoined.insert(stream);
    if (event->recorded != stream) graph->unjoined.erase(event->recorded);
    return cudaSuccess;
  }
  if (stream->capture) return invalidate(stream->capture, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent");
  know(stream->knows, event->knows);
  if (event->recorded->sends && !stream->sends) count_wait();
  give(stream, waited(event->moment), !event->moment->known);
  return cudaSuccess;
}

// ---- what operators.cpp and nccl.cpp call, and tests ---------------------------------------------------------------------

EXPORTED int null_synchronize(void* handle) { return cudaStreamSynchronize(static_cast<cudaStream_t>(handle)); }
EXPORTED int null_capturing(void* handle) { return capturing(static_cast<cudaStream_t>(handle)); }
EXPORTED void null_settle(void* handle) { settle(static_cast<cudaStream_t>(handle)); }
