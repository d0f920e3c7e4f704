/* Numbers that differ from run to run: seeds of tables, lives of durable maps. Not for cryptography. */
#ifndef LOOM_CORE_RANDOM_H
#define LOOM_CORE_RANDOM_H

#include <stdint.h>

uint64_t loom__random_number(void);

#endif
