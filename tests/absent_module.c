/* A module of this build that finds no device, as on a computer without a GPU. test_api_module.c checks what the
 * library reports about it. */
#include "core/machine.h"

static const loom__services *library;

static loom_status present(void)
{
    return library->fail(LOOM_NO_MACHINE, "no device can be used here");
}

static const loom__machine_ops absent = {
    .interface_version = LOOM__MACHINE_INTERFACE, .id = LOOM_MACHINE_CUDA, .name = "absent", .present = present};

static const loom__machine_ops *attach(const loom__services *services)
{
    library = services;
    return &absent;
}

static const loom__module module_of_ours = {LOOM__MACHINE_INTERFACE, LOOM_VERSION, attach};

const loom__module *absent_entry(void) __asm__(LOOM__MODULE_SYMBOL);

const loom__module *absent_entry(void)
{
    return &module_of_ours;
}
