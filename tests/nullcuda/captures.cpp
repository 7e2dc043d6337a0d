// Captures of streams, by CUDA's rules, and the graphs that they make.
#include "device.h"

#include <algorithm>

namespace null {

static thread_local cudaStreamCaptureMode of_thread = cudaStreamCaptureModeGlobal;
static unsigned long long captures = 0;

// A call that is unsafe while a stream is captured: by the mode of that capture, and of the thread that calls.
cudaError_t forbidden_in_capture(const char* what) {
  LOCKED;
  if (of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (auto* stream : all_streams()) {
    if (!stream->capture || stream->capture->origin != stream) continue;
    bool own = pthread_equal(stream->by, pthread_self());
    bool forbidden = (own && stream->mode != cudaStreamCaptureModeRelaxed) ||
                     (of_thread == cudaStreamCaptureModeGlobal && stream->mode == cudaStreamCaptureModeGlobal);
    if (!forbidden) continue;
    stream->capture->invalid = true;
    return fail(cudaErrorStreamCaptureUnsupported, what);
  }
  return cudaSuccess;
}

}  // namespace null

using namespace null;

EXPORTED cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  LOCKED;
  if (!handle) return fail(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture of the default stream");
  Stream* stream = stream_of(handle);
  if (stream->capture) return fail(cudaErrorIllegalState, "cudaStreamBeginCapture");
  auto* graph = new Graph;
  graph->origin = stream;
  graph->id = ++captures;
  stream->capture = graph;
  stream->mode = mode;
  stream->by = pthread_self();
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  LOCKED;
  *made = nullptr;
  Stream* stream = stream_of(handle);
  Graph* graph = stream->capture;
  if (!graph) return fail(cudaErrorIllegalState, "cudaStreamEndCapture");
  if (graph->origin != stream) return fail(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture");
  if (stream->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(stream->by, pthread_self()))
    return fail(cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture");
  for (auto* forked : graph->forked) forked->capture = nullptr;
  stream->capture = nullptr;
  graph->open = false;
  if (graph->invalid) return fail(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture");
  if (!graph->unjoined.empty()) return fail(cudaErrorStreamCaptureUnjoined, "cudaStreamEndCapture");
  *made = reinterpret_cast<cudaGraph_t>(graph);
  return cudaSuccess;
}
static cudaStreamCaptureStatus status(Stream* stream) {
  if (!stream->capture) return cudaStreamCaptureStatusNone;
  return stream->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}
EXPORTED cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* found) {
  LOCKED;
  Stream* asked = stream_of(handle);
  if (!handle)
    for (auto* stream : all_streams())
      if (stream->capture && stream->blocking && stream->device == device)
        return fail(cudaErrorStreamCaptureImplicit, "cudaStreamIsCapturing of the default stream");
  *found = status(asked);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* found, unsigned long long* id,
                                              cudaGraph_t* graph, const cudaGraphNode_t** nodes,
                                              const cudaGraphEdgeData** edges, size_t* count) {
  LOCKED;
  Stream* stream = stream_of(handle);
  *found = status(stream);
  if (id) *id = stream->capture ? stream->capture->id : 0;
  if (graph) *graph = reinterpret_cast<cudaGraph_t>(stream->capture);
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(of_thread, *mode);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(graph);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}
EXPORTED cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t on) {
  auto* graph = reinterpret_cast<Graph*>(handle);
  Graph::Node all{};
  bool sends = false;
  for (auto& node : graph->nodes) {
    all.accesses.insert(all.accesses.end(), node.accesses.begin(), node.accesses.end());
    sends |= bool(node.message);
  }
  count_launch();
  all.message = [=] {  // with the messages of this launch
    auto nodes = graph->nodes;
    for (auto& node : nodes)
      if (node.message) node.task = node.message();
    return [=](double begin) {
      std::map<Stream*, double> ready;  // the streams of the capture, as far as each has come
      double end = begin;
      for (auto& node : nodes) {
        auto& mine = ready[node.stream];
        mine = node.task(std::max(mine, begin));
        end = std::max(end, mine);
      }
      return end;
    };
  };
  return put(on, "cudaGraphLaunch", sends ? How::waiting : How::now, all);
}
EXPORTED cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = reinterpret_cast<Graph*>(graph)->nodes.size();
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
EXPORTED cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
