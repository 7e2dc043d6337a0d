// NCCL between processes: data goes through shared memory, and the time of a message is virtual.
//
// A collective starts when the last rank's stream has come to it, and takes LATENCY + bytes / RATE. The host's call
// returns at once: a thread of the stream waits for the other ranks (streams.cpp). Messages of a communicator follow each
// other in the order of their calls, whatever their streams.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Of libcudart's part of the null device: see device.h.
using Task = std::function<double(double)>;
struct Access {
  const void* start;
  size_t bytes;
  bool writes;
};
extern "C" int null_message(void*, const char*, const std::function<Task()>&, const std::vector<Access>&);
extern "C" int null_fault(const char*);

static double setting(const char* name, double otherwise) {
  const char* text = getenv(name);
  return text ? atof(text) : otherwise;
}
using Result = ncclResult_t;
static const size_t SLOT = 4 << 20, BOX = 64 << 10;  // bytes that go at once, of collectives and of pairs

struct Box {
  std::atomic<int> full;
  std::atomic<double> sender, receiver;  // when their streams came to the latest message
  size_t bytes;
  char data[BOX];
};
struct Head {
  std::atomic<int> arrived, generation;
  double ready[64];  // by rank: when its stream comes to the collective
};

struct ncclComm {
  int rank, ranks;
  char* base;
  std::atomic<bool> aborted{false};
  std::atomic<unsigned long long> called{0}, served{0};  // messages
  double ended = 0;                                      // the latest message
  std::string log;
  bool logs_choices = false;
  char host[256] = "";

  Head* head() { return reinterpret_cast<Head*>(base); }
  char* slot(int of) { return base + 4096 + of * SLOT; }
  Box* box(int from, int to) { return reinterpret_cast<Box*>(slot(ranks)) + from * ranks + to; }
  static size_t size(int ranks) { return 4096 + ranks * SLOT + sizeof(Box) * ranks * ranks; }

  // False: the communicator was aborted.
  bool wait(const std::function<bool()>& done) {
    timespec moment{0, 50000};
    for (int turns = 0; !done(); turns++) {
      if (aborted) return false;
      if (turns < 200) sched_yield();
      else nanosleep(&moment, nullptr);
    }
    return true;
  }
  bool meet() {
    int generation = head()->generation;
    if (++head()->arrived == ranks) {
      head()->arrived = 0;
      head()->generation++;
      return true;
    }
    return wait([&] { return head()->generation != generation; });
  }
};

// ---- reductions ------------------------------------------------------------------------------------------------------

static size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
    default: return 1;
  }
}

template <class T>
static T joined(T a, T b, ncclRedOp_t by) {
  if (by == ncclMax) return std::max(a, b);
  if (by == ncclMin) return std::min(a, b);
  return by == ncclProd ? a * b : a + b;
}

struct Bfloat {
  uint16_t bits;
  operator float() const { uint32_t wide = uint32_t(bits) << 16; float value; memcpy(&value, &wide, 4); return value; }
  static Bfloat of(float value) {
    uint32_t wide;
    memcpy(&wide, &value, 4);
    if (value != value) return {0x7fc0};
    return {uint16_t((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
};
struct Half {
  _Float16 bits;
  operator float() const { return bits; }
  static Half of(float value) { return {static_cast<_Float16>(value)}; }
};

template <class T>
static void add(void* sum, const void* other, size_t count, ncclRedOp_t by, int ranks, bool last) {
  auto* a = static_cast<T*>(sum);
  auto* b = static_cast<const T*>(other);
  for (size_t i = 0; i < count; i++) {
    a[i] = joined(a[i], b[i], by);
    if (last && by == ncclAvg) a[i] = a[i] / ranks;
  }
}
template <class T>
static void add_half(void* sum, const void* other, size_t count, ncclRedOp_t by, int ranks, bool last) {
  auto* a = static_cast<T*>(sum);
  auto* b = static_cast<const T*>(other);
  for (size_t i = 0; i < count; i++) {
    float value = joined<float>(a[i], b[i], by);
    a[i] = T::of(last && by == ncclAvg ? value / ranks : value);
  }
}
// The sum (or another reduction) of all ranks' slots.
static void reduce(ncclComm* c, void* sum, size_t bytes, ncclDataType_t type, ncclRedOp_t by) {
  memcpy(sum, c->slot(0), bytes);
  size_t count = bytes / size_of(type);
  for (int r = 1; r < c->ranks; r++) {
    bool last = r == c->ranks - 1;
    switch (type) {
      case ncclFloat16: add_half<Half>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclBfloat16: add_half<Bfloat>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclFloat32: add<float>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclFloat64: add<double>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclInt8: add<int8_t>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclUint8: add<uint8_t>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclInt32: add<int32_t>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclUint32: add<uint32_t>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclInt64: add<int64_t>(sum, c->slot(r), count, by, c->ranks, last); break;
      case ncclUint64: add<uint64_t>(sum, c->slot(r), count, by, c->ranks, last); break;
      default: fprintf(stderr, "null NCCL: does not add type %d\n", type); abort();
    }
  }
  if (null_fault("wrong-sum") && bytes) static_cast<char*>(sum)[size_of(type) - 1] ^= 0x20;
}

// ---- communicators ---------------------------------------------------------------------------------------------------

static std::string transport(ncclComm*) {
  auto set = [](const char* name) { const char* text = getenv(name); return text && !strcmp(text, "1"); };
  if (!set("NCCL_P2P_DISABLE")) return "P2P/CUMEM";
  return set("NCCL_SHM_DISABLE") ? "NET/Socket/0" : "SHM/direct/direct";
}
// Where the environment says so while the communicator is made, as NCCL reads it then.
static void begin_log(ncclComm* c) {
  const char *path = getenv("NCCL_DEBUG_FILE"), *subsystems = getenv("NCCL_DEBUG_SUBSYS");
  if (!path) return;
  c->logs_choices = subsystems && strstr(subsystems, "TUNING");
  c->log = path;
  gethostname(c->host, sizeof c->host);
  auto put = [&](const char* mark, const std::string& text) {
    auto at = c->log.find(mark);
    if (at != std::string::npos) c->log.replace(at, 2, text);
  };
  put("%h", c->host);
  put("%p", std::to_string(getpid()));
}
static void log(ncclComm* c, const char* line) {
  if (c->log.empty()) return;
  if (FILE* file = fopen(c->log.c_str(), "a")) {
    fprintf(file, "%s:%d:%d [%d] NCCL INFO %s\n", c->host, getpid(), getpid(), c->rank, line);
    fclose(file);
  }
}

EXPORTED Result ncclGetVersion(int* version) { *version = NCCL_VERSION_CODE; return ncclSuccess; }
EXPORTED const char* ncclGetErrorString(Result result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "unhandled system error";
}
EXPORTED const char* ncclGetLastError(ncclComm_t) { return ""; }
EXPORTED Result ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/nullnccl-%d-%d", getpid(), made++);
  int file = shm_open(id->internal, O_CREAT | O_RDWR, 0600);
  if (file < 0) return ncclSystemError;
  close(file);
  return ncclSuccess;
}
EXPORTED Result ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  int file = shm_open(id.internal, O_RDWR, 0600);
  if (file < 0 || ranks > 64 || ftruncate(file, ncclComm::size(ranks))) return ncclSystemError;
  auto* c = new ncclComm;
  c->rank = rank;
  c->ranks = ranks;
  c->base = static_cast<char*>(mmap(nullptr, ncclComm::size(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  close(file);
  begin_log(c);
  if (!c->meet()) return ncclSystemError;
  if (rank == 0) shm_unlink(id.internal);
  int next = (rank + 1) % ranks;
  for (int channel = 0; channel < 2 && ranks > 1; channel++) {
    char line[200];
    snprintf(line, sizeof line, "Channel %02d/0 : %d[%d] -> %d[%d] via %s", channel, rank, rank, next, next, transport(c).c_str());
    log(c, line);
  }
  if (const char* path = getenv("NCCL_TOPO_DUMP_FILE"))
    if (FILE* xml = fopen(path, "w")) {
      fprintf(xml, "<system version=\"1\">\n</system>\n");
      fclose(xml);
    }
  *made = c;
  return ncclSuccess;
}
EXPORTED Result ncclCommInitRank(ncclComm_t* made, int ranks, ncclUniqueId id, int rank) { return ncclCommInitRankConfig(made, ranks, id, rank, nullptr); }
EXPORTED Result ncclCommInitRankScalable(ncclComm_t* made, int ranks, int rank, int, ncclUniqueId* ids, ncclConfig_t* config) { return ncclCommInitRankConfig(made, ranks, ids[0], rank, config); }
EXPORTED Result ncclCommInitAll(ncclComm_t* made, int count, const int*) {
  if (count != 1) return ncclInvalidUsage;  // several GPUs of one process
  ncclUniqueId id;
  if (auto error = ncclGetUniqueId(&id)) return error;
  return ncclCommInitRank(made, 1, id, 0);
}
EXPORTED Result ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
EXPORTED Result ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
EXPORTED Result ncclCommAbort(ncclComm_t c) {  // of none is no error
  if (c) c->aborted = true;
  return ncclSuccess;
}
EXPORTED Result ncclCommCount(const ncclComm_t c, int* ranks) { *ranks = c->ranks; return ncclSuccess; }
EXPORTED Result ncclCommUserRank(const ncclComm_t c, int* rank) { *rank = c->rank; return ncclSuccess; }
// A communicator with an error does not move messages any more, until it is aborted.
EXPORTED Result ncclCommGetAsyncError(ncclComm_t, Result* error) {
  *error = null_fault("nccl-error") ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
EXPORTED Result ncclMemAlloc(void** start, size_t bytes) { return cudaMalloc(start, bytes) ? ncclUnhandledCudaError : ncclSuccess; }
EXPORTED Result ncclMemFree(void* start) { return cudaFree(start) ? ncclUnhandledCudaError : ncclSuccess; }
EXPORTED Result ncclCommRegister(const ncclComm_t, void*, size_t, void** handle) { *handle = reinterpret_cast<void*>(1); return ncclSuccess; }
EXPORTED Result ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }
EXPORTED Result ncclRedOpCreatePreMulSum(ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t) { return ncclInvalidUsage; }

// ---- messages --------------------------------------------------------------------------------------------------------

static double seconds(size_t bytes) {
  static double latency = setting("NULLCUDA_NCCL_US", 12) * 1e-6, rate = setting("NULLCUDA_NCCL_GBPS", 200) * 1e9;
  return latency + bytes / rate;
}

struct Part {
  ncclComm* comm;
  char* start;
  size_t bytes, done;
  int peer;
  bool sends;
};
static thread_local int depth = 0;
static thread_local std::vector<std::function<Result()>> grouped;

static Result now_or_grouped(const std::function<Result()>& call) {
  if (!depth) return call();
  grouped.push_back(call);
  return ncclSuccess;
}

// A message in the order of the communicator's calls, which is one more at each launch of a graph that holds it.
static Result message(ncclComm* c, cudaStream_t stream, const char* what, const std::vector<Access>& accesses, const Task& task) {
  auto call = [=]() -> Task {
    bool lost = null_fault("nccl-error");
    return [=, turn = c->called++](double begin) {
      if (!c->wait([=] { return !lost && c->served == turn; })) return begin;
      c->ended = task(std::max(begin, c->ended));
      c->served++;
      return c->ended;
    };
  };
  return null_message(stream, what, call, accesses) ? ncclUnhandledCudaError : ncclSuccess;
}

struct Collective {
  ncclComm* c;
  cudaStream_t stream;
  const char* name;
  const void* from;
  size_t read;
  void* to;
  size_t written;
  size_t bytes;  // of the message

  // `give` fills this rank's slot, `take` reads all ranks': SLOT bytes of `length` at a time.
  Result run(size_t length, size_t rounds, const std::function<void(size_t round, size_t at, size_t n)>& give,
             const std::function<void(size_t round, size_t at, size_t n)>& take) const {
    auto self = *this;
    return now_or_grouped([=] {
      char line[200];
      snprintf(line, sizeof line, "%s: %zu Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}", self.name, self.bytes);
      if (self.c->logs_choices) log(self.c, line);
      std::vector<Access> accesses{{self.from, self.read, false}, {self.to, self.written, true}};
      return message(self.c, self.stream, self.name, accesses, [=](double begin) {
        auto* c = self.c;
        c->head()->ready[c->rank] = begin;
        if (!c->meet()) return begin;
        double start = *std::max_element(c->head()->ready, c->head()->ready + c->ranks);
        for (size_t round = 0; round < rounds; round++)
          for (size_t at = 0; at < length || at == 0; at += SLOT) {
            size_t n = std::min(length - at, SLOT);
            give(round, at, n);
            if (!c->meet()) return begin;
            take(round, at, n);
            if (!c->meet()) return begin;
            if (!length) break;
          }
        return start + seconds(self.bytes);
      });
    });
  }
};

EXPORTED Result ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t by, ncclComm_t c, cudaStream_t stream) {
  size_t b = count * size_of(type);
  return Collective{c, stream, "AllReduce", in, b, out, b, b}.run(
      b, 1, [=](size_t, size_t at, size_t n) { memcpy(c->slot(c->rank), (const char*)in + at, n); },
      [=](size_t, size_t at, size_t n) { reduce(c, (char*)out + at, n, type, by); });
}
EXPORTED Result ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t by, int root, ncclComm_t c, cudaStream_t stream) {
  size_t b = count * size_of(type);
  return Collective{c, stream, "Reduce", in, b, out, c->rank == root ? b : 0, b}.run(
      b, 1, [=](size_t, size_t at, size_t n) { memcpy(c->slot(c->rank), (const char*)in + at, n); },
      [=](size_t, size_t at, size_t n) { if (c->rank == root) reduce(c, (char*)out + at, n, type, by); });
}
EXPORTED Result ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t stream) {
  size_t b = count * size_of(type);
  return Collective{c, stream, "Broadcast", in, c->rank == root ? b : 0, out, b, b}.run(
      b, 1, [=](size_t, size_t at, size_t n) { if (c->rank == root) memcpy(c->slot(root), (const char*)in + at, n); },
      [=](size_t, size_t at, size_t n) { memcpy((char*)out + at, c->slot(root), n); });
}
EXPORTED Result ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t stream) { return ncclBroadcast(data, data, count, type, root, c, stream); }
EXPORTED Result ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t stream) {
  size_t b = count * size_of(type);
  return Collective{c, stream, "AllGather", in, b, out, b * c->ranks, b * c->ranks}.run(
      b, 1, [=](size_t, size_t at, size_t n) { memcpy(c->slot(c->rank), (const char*)in + at, n); },
      [=](size_t, size_t at, size_t n) { for (int r = 0; r < c->ranks; r++) memcpy((char*)out + r * b + at, c->slot(r), n); });
}
EXPORTED Result ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t by, ncclComm_t c, cudaStream_t stream) {
  size_t b = count * size_of(type);
  return Collective{c, stream, "ReduceScatter", in, b * c->ranks, out, b, b * c->ranks}.run(
      b, c->ranks, [=](size_t to, size_t at, size_t n) { memcpy(c->slot(c->rank), (const char*)in + to * b + at, n); },
      [=](size_t to, size_t at, size_t n) { if (c->rank == (int)to) reduce(c, (char*)out + at, n, type, by); });
}

// ---- between pairs ---------------------------------------------------------------------------------------------------

// Moves all parts, whose streams came to them at `begin`; returns when the last of them could start: a rank that sends more
// than a box holds waits for the one that receives.
static double progress(std::vector<Part>& moving, double begin) {
  double start = begin;
  timespec moment{0, 50000};
  int idle = 0;
  for (bool all = false; !all;) {
    all = true;
    bool moved = false;
    for (auto& part : moving) {
      if (part.done == part.bytes) continue;
      all = false;
      auto* c = part.comm;
      auto* box = part.sends ? c->box(c->rank, part.peer) : c->box(part.peer, c->rank);
      if (c->aborted) return begin;
      if (bool(box->full) == part.sends) continue;
      if (part.done == 0) (part.sends ? box->sender : box->receiver) = begin;
      if (part.sends && part.done) start = std::max<double>(start, box->receiver);
      if (!part.sends) start = std::max<double>(start, box->sender);
      if (part.sends) box->bytes = std::min(part.bytes - part.done, BOX);
      if (part.sends) memcpy(box->data, part.start + part.done, box->bytes);
      else memcpy(part.start + part.done, box->data, box->bytes);
      part.done += box->bytes;
      box->full = part.sends;
      moved = true;
    }
    idle = moved ? 0 : idle + 1;
    if (idle > 200) nanosleep(&moment, nullptr);
    else if (idle) sched_yield();
  }
  return start;
}

struct Sent {
  Part part;
  cudaStream_t stream;
};
static thread_local std::vector<Sent> pending;

// Sends and receives of one group go together, on one stream; what a rank sends itself goes through its own box.
static Result exchange() {
  std::vector<Sent> group;
  group.swap(pending);
  if (group.empty()) return ncclSuccess;
  size_t most = 0;
  std::vector<Part> parts;
  std::vector<Access> accesses;
  for (auto& [part, _] : group) {
    most = std::max(most, part.bytes);
    parts.push_back(part);
    accesses.push_back({part.start, part.bytes, !part.sends});
  }
  auto* name = parts.size() > 1 ? "SendRecv" : parts[0].sends ? "Send" : "Recv";
  return message(parts[0].comm, group[0].stream, name, accesses, [=](double begin) {
    auto moving = parts;
    return progress(moving, begin) + seconds(most);
  });
}
EXPORTED Result ncclGroupStart() { depth++; return ncclSuccess; }
EXPORTED Result ncclGroupEnd() {
  if (--depth) return ncclSuccess;
  std::vector<std::function<Result()>> calls;
  calls.swap(grouped);
  for (auto& call : calls)
    if (auto error = call()) return error;
  return exchange();
}
static Result pair(void* start, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream, bool sends) {
  pending.push_back({{c, static_cast<char*>(start), count * size_of(type), 0, peer, sends}, stream});
  return depth ? ncclSuccess : exchange();
}
EXPORTED Result ncclSend(const void* start, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) { return pair(const_cast<void*>(start), count, type, peer, c, stream, true); }
EXPORTED Result ncclRecv(void* start, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) { return pair(start, count, type, peer, c, stream, false); }
EXPORTED Result ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t stream) {
  size_t b = count * size_of(type);
  ncclGroupStart();
  for (int r = 0; r < c->ranks; r++) {
    ncclSend(static_cast<const char*>(in) + r * b, count, type, r, c, stream);
    ncclRecv(static_cast<char*>(out) + r * b, count, type, r, c, stream);
  }
  return ncclGroupEnd();
}
EXPORTED Result ncclGather(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t stream) {
  ncclGroupStart();
  ncclSend(in, count, type, root, c, stream);
  for (int r = 0; r < c->ranks && c->rank == root; r++)
    ncclRecv(static_cast<char*>(out) + r * count * size_of(type), count, type, r, c, stream);
  return ncclGroupEnd();
}
EXPORTED Result ncclScatter(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t stream) {
  ncclGroupStart();
  for (int r = 0; r < c->ranks && c->rank == root; r++)
    ncclSend(static_cast<const char*>(in) + r * count * size_of(type), count, type, r, c, stream);
  ncclRecv(out, count, type, root, c, stream);
  return ncclGroupEnd();
}
