#include "simt/machine/simt_fiber.h"

#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* Saves the registers that a called function must preserve on the stack that is left, and loads them from the stack
 * that is entered. swapcontext does the same and makes a system call, and is forty times as slow. */
void simt_fiber_swap(void **leave, void *enter);

#if defined(__aarch64__)
enum { SAVED_WORDS = 20, RETURN_WORD = 11 };
__asm__(".text\n"
        ".globl simt_fiber_swap\n"
        ".hidden simt_fiber_swap\n"
        ".type simt_fiber_swap, %function\n"
        "simt_fiber_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x2, sp\n"
        "    str x2, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size simt_fiber_swap, .-simt_fiber_swap\n");
#elif defined(__x86_64__)
enum { SAVED_WORDS = 8, RETURN_WORD = 6 }; /* a word above the return address keeps the stack aligned at entry */
__asm__(".text\n"
        ".globl simt_fiber_swap\n"
        ".hidden simt_fiber_swap\n"
        ".type simt_fiber_swap, @function\n"
        "simt_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size simt_fiber_swap, .-simt_fiber_swap\n");
#else
#error "the lane simulator knows how to switch stacks on aarch64 and x86_64"
#endif

static void (*entry_to_run)(void);

/* Every switch is reported to the address sanitizer. It returns the bounds of the stack that was left: this is how the
 * bounds of the thread's own stack become known. */
static simt_fiber *just_left;

static void switched(void *fake_stack)
{
#ifdef FIBER_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (just_left->stack_bytes == 0) {
        just_left->stack = (unsigned char *)(uintptr_t)bottom;
        just_left->stack_bytes = bytes;
    }
#else
    (void)fake_stack;
#endif
}

/* What a fiber begins with. */
static void first_steps(void)
{
    switched(NULL);
    entry_to_run();
}

void simt_fiber_prepare(simt_fiber *fiber, unsigned char *stack, size_t stack_bytes, void (*entry)(void))
{
    entry_to_run = entry;
    fiber->stack = stack;
    fiber->stack_bytes = stack_bytes;
#ifdef FIBER_ASAN
    ASAN_UNPOISON_MEMORY_REGION(stack, stack_bytes);
#endif
    uint64_t *top = (uint64_t *)(void *)(stack + stack_bytes) - SAVED_WORDS;
    memset(top, 0, SAVED_WORDS * sizeof *top);
    top[RETURN_WORD] = (uint64_t)(uintptr_t)first_steps;
    fiber->stack_pointer = top;
}

void simt_fiber_switch(simt_fiber *from, simt_fiber *to, int for_good)
{
    void *fake_stack = NULL;
    just_left = from;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &fake_stack, to->stack, to->stack_bytes);
#else
    (void)for_good;
#endif
    simt_fiber_swap(&from->stack_pointer, to->stack_pointer);
    switched(fake_stack);
}
