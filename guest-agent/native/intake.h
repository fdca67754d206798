// What the poll loop needs of the intake (intake.cc).
#pragma once

#include <stdint.h>

// Deals with an event of the intake's link. False when JavaScript is to hear of it.
bool intake_event(int fd, uint32_t mask);
