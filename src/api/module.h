/* Machines that are loaded at run time. */
#ifndef LOOM_API_MODULE_H
#define LOOM_API_MODULE_H

#include "core/machine.h"

/* Returns the cuda machine's functions; their `present` says whether there is a device. NO_MACHINE and a sentence if
 * the module cannot be loaded. The library looks for the module once, and the module stays loaded. Any thread may call
 * this. */
loom_status loom__module_cuda(const loom__machine_ops **ops);

#endif
