// The architecture whose system calls a filter numbers: numbers of another mean other calls.
#pragma once
#include <linux/audit.h>

#if defined __x86_64__
#define FILTERED_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define FILTERED_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the filters of system calls do not know this architecture"
#endif
