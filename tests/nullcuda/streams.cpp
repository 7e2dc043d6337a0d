// Streams and events: a virtual time line on the host's clock, and who waits for whom.
#include "device.h"

#include <algorithm>

namespace null {

static std::set<Stream*> streams;
static std::map<int, Stream*> defaults;
static unsigned long long synchronisations = 0;

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

cudaError_t enqueue(cudaStream_t handle, double seconds, const char* what, const Work& work,
                    const std::vector<Access>& accesses) {
  LOCKED;
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
    graph->nodes.push_back({seconds, work, accesses});
    graph->ends[stream] += seconds;
    return cudaSuccess;
  }
  // The default stream and the blocking ones wait for each other.
  for (auto* other : streams)
    if (other != stream && other->device == device && other->blocking && stream->blocking &&
        (is_default(other) || is_default(stream))) {
      stream->ready = std::max(stream->ready, other->ready);
      know(stream->knows, other->knows);
    }
  know(stream->knows, host());
  stream->knows[stream] = ++stream->works;
  check_races(stream, accesses, what);
  stream->ready = std::max(stream->ready, now()) + seconds;
  if (work) work();
  return cudaSuccess;
}

void delay(cudaStream_t handle, double ends) {
  LOCKED;
  Stream* stream = stream_of(handle);
  stream->ready = std::max(stream->ready, ends);
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
  Stream* stream;
  double until;
  {
    LOCKED;
    stream = stream_of(handle);
    if (stream->capture) return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize");
    if (auto error = forbidden_in_capture("cudaStreamSynchronize")) return error;
    synchronisations++;
    until = stream->ready;
    host_knows(stream);
  }
  sleep_until(until);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceSynchronize() {
  double until = 0;
  {
    LOCKED;
    touch("cudaDeviceSynchronize");
    if (auto error = forbidden_in_capture("cudaDeviceSynchronize")) return error;
    synchronisations++;
    for (auto* stream : streams)
      if (stream->device == device) {
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
  if (stream->ready > now()) return cudaErrorNotReady;
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
  if (stream->capture) {
    event->at = stream->capture->ends[stream];
    return cudaSuccess;
  }
  event->at = std::max(stream->ready, now());
  event->knows = stream->knows;
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
  if (event->at > now()) return cudaErrorNotReady;
  know(host(), event->knows);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  double until;
  {
    LOCKED;
    Event* event = event_of(handle);
    if (auto error = asked(event, "cudaEventSynchronize")) return error;
    synchronisations++;
    until = event->at;
    know(host(), event->knows);
  }
  sleep_until(until);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  LOCKED;
  Event *start = event_of(from), *end = event_of(to);
  if (!start->timed || !end->timed || !start->recorded || !end->recorded || start->device != end->device)
    return fail(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime");
  if (start->at > now() || end->at > now()) return fail(cudaErrorNotReady, "cudaEventElapsedTime");
  *ms = static_cast<float>((end->at - start->at) * 1e3);
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
      graph->ends[stream] = 0;
    }
    graph->ends[stream] = std::max(graph->ends[stream], event->at);
    if (stream != graph->origin) graph->unjoined.insert(stream);
    if (event->recorded != stream) graph->unjoined.erase(event->recorded);
    return cudaSuccess;
  }
  if (stream->capture) return invalidate(stream->capture, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent");
  stream->ready = std::max(stream->ready, event->at);
  know(stream->knows, event->knows);
  return cudaSuccess;
}

// ---- what operators.cpp and nccl.cpp call, and tests ---------------------------------------------------------------------

EXPORTED int null_synchronize(void* handle) { return cudaStreamSynchronize(static_cast<cudaStream_t>(handle)); }
EXPORTED int null_capturing(void* handle) { return capturing(static_cast<cudaStream_t>(handle)); }
EXPORTED double null_ready(void* handle) { LOCKED; return std::max(stream_of(static_cast<cudaStream_t>(handle))->ready, now()); }
EXPORTED void null_delay(void* handle, double ends) { delay(static_cast<cudaStream_t>(handle), ends); }
EXPORTED unsigned long long null_synchronisations() { LOCKED; return synchronisations; }
