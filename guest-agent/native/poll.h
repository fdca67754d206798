// What other files of the addon need of the poll loop.
#pragma once

#include <stdint.h>

// Watches a descriptor that is watched already for `mask`; what is ready is reported again. 0 or an error number.
int poll_again(int fd, uint32_t id, uint32_t mask);
