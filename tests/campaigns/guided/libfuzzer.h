/* What libFuzzer offers, and what it calls where it is there. */

#ifndef KDUMP_LIBFUZZER_H
#define KDUMP_LIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*run)(const uint8_t *data, size_t size));
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

#endif
