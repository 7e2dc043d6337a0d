// What NVIDIA's headers take from a package that torch does not bring (nvidia-cuda-crt): marks of a C compiler's host code.
#pragma once
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __cudart_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define __location__(a)
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDART_CB
#define __specialization_static
