// Pseudo-terminals.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "napi.h"

namespace {

winsize size_of(int32_t columns, int32_t rows) {
  winsize size = {};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  return size;
}

// openTerminal(columns, rows): [master, non-blocking; slave]
METHOD(open_terminal) {
  ARGUMENTS(2);
  int32_t columns, rows;
  CHECK(read_int(env, arguments[0], &columns));
  CHECK(read_int(env, arguments[1], &rows));
  int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0) return throw_errno(env, "posix_openpt", errno);
  winsize size = size_of(columns, rows);
  int slave = -1;
  if (unlockpt(master) == 0 && ioctl(master, TIOCSWINSZ, &size) == 0)
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);  // needs no path, and so no /dev/pts
  if (slave < 0) {
    int error = errno;
    close(master);
    return throw_errno(env, "ioctl TIOCGPTPEER", error);
  }
  return to_pair(env, master, slave);
}

// resizeTerminal(master, columns, rows): 0, or -errno; the foreground group gets SIGWINCH
METHOD(resize_terminal) {
  ARGUMENTS(3);
  int32_t master, columns, rows;
  CHECK(read_int(env, arguments[0], &master));
  CHECK(read_int(env, arguments[1], &columns));
  CHECK(read_int(env, arguments[2], &rows));
  winsize size = size_of(columns, rows);
  return to_number(env, ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0);
}

// endCharacter(master): the terminal's end-of-input character, or -1 when the terminal is in raw mode
METHOD(end_character) {
  ARGUMENTS(1);
  int32_t master;
  CHECK(read_int(env, arguments[0], &master));
  termios settings;
  if (tcgetattr(master, &settings) < 0 || !(settings.c_lflag & ICANON)) return to_number(env, -1);
  return to_number(env, settings.c_cc[VEOF]);
}

}  // namespace

bool add_tty(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"openTerminal", open_terminal}, {"resizeTerminal", resize_terminal}, {"endCharacter", end_character}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
