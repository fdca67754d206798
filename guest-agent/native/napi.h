// Node-API helpers for every file of the addon: status check, errno as an Error with code and syscall, arguments.
#pragma once

#include <errno.h>
#include <node_api.h>
#include <stddef.h>
#include <stdint.h>

#include <string>

#define METHOD(name) napi_value name(napi_env env, napi_callback_info info)

// Returns from a method whose Node-API call failed, with a TypeError pending.
#define TRY(call)                                \
  do {                                           \
    if ((call) != napi_ok) return rejected(env); \
  } while (0)

// Returns from a method whose argument or system call failed, with the exception pending.
#define CHECK(condition)              \
  do {                                \
    if (!(condition)) return nullptr; \
  } while (0)

#define ARGUMENTS(count)       \
  napi_value arguments[count]; \
  TRY(read_arguments(env, info, count, arguments))

// Throws the reason of the last failed Node-API call, unless an exception is pending. Returns nullptr.
napi_value rejected(napi_env env);

// Throws an Error whose code is the name of `error` ('ENOENT') and whose syscall is `syscall`. Returns nullptr.
napi_value throw_errno(napi_env env, const char* syscall, int error, const char* subject = nullptr);

napi_status read_arguments(napi_env env, napi_callback_info info, size_t count, napi_value* values);

// Each reads one argument, or throws and returns false.
bool read_int(napi_env env, napi_value value, int32_t* out);
bool read_double(napi_env env, napi_value value, double* out);
bool read_string(napi_env env, napi_value value, std::string* out);
bool read_bytes(napi_env env, napi_value value, uint8_t** data, size_t* size);
// Reads three arguments (buffer, offset, length) and returns the range of bytes they describe.
bool read_range(napi_env env, napi_value* arguments, uint8_t** data, size_t* size);

bool property_int(napi_env env, napi_value object, const char* name, int32_t* out);
bool property_string(napi_env env, napi_value object, const char* name, std::string* out);

napi_value to_number(napi_env env, double value);
napi_value to_string(napi_env env, const char* text, size_t size);
napi_value to_pair(napi_env env, int first, int second);
napi_value undefined(napi_env env);

// Adds the methods of one file to the exports; false on failure.
struct Method {
  const char* name;
  napi_callback callback;
};
bool add_methods(napi_env env, napi_value exports, const Method* methods, size_t count);
