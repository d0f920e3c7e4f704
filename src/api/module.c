#define _GNU_SOURCE
#include "api/module.h"
#include "core/error.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static const char module_name[] = "libloom_cuda.so." TEXT(LOOM_VERSION_MAJOR);

static const loom__services services = {loom__fail, &loom__cpu_machine};

/* The outcome of the only attempt to load the module. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int tried;
static const loom__machine_ops *found;
static char reason[512]; /* why `found` is NULL */

/* Opens the path in LOOM_CUDA_MODULE if this variable is set. Otherwise looks beside the library or program that
 * contains this code; in ../lib, for programs; then wherever the system looks. */
static void *open_module(void)
{
    char path[PATH_MAX];
    Dl_info here;
    const char *asked = getenv("LOOM_CUDA_MODULE");
    if (asked != NULL)
        return dlopen(asked, RTLD_NOW | RTLD_LOCAL);
    if (dladdr(module_name, &here) != 0 && here.dli_fname != NULL && strrchr(here.dli_fname, '/') != NULL) {
        int directory = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
        static const char *const beside[] = {"", "../lib/"};
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
            int length = snprintf(path, sizeof path, "%.*s/%s%s", directory, here.dli_fname, beside[i], module_name);
            void *handle = length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
            if (handle != NULL)
                return handle;
        }
    }
    return dlopen(module_name, RTLD_NOW | RTLD_LOCAL);
}

static void load(void)
{
    void *handle = open_module();
    if (handle == NULL) {
        const char *why = dlerror();
        snprintf(reason, sizeof reason,
                 "the cuda machine is the module %s, which could not be loaded (%s); build hashloom with LOOM_CUDA=on, "
                 "or use LOOM_MACHINE_CPU or LOOM_MACHINE_BEST",
                 module_name, why != NULL ? why : "no reason given");
        return;
    }
    loom__module_entry *entry;
    *(void **)&entry = dlsym(handle, LOOM__MODULE_SYMBOL);
    const loom__module *module = entry != NULL ? entry() : NULL;
    if (module == NULL || module->interface_version != LOOM__MACHINE_INTERFACE ||
        module->library_version != LOOM_VERSION) {
        snprintf(reason, sizeof reason,
                 "%s is of another version (%u) than this library (%d); install both from one build", module_name,
                 module != NULL ? module->library_version : 0, LOOM_VERSION);
        return;
    }
    found = module->attach(&services);
}

loom_status loom__module_cuda(const loom__machine_ops **ops)
{
    pthread_mutex_lock(&lock);
    if (!tried) {
        tried = 1;
        load();
    }
    pthread_mutex_unlock(&lock);
    RETURN_ERROR_IF(found == NULL, LOOM_NO_MACHINE, "%s", reason);
    *ops = found;
    return LOOM_OK;
}
