/* The loops of the rows engine for tables with byte strings, SLOT_STRING. They are units of their own: one function
 * with the loops of both kinds made those of SLOT_TAG a seventh slower (gcc 12, Neoverse V1, inserts and erasures). */
#define CPU_ROWS_KIND       SLOT_STRING
#define CPU_ROWS_SIMD_TABLE CPU_STRINGS_SIMD_TABLE
#include "machines/cpu/rows/cpu_rows_simd.h"
