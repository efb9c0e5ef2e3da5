// What the CUDA kernels need of the machine, each as a plain function: NVRTC's built-ins and PTX here; with PFPL_LANES defined, the same
// names from the executor that runs these sources lane by lane on the CPU.  No other file uses a built-in or inline assembly.
//
// Rules the kernel sources keep, so that the executor can interleave lanes freely: every warp primitive is called by all 32 lanes;
// barriers by all threads of the block; lanes of one warp exchange through memory only across a barrier or warp_barrier().
// Shared and global memory are otherwise read and written by plain C++ accesses.
#pragma once

#ifdef PFPL_LANES
#include "lanes.h"
#else

#define PFPL_FN __device__ __forceinline__
#define PFPL_NOINLINE __device__ __noinline__
#define PFPL_MEMCPY memcpy
// PFPL_KERNEL(name, threads a block, blocks an SM)(parameters) { .. }; a by-value parameter that is indexed is a PFPL_PARAMETER
#define PFPL_KERNEL(NAME, THREADS, BLOCKS) extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME
#define PFPL_PARAMETER const __grid_constant__
#define PFPL_UNROLL _Pragma("unroll")
#define PFPL_ROLL _Pragma("unroll 1")

#include "../kernels_shared/format.h"

namespace pfpl {

struct alignas(8) Words2 { u32 x, y; };
struct alignas(16) Words4 { u32 x, y, z, w; };

// ---------------------------------------------------------------- the grid
PFPL_FN u32 thread_index() { return threadIdx.x; }
PFPL_FN u32 block_index() { return blockIdx.x; }
PFPL_FN u32 grid_blocks() { return gridDim.x; }
// The block's dynamic shared memory, 256-byte aligned.
template <class T> PFPL_FN T& shared_memory() { extern __shared__ __align__(256) unsigned char pfpl_shared[]; return *reinterpret_cast<T*>(pfpl_shared); }

// A shared variable's address within the block's shared memory, and back.  Arithmetic on it takes one operation where a pointer's takes two.
PFPL_FN u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
template <class T> PFPL_FN T* shared_at(u32 address) { return (T*)__cvta_shared_to_generic(address); }

// The launch may have begun while the work before it in the stream still ran (programmatic dependent launch, compute capability 9.0):
// waits until that is complete and its memory visible.  Every thread's first act, before any access to global memory.  No load goes
// through the non-coherent cache, whose contents may be older.
PFPL_FN void await_predecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---------------------------------------------------------------- barriers
PFPL_FN void barrier() { __syncthreads(); }
PFPL_FN bool barrier_or(bool p) { return __syncthreads_or(p) != 0; }       // also: does p hold in any thread of the block
PFPL_FN void warp_barrier() { __syncwarp(); }

// ---------------------------------------------------------------- a warp's 32 lanes
constexpr u32 ALL_LANES = 0xffffffffu;
PFPL_FN u32 ballot(bool p) { return __ballot_sync(ALL_LANES, p); }
PFPL_FN bool any(bool p) { return __any_sync(ALL_LANES, p) != 0; }
PFPL_FN u32 shuffle(u32 v, u32 lane) { return __shfl_sync(ALL_LANES, v, lane); }
PFPL_FN u32 shuffle_up(u32 v, u32 by) { return __shfl_up_sync(ALL_LANES, v, by); }         // the first `by` lanes keep their own
PFPL_FN u32 shuffle_down(u32 v, u32 by) { return __shfl_down_sync(ALL_LANES, v, by); }     // the last `by` lanes keep their own
PFPL_FN u32 shuffle_xor(u32 v, u32 mask) { return __shfl_xor_sync(ALL_LANES, v, mask); }
PFPL_FN u32 warp_sum(u32 v) {                   // in every lane
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(ALL_LANES, v);
#else
  PFPL_UNROLL for (u32 d = 16; d; d >>= 1) v += shuffle_xor(v, d);
  return v;
#endif
}
PFPL_FN u32 warp_or(u32 v) {                    // in every lane
#if __CUDA_ARCH__ >= 800
  return __reduce_or_sync(ALL_LANES, v);
#else
  PFPL_UNROLL for (u32 d = 16; d; d >>= 1) v |= shuffle_xor(v, d);
  return v;
#endif
}
PFPL_FN u32 warp_scan(u32 v) {                  // inclusive sums; the shuffle's own predicate says which lanes add
  PFPL_UNROLL for (u32 d = 1; d < 32; d <<= 1)
    asm volatile("{.reg .pred p; .reg .u32 t; shfl.sync.up.b32 t|p, %0, %1, 0, -1; @p add.u32 %0, %0, t;}" : "+r"(v) : "r"(d));
  return v;
}

// ---------------------------------------------------------------- bits
// Byte i of the result is byte (nibble i of `selector`) of the eight bytes low, high; the selectors' top bits are not used.
PFPL_FN u32 permute(u32 low, u32 high, u32 selector) { u32 d; asm("prmt.b32 %0,%1,%2,%3;" : "=r"(d) : "r"(low), "r"(high), "r"(selector)); return d; }
PFPL_FN u32 funnel_right(u32 low, u32 high, u32 by) { return __funnelshift_r(low, high, by); }      // low word of high:low >> (by & 31)
PFPL_FN u32 funnel_left(u32 low, u32 high, u32 by) { return __funnelshift_l(low, high, by); }       // high word of high:low << (by & 31)
// mask ? a : b, bit by bit, and the same with the result or with b inverted: one operation each, which the compiler does not always find
PFPL_FN u32 select(u32 mask, u32 a, u32 b) { u32 d; asm("lop3.b32 %0,%1,%2,%3,0xE2;" : "=r"(d) : "r"(a), "r"(mask), "r"(b)); return d; }
PFPL_FN u32 select_not(u32 mask, u32 a, u32 b) { u32 d; asm("lop3.b32 %0,%1,%2,%3,0x1D;" : "=r"(d) : "r"(a), "r"(mask), "r"(b)); return d; }
PFPL_FN u32 select_or_not(u32 mask, u32 a, u32 b) { u32 d; asm("lop3.b32 %0,%1,%2,%3,0xD1;" : "=r"(d) : "r"(a), "r"(mask), "r"(b)); return d; }
PFPL_FN u32 popcount(u32 v) { return __popc(v); }
PFPL_FN u32 lowest_bit(u32 v) { return __ffs(v) - 1; }                     // v != 0
// sum of the products of the four unsigned bytes of a and b, plus c
PFPL_FN u32 dot_bytes(u32 a, u32 b, u32 c) { u32 d; asm("dp4a.u32.u32 %0,%1,%2,%3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)); return d; }
// v itself; what is computed from it is computed here, not hoisted out of a loop or shared with an earlier use
PFPL_FN u32 opaque(u32 v) { asm volatile("" : "+r"(v)); return v; }
PFPL_FN u64 opaque(u64 v) { asm volatile("" : "+l"(v)); return v; }

// ---------------------------------------------------------------- floating point
PFPL_FN float max_nan(float a, float b) {       // the larger; NaN if either is
#if __CUDA_ARCH__ >= 800
  float d; asm("max.NaN.f32 %0,%1,%2;" : "=f"(d) : "f"(a), "f"(b)); return d;
#else
  return a > b || a != a ? a : b;
#endif
}

PFPL_FN float absolute(float v) { return fabsf(v); }           // a modifier of the operation that uses it
PFPL_FN double absolute(double v) { return fabs(v); }
PFPL_FN float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }      // a * b + c, rounded once
PFPL_FN double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
PFPL_FN float add_up(float a, float b) { return __fadd_ru(a, b); }         // rounded towards +infinity
PFPL_FN double add_up(double a, double b) { return __dadd_ru(a, b); }

// ---------------------------------------------------------------- memory
template <class T> PFPL_FN T* global(u64 address) { return (T*)address; }
// Device-scope accesses of global words that other blocks access at the same time.
PFPL_FN u32 load_relaxed(const u32* p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
PFPL_FN u64 load_relaxed(const u64* p) { u64 v; asm volatile("ld.relaxed.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory"); return v; }
PFPL_FN u32 load_acquire(const u32* p) { u32 v; asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
PFPL_FN u64 load_acquire(const u64* p) { u64 v; asm volatile("ld.acquire.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory"); return v; }
// p[WORDS]: the offset stays in the instruction, so that several loads share one address.
template <int WORDS> PFPL_FN u32 load_relaxed_at(const u32* p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0,[%1+%2];" : "=r"(v) : "l"(p), "n"(4 * WORDS) : "memory"); return v; }
PFPL_FN void store_relaxed(u32* p, u32 v) { asm volatile("st.relaxed.gpu.global.u32 [%0],%1;" :: "l"(p), "r"(v) : "memory"); }
PFPL_FN void store_relaxed(u64* p, u64 v) { asm volatile("st.relaxed.gpu.global.u64 [%0],%1;" :: "l"(p), "l"(v) : "memory"); }
PFPL_FN void store_release(u32* p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0],%1;" :: "l"(p), "r"(v) : "memory"); }
PFPL_FN void store_release(u64* p, u64 v) { asm volatile("st.release.gpu.global.u64 [%0],%1;" :: "l"(p), "l"(v) : "memory"); }
// Relaxed; each gives the value before.
PFPL_FN u32 fetch_add(u32* p, u32 v) { u32 d; asm volatile("atom.relaxed.gpu.global.add.u32 %0,[%1],%2;" : "=r"(d) : "l"(p), "r"(v) : "memory"); return d; }
PFPL_FN u64 fetch_add(u64* p, u64 v) { u64 d; asm volatile("atom.relaxed.gpu.global.add.u64 %0,[%1],%2;" : "=l"(d) : "l"(p), "l"(v) : "memory"); return d; }
PFPL_FN u64 fetch_max(u64* p, u64 v) { u64 d; asm volatile("atom.relaxed.gpu.global.max.u64 %0,[%1],%2;" : "=l"(d) : "l"(p), "l"(v) : "memory"); return d; }
// Acquire and release: orders this thread's (and, after a barrier, this block's) accesses before and after.
PFPL_FN u32 fetch_add_ordered(u32* p, u32 v) { u32 d; asm volatile("atom.acq_rel.gpu.global.add.u32 %0,[%1],%2;" : "=r"(d) : "l"(p), "r"(v) : "memory"); return d; }
PFPL_FN u64 fetch_add_ordered(u64* p, u64 v) { u64 d; asm volatile("atom.acq_rel.gpu.global.add.u64 %0,[%1],%2;" : "=l"(d) : "l"(p), "l"(v) : "memory"); return d; }
PFPL_FN void fence() { __threadfence(); }

// Asks for the line at `address` into the second-level cache.  That is where all agree on what memory holds, so it may come before
// await_predecessors(); an address that is not mapped did nothing where that
// was tried (an H200, with and without compute-sanitizer).
PFPL_FN void prefetch(u64 address) { asm volatile("prefetch.global.L2 [%0];" :: "l"(address)); }
// Global memory at a 16-byte aligned address.
PFPL_FN void store_words(Words4* p, Words4 v) { asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};" :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory"); }

// Appends `bytes`, up to position `next` (in bits), to a stream of bytes whose last, unfinished word is `window`; a word that is finished
// is stored at `address`.  One predicate does the rest.
PFPL_FN void append(u32& window, u32& position, u32& address, u32 bytes, u32 next) {
  asm volatile("{.reg .pred p; .reg .u32 t; shf.l.wrap.b32 t,0,%3,%1; or.b32 %0,%0,t; xor.b32 t,%1,%4; and.b32 t,t,0xffffffe0; setp.ne.u32 p,t,0;"
               "@p st.shared.u32 [%2],%0; @p add.u32 %2,%2,4; @p shf.l.wrap.b32 %0,%3,0,%1; mov.u32 %1,%4;}"
               : "+r"(window), "+r"(position), "+r"(address) : "r"(bytes), "r"(next) : "memory");
}

// Copies into shared memory that complete at the thread's next copies_wait(): BYTES (4, 8, 16) at addresses aligned to that; of the
// source only the first `wanted` bytes are read, and the rest of the destination is zeroed.  Other threads see them after a barrier.
template <u32 BYTES> PFPL_FN void copy_async(void* shared, const void* global, u32 wanted = BYTES) {
#if __CUDA_ARCH__ >= 800
  const u32 s = (u32)__cvta_generic_to_shared(shared);
  if constexpr (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" :: "r"(s), "l"(global), "r"(wanted) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0],[%1],%2,%3;" :: "r"(s), "l"(global), "n"(BYTES), "r"(wanted) : "memory");
#else
  if (BYTES == 16 && wanted == 16) *(Words4*)shared = *(const Words4*)global;
  else if (BYTES == 8 && wanted == 8) *(Words2*)shared = *(const Words2*)global;
  else PFPL_UNROLL for (u32 i = 0; i < BYTES; i += 4) {
    u32 v = 0;
    if (wanted >= i + 4) v = *(const u32*)((const u8*)global + i);
    else for (u32 b = 0; b < 4; b++) if (i + b < wanted) v |= (u32)((const u8*)global)[i + b] << (8 * b);
    *(u32*)((u8*)shared + i) = v;
  }
#endif
}
PFPL_FN void copy_async(void* shared, const void* global) {                // 16 bytes
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0],[%1],16;" :: "r"((u32)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
#else
  *(Words4*)shared = *(const Words4*)global;
#endif
}
PFPL_FN void copies_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace pfpl
#endif
