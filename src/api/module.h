/* Machines that are loaded at run time. */
#ifndef LOOM_API_MODULE_H
#define LOOM_API_MODULE_H

#include "core/machine.h"

/* The cuda machine's functions. NO_MACHINE and a sentence if its module cannot be loaded; `present` says whether there
 * is a device. The module is looked for once and stays loaded. Any thread may call this. */
loom_status loom__module_cuda(const loom__machine_ops **ops);

#endif
