// What the poll loop needs of the intake (intake.cc).
#pragma once

#include <stdint.h>

// Deals with an event of the intake's link. False when JavaScript is to hear of it.
bool intake_event(int fd, uint32_t id, uint32_t mask);

// A descriptor is waited for with another mask: a link that waits for room has no place for anything but what it holds.
void intake_watched(int fd, uint32_t mask);
