// Part of egressd.c: names, as policies have them.

enum { MAX_NAME = 253 };

/**
 * Lower case and without a final dot; `name` has space for MAX_NAME + 1 characters. False if it is not a name of two or
 * more labels, or looks like an address.
 */
static bool read_name(const unsigned char *bytes, size_t count, char *name) {
  if (count > 0 && bytes[count - 1] == '.') count--;
  if (count == 0 || count > MAX_NAME) return false;
  size_t label = 0;
  bool has_dot = false, is_number = true;
  for (size_t at = 0; at <= count; at++) {
    unsigned char byte = at < count ? bytes[at] : '.';
    if (byte >= 'A' && byte <= 'Z') byte += 'a' - 'A';
    if (byte == '.') {
      if (at == label || at - label > 63 || name[label] == '-' || name[at - 1] == '-') return false;
      if (at == count) break;
      has_dot = true;
      is_number = true;
      label = at + 1;
    } else if (!(byte >= 'a' && byte <= 'z') && !(byte >= '0' && byte <= '9') && byte != '-' && byte != '_') {
      return false;
    } else if (byte < '0' || byte > '9') {
      is_number = false;
    }
    name[at] = (char)byte;
  }
  name[count] = '\0';
  // No top-level domain is a number: only IPv4 addresses end so.
  return has_dot && !is_number;
}
