// The race detector: who last wrote and read each range of memory, and whether what comes now is ordered behind it.
//
// Streams have vector clocks. An event carries its stream's; a wait and a synchronisation join it. A piece of work that
// touches memory which another stream touched, one of the two writing, is a race unless its stream knows of that work.
#include "device.h"

#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <string.h>
#include <unistd.h>

namespace null {

namespace {

const int depth = 40;
struct Use {
  const Stream* stream;
  unsigned long long work;
  std::string what;
  void* stack[depth];
  int frames;
};
struct Range {
  const char* end;
  std::vector<Use> writes;  // one at most
  std::vector<Use> reads;
};
std::map<const char*, Range> ranges;  // by their starts; they do not overlap
Clock of_host;

std::string& path() {
  static std::string of_environment = getenv("NULLCUDA_RACES") ? getenv("NULLCUDA_RACES") : "";
  return of_environment;
}
bool wanted() { return !path().empty(); }

void print(FILE* file, const Use& use) {
  char** names = backtrace_symbols(use.stack, use.frames);
  for (int i = 2; i < use.frames; i++)
    if (!strstr(names[i], "libtorch_cpu") || i < 6) fprintf(file, "    %s\n", names[i]);
  free(names);
}

void report(const Use& before, const Use& use, const void* at, bool wrote, bool writes) {
  FILE* file = fopen(path().c_str(), "a");
  if (!file) return;
  const char* rank = getenv("RANK");
  fprintf(file, "race: rank %s: %s %s %p on stream %p, which nothing orders behind %s that %s it on stream %p\n",
          rank ? rank : "0", use.what.c_str(), writes ? "writes" : "reads", at, static_cast<const void*>(use.stream),
          before.what.c_str(), wrote ? "wrote" : "read", static_cast<const void*>(before.stream));
  fprintf(file, "  before:\n");
  print(file, before);
  fprintf(file, "  now:\n");
  print(file, use);
  fclose(file);
}

// Cuts ranges so that none reaches over this place.
void cut(const char* at) {
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return;
  auto before = std::prev(next);
  if (before->first == at || before->second.end <= at) return;
  Range rest = before->second;
  before->second.end = at;
  ranges[at] = rest;
}

}  // namespace

Clock& host() { return of_host; }

void know(Clock& mine, const Clock& other) {
  for (auto& [stream, work] : other) {
    auto& known = mine[stream];
    if (work > known) known = work;
  }
}

void host_knows(Stream* stream) { LOCKED; know(of_host, stream->knows); }

void forget_races(const void* start, size_t bytes) {
  if (!wanted()) return;
  LOCKED;
  auto* from = static_cast<const char*>(start);
  cut(from);
  cut(from + bytes);
  ranges.erase(ranges.lower_bound(from), ranges.lower_bound(from + bytes));
}

void check_races(Stream* stream, const std::vector<Access>& accesses, const char* what) {
  if (!wanted()) return;
  LOCKED;
  Use use{stream, stream->works, what};
  use.frames = backtrace(use.stack, depth);
  auto ordered = [&](const Use& before) {
    auto known = stream->knows.find(before.stream);
    return before.stream == stream || (known != stream->knows.end() && known->second >= before.work);
  };
  for (auto& access : accesses) {
    auto* start = static_cast<const char*>(access.start);
    auto* end = start + access.bytes;
    if (start == end) continue;
    cut(start);
    cut(end);
    auto first = ranges.lower_bound(start), last = ranges.lower_bound(end);
    for (auto at = first; at != last; ++at) {
      for (auto& before : at->second.writes)
        if (!ordered(before)) report(before, use, at->first, true, access.writes);
      if (access.writes)
        for (auto& before : at->second.reads)
          if (!ordered(before)) report(before, use, at->first, false, true);
    }
    if (access.writes) {
      ranges.erase(first, last);
      ranges[start] = {end, {use}, {}};
      continue;
    }
    const char* covered = start;
    std::vector<std::pair<const char*, Range>> gaps;
    for (auto at = first; at != last; ++at) {
      if (covered < at->first) gaps.push_back({covered, {at->first, {}, {use}}});
      covered = at->second.end;
      auto& reads = at->second.reads;
      bool seen = false;
      for (auto& read : reads)
        if (read.stream == stream) { read = use; seen = true; }
      if (!seen) reads.push_back(use);
    }
    if (covered < end) gaps.push_back({covered, {end, {}, {use}}});
    for (auto& gap : gaps) ranges.insert(gap);
  }
}

}  // namespace null

// Writes races from now on into a file; "": no more.
EXPORTED void null_detect_races(const char* file) {
  LOCKED;
  null::ranges.clear();
  null::path() = file;
}
