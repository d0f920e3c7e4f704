/* A module with another version number, as an older or newer build would leave it beside the library. test_api_module.c
 * checks that the library refuses it. */
#include "core/machine.h"

static const loom__module foreign = {LOOM__MACHINE_INTERFACE + 1, LOOM_VERSION + 1, NULL};

const loom__module *foreign_entry(void) __asm__(LOOM__MODULE_SYMBOL);

const loom__module *foreign_entry(void)
{
    return &foreign;
}
