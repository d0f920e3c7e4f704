# Whether the cuda machine is built, and for which GPUs. Sets
#   loom_with_cuda     ON or OFF
#   loom_cuda_state    built, off, no nvcc, no gpu, old nvcc: why it is built or left out; `loom doctor` shows it, too
#
# auto asks for both nvcc and a GPU: GPU code takes several times as long to compile as the library, and without a GPU
# it cannot run here.

string(TOLOWER "${LOOM_CUDA}" loom_cuda_asked)
if(loom_cuda_asked MATCHES "^(on|1|true|yes|y)$")
    set(loom_cuda_asked on)
elseif(loom_cuda_asked MATCHES "^(off|0|false|no|n)$")
    set(loom_cuda_asked off)
elseif(NOT loom_cuda_asked STREQUAL "auto")
    message(FATAL_ERROR "LOOM_CUDA is '${LOOM_CUDA}'; it may be auto, on or off")
endif()

# Sets `result` to ON if there is an NVIDIA GPU that programs can use: if the driver's device file exists, or its tool
# lists one.
function(loom_find_gpu result)
    file(GLOB device_files /dev/nvidia[0-9]*)
    set(${result} OFF PARENT_SCOPE)
    if(device_files)
        set(${result} ON PARENT_SCOPE)
    else()
        execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE listed ERROR_QUIET RESULT_VARIABLE status TIMEOUT 20)
        if(status EQUAL 0 AND listed MATCHES "^GPU ")
            set(${result} ON PARENT_SCOPE)
        endif()
    endif()
endfunction()

# CMake looks for nvcc in the PATH; NVIDIA's installer puts it here.
if(NOT loom_cuda_asked STREQUAL "off" AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(LOOM_NVCC nvcc PATHS /usr/local/cuda/bin)
    mark_as_advanced(LOOM_NVCC)
    if(LOOM_NVCC)
        set(CMAKE_CUDA_COMPILER ${LOOM_NVCC})
    endif()
endif()

set(loom_with_cuda OFF)
set(loom_cuda_state off)
if(loom_cuda_asked STREQUAL "auto")
    loom_find_gpu(gpu_found)
    if(NOT gpu_found)
        set(loom_cuda_state "no gpu")
    else()
        include(CheckLanguage)
        check_language(CUDA)
        if(CMAKE_CUDA_COMPILER)
            set(loom_with_cuda ON)
        else()
            set(loom_cuda_state "no nvcc")
        endif()
    endif()
elseif(loom_cuda_asked STREQUAL "on")
    set(loom_with_cuda ON)
endif()

if(loom_with_cuda)
    # auto: for the GPU of this machine. on: for the GPUs that users may have, and PTX for later ones.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        set(architectures_chosen_here ON)
        if(loom_cuda_asked STREQUAL "auto")
            set(CMAKE_CUDA_ARCHITECTURES native)
        else()
            set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
        endif()
    endif()
    enable_language(CUDA)
    set(loom_cuda_state built)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
        if(loom_cuda_asked STREQUAL "on")
            message(FATAL_ERROR "LOOM_CUDA=on needs nvcc 12.4 or newer; ${CMAKE_CUDA_COMPILER} is "
                    "${CMAKE_CUDA_COMPILER_VERSION}")
        endif()
        set(loom_with_cuda OFF)
        set(loom_cuda_state "old nvcc")
    elseif(architectures_chosen_here AND loom_cuda_asked STREQUAL "on"
           AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
        list(INSERT CMAKE_CUDA_ARCHITECTURES 2 100-real)
    endif()
endif()
