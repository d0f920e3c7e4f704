# How hashloom's own files are compiled: the target loom_flags, linked privately by each of our targets.

add_library(loom_flags INTERFACE)
target_compile_options(loom_flags INTERFACE
    -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes
    $<$<BOOL:${LOOM_WERROR}>:-Werror>)

if(LOOM_SANITIZE STREQUAL "address")
    set(sanitizers address,undefined)
elseif(LOOM_SANITIZE STREQUAL "thread")
    set(sanitizers thread)
elseif(LOOM_SANITIZE)
    message(FATAL_ERROR "LOOM_SANITIZE is '${LOOM_SANITIZE}'; it may be empty, address or thread")
elseif(LOOM_FUZZ)
    set(sanitizers address,undefined)
endif()

if(LOOM_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LOOM_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
endif()

if(sanitizers)
    # Each lane algorithm is compiled once, not once for each kind of table: src/core/portable.h tells why.
    target_compile_definitions(loom_flags INTERFACE LOOM_ONE_COPY)
    target_compile_options(loom_flags INTERFACE
        -O1 -fno-omit-frame-pointer -fsanitize=${sanitizers} -fno-sanitize-recover=all
        $<$<BOOL:${LOOM_FUZZ}>:-fsanitize=fuzzer-no-link>)
    target_link_options(loom_flags INTERFACE -fsanitize=${sanitizers})
else()
    # A sanitizer's runtime is in the executable only, so its symbols stay open in the shared library.
    target_link_options(loom_flags INTERFACE -Wl,-z,defs)
endif()
