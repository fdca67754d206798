// Converts arguments, results and errors between JavaScript and the other files.
#include "napi.h"

#include <string.h>

napi_value rejected(napi_env env) {
  bool is_pending = false;
  napi_is_exception_pending(env, &is_pending);
  if (is_pending) return nullptr;
  const napi_extended_error_info* info = nullptr;
  napi_get_last_error_info(env, &info);
  const char* reason = info && info->error_message ? info->error_message : "a Node-API call failed";
  napi_throw_type_error(env, nullptr, reason);
  return nullptr;
}

napi_value throw_errno(napi_env env, const char* syscall, int error, const char* subject) {
  const char* name = strerrorname_np(error);
  if (!name) name = "EUNKNOWN";
  std::string text = std::string(name) + ": " + strerror(error) + ", " + syscall;
  if (subject) text += std::string(" '") + subject + "'";
  napi_value code, message, call, exception;
  TRY(napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &code));
  TRY(napi_create_string_utf8(env, text.data(), text.size(), &message));
  TRY(napi_create_string_utf8(env, syscall, NAPI_AUTO_LENGTH, &call));
  TRY(napi_create_error(env, code, message, &exception));
  TRY(napi_set_named_property(env, exception, "syscall", call));
  TRY(napi_throw(env, exception));
  return nullptr;
}

napi_status read_arguments(napi_env env, napi_callback_info info, size_t count, napi_value* values) {
  size_t given = count;  // missing arguments read as undefined, which the typed readers refuse
  return napi_get_cb_info(env, info, &given, values, nullptr, nullptr);
}

bool read_int(napi_env env, napi_value value, int32_t* out) {
  if (napi_get_value_int32(env, value, out) == napi_ok) return true;
  rejected(env);
  return false;
}

bool read_double(napi_env env, napi_value value, double* out) {
  if (napi_get_value_double(env, value, out) == napi_ok) return true;
  rejected(env);
  return false;
}

bool read_string(napi_env env, napi_value value, std::string* out) {
  size_t size = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &size) != napi_ok) {
    rejected(env);
    return false;
  }
  out->resize(size);
  if (napi_get_value_string_utf8(env, value, out->data(), size + 1, &size) == napi_ok) return true;
  rejected(env);
  return false;
}

bool read_bytes(napi_env env, napi_value value, uint8_t** data, size_t* size) {
  napi_typedarray_type type;
  void* start = nullptr;
  if (napi_get_typedarray_info(env, value, &type, size, &start, nullptr, nullptr) != napi_ok) {
    rejected(env);
    return false;
  }
  if (type != napi_uint8_array) {
    napi_throw_type_error(env, nullptr, "a Uint8Array was expected");
    return false;
  }
  *data = static_cast<uint8_t*>(start);
  return true;
}

bool read_range(napi_env env, napi_value* arguments, uint8_t** data, size_t* size) {
  int32_t offset, length;
  size_t total;
  if (!read_bytes(env, arguments[0], data, &total)) return false;
  if (!read_int(env, arguments[1], &offset) || !read_int(env, arguments[2], &length)) return false;
  if (offset < 0 || length < 0 || static_cast<size_t>(offset) + static_cast<size_t>(length) > total) {
    napi_throw_range_error(env, nullptr, "the range is outside of the buffer");
    return false;
  }
  *data += offset;
  *size = static_cast<size_t>(length);
  return true;
}

bool property_int(napi_env env, napi_value object, const char* name, int32_t* out) {
  napi_value value;
  if (napi_get_named_property(env, object, name, &value) == napi_ok) return read_int(env, value, out);
  rejected(env);
  return false;
}

bool property_string(napi_env env, napi_value object, const char* name, std::string* out) {
  napi_value value;
  if (napi_get_named_property(env, object, name, &value) == napi_ok) return read_string(env, value, out);
  rejected(env);
  return false;
}

napi_value to_number(napi_env env, double value) {
  napi_value result;
  TRY(napi_create_double(env, value, &result));
  return result;
}

napi_value to_string(napi_env env, const char* text, size_t size) {
  napi_value result;
  TRY(napi_create_string_utf8(env, text, size, &result));
  return result;
}

napi_value to_pair(napi_env env, int first, int second) {
  napi_value result, left, right;
  TRY(napi_create_array_with_length(env, 2, &result));
  TRY(napi_create_int32(env, first, &left));
  TRY(napi_create_int32(env, second, &right));
  TRY(napi_set_element(env, result, 0, left));
  TRY(napi_set_element(env, result, 1, right));
  return result;
}

napi_value undefined(napi_env env) {
  napi_value result;
  TRY(napi_get_undefined(env, &result));
  return result;
}

bool add_methods(napi_env env, napi_value exports, const Method* methods, size_t count) {
  for (size_t i = 0; i < count; i++) {
    napi_value function;
    if (napi_create_function(env, methods[i].name, NAPI_AUTO_LENGTH, methods[i].callback, nullptr, &function) !=
        napi_ok)
      return false;
    if (napi_set_named_property(env, exports, methods[i].name, function) != napi_ok) return false;
  }
  return true;
}
