// Errors that the sanitizers must report; otherwise `make test-native` would prove nothing about the agent.
#include <node_api.h>

#include <climits>
#include <cstddef>

namespace {

napi_value overflow_heap(napi_env, napi_callback_info) {
  volatile size_t length = 8;
  volatile char* bytes = new char[length];
  bytes[length] = 1;
  delete[] bytes;
  return nullptr;
}

napi_value use_after_free(napi_env, napi_callback_info) {
  volatile char* byte = new char(1);
  delete byte;
  *byte = 2;
  return nullptr;
}

napi_value overflow_int(napi_env, napi_callback_info) {
  volatile int most = INT_MAX;
  most = most + 1;
  return nullptr;
}

napi_value add(napi_env env, napi_value exports) {
  const napi_callback faults[] = {overflow_heap, use_after_free, overflow_int};
  const char* const names[] = {"overflowHeap", "useAfterFree", "overflowInt"};
  for (size_t i = 0; i < 3; i++) {
    napi_value function;
    if (napi_create_function(env, names[i], NAPI_AUTO_LENGTH, faults[i], nullptr, &function) != napi_ok ||
        napi_set_named_property(env, exports, names[i], function) != napi_ok)
      return nullptr;
  }
  return exports;
}

}  // namespace

NAPI_MODULE(planted, add)
