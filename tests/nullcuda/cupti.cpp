// CUPTI of a machine on which nobody may profile: each of its functions refuses, and torch's profiler sees no kernel.
#define EXPORTED extern "C" __attribute__((visibility("default")))

static const int NOT_PERMITTED = 35;  // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, cupti_result.h

EXPORTED int cuptiGetResultString(int, const char** text) {
  *text = "null CUDA has no CUPTI";
  return 0;
}
EXPORTED int cuptiSubscribe(void*, void*, void*) { return NOT_PERMITTED; }
