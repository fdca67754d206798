// A byte flow that goes from its source to the host without JavaScript: see relay.cc.
#pragma once

#include <stdint.h>

// Whether the relay takes the events of this descriptor.
bool relay_owns(int fd);

// An event of a descriptor that the relay owns. False when JavaScript is to go on: the relay has stopped.
bool relay_event(int fd, uint32_t mask);

// The watch id of the link, which is told that the relay has stopped.
uint32_t relay_link_id();

// The descriptor is about to be closed, or JavaScript watches it otherwise.
void relay_forget(int fd);
