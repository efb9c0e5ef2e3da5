// What the AMD kernels need of the machine, each as a plain function: clang's built-ins here; with PFPL_LANES defined, the same names on
// top of the executor that runs these sources lane by lane on the CPU.  No other file uses a built-in.  The compiler is given the wave
// width as PFPL_WAVE: 64 or 32.
//
// Rules the kernel sources keep: every wave primitive is called by all WAVE lanes, barriers by all threads of the block; lanes of a wave
// exchange through shared memory only across a barrier or warp_barrier().  Global memory is reached through the functions below (a
// pointer made from an address would compile to flat instructions); shared memory by plain C++ accesses.
#pragma once

#ifdef PFPL_LANES
#include "platform_lanes.h"
#else

#define PFPL_FN __attribute__((device)) inline __attribute__((always_inline))
#define PFPL_UNROLL _Pragma("unroll")
#define PFPL_ROLL _Pragma("nounroll")
#define PFPL_GLOBAL __attribute__((address_space(1)))
#define PFPL_CONSTANT __attribute__((address_space(4)))
#define PFPL_SHARED(TYPE, NAME) __attribute__((shared)) TYPE NAME
// PFPL_KERNEL(name, threads a block, waves a SIMD)(parameters) { .. }
#define PFPL_KERNEL(NAME, THREADS, WAVES) extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS, THREADS), amdgpu_waves_per_eu(WAVES))) void NAME

#include "../kernels_shared/format.h"

namespace pfpl {

constexpr u32 WAVE = PFPL_WAVE;
template <u32 W> struct MaskOf;
template <> struct MaskOf<32> { using Type = u32; };
template <> struct MaskOf<64> { using Type = u64; };
using Mask = MaskOf<WAVE>::Type;                // one bit a lane

typedef float Pair __attribute__((vector_size(8)));
struct alignas(16) Words4 { u32 x, y, z, w; };

// ---------------------------------------------------------------- the grid
PFPL_FN u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
PFPL_FN u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
// The number of blocks: the dispatch packet's grid size is in threads.
PFPL_FN u32 grid_blocks(u32 threads) { return ((const u32 PFPL_CONSTANT*)__builtin_amdgcn_dispatch_ptr())[3] / threads; }
PFPL_FN u32 lane_index() { return WAVE == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)) : __builtin_amdgcn_mbcnt_lo(~0u, 0); }
// A kernel's arguments and fields: read-only during the launch, so that uniform reads are scalar.  The fields are in device memory, or
// behind Launch in the arguments.
using LaunchPointer = const Launch PFPL_CONSTANT*;
template <class Field> using FieldPointer = const Field PFPL_CONSTANT*;
PFPL_FN LaunchPointer launch_of(const Launch&) { return (LaunchPointer)__builtin_amdgcn_kernarg_segment_ptr(); }
template <class Field, class List> PFPL_FN FieldPointer<Field> fields_of(LaunchPointer launch, const List&) {
  return launch->list ? (FieldPointer<Field>)launch->list : (FieldPointer<Field>)(launch + 1);
}
// v itself, in a way that keeps what is computed from it from being hoisted or merged.
PFPL_FN u32 opaque(u32 v) { asm volatile("" : "+v"(v)); return v; }
PFPL_FN u32 opaque_uniform(u32 v) { asm volatile("" : "+s"(v)); return v; }
// The same pointer: what is read through it is read here, not kept in registers since an earlier read.
template <class T> PFPL_FN const T PFPL_CONSTANT* again(const T PFPL_CONSTANT* f) { asm volatile("" : "+s"(f)); return f; }

// ---------------------------------------------------------------- barriers
PFPL_FN void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
PFPL_FN void warp_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}

// ---------------------------------------------------------------- a wave's lanes
PFPL_FN Mask ballot(bool p) {
#if PFPL_WAVE == 64
  return __builtin_amdgcn_ballot_w64(p);
#else
  return __builtin_amdgcn_ballot_w32(p);
#endif
}
PFPL_FN bool any(bool p) { return ballot(p) != 0; }
PFPL_FN u32 uniform(u32 v) { return __builtin_amdgcn_readfirstlane(v); }                   // v is the same in all lanes
PFPL_FN u64 uniform(u64 v) { return (u64)uniform((u32)(v >> 32)) << 32 | uniform((u32)v); }
PFPL_FN u32 lane_value(u32 v, u32 lane) { return __builtin_amdgcn_readlane(v, lane); }     // `lane` is the same in all lanes
PFPL_FN u32 shuffle(u32 v, u32 lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, v); }
PFPL_FN u32 lanes_below(Mask m) {                                                          // bits of m below this lane's
#if PFPL_WAVE == 64
  return __builtin_amdgcn_mbcnt_hi((u32)(m >> 32), __builtin_amdgcn_mbcnt_lo((u32)m, 0));
#else
  return __builtin_amdgcn_mbcnt_lo(m, 0);
#endif
}
namespace dpp {                                 // data-parallel primitives: operand lanes chosen by the instruction
constexpr int QUAD_SAME = 0xE4, QUAD_XOR_1 = 0xB1, QUAD_XOR_2 = 0x4E, ROW_SHIFT_1 = 0x111, ROW_SHIFT_2 = 0x112, ROW_SHIFT_4 = 0x114, ROW_SHIFT_8 = 0x118;
constexpr int WAVE_SHIFT_1 = 0x138, ROW_BROADCAST_15 = 0x142, ROW_BROADCAST_31 = 0x143;
constexpr int ALL = 0xf, ODD_ROWS = 0xa, UPPER_ROWS = 0xc;
template <int CONTROL, int ROWS = ALL> PFPL_FN u32 move(u32 old, u32 v) { return __builtin_amdgcn_update_dpp(old, v, CONTROL, ROWS, 0xf, false); }
PFPL_FN u32 last_of_other_row(u32 v) { return __builtin_amdgcn_permlanex16(0, v, ~0u, ~0u, true, false); }     // gfx10 and later
}  // namespace dpp
template <u32 BY> PFPL_FN u32 shuffle_xor(u32 v) {
  static_assert(BY == 1 || BY == 2);
  return dpp::move<BY == 1 ? dpp::QUAD_XOR_1 : dpp::QUAD_XOR_2>(v, v);
}
PFPL_FN u32 lane_before(u32 v, u32 first) {     // v of the lane before; `first` in lane 0
#ifdef __GFX9__
  return dpp::move<dpp::WAVE_SHIFT_1>(first, v);
#else
  u32 into = first;
  if (WAVE == 64) into = lane_index() < 32 ? first : lane_value(v, 31);
  into = dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(into, dpp::last_of_other_row(v));
  return dpp::move<dpp::ROW_SHIFT_1>(into, v);
#endif
}
PFPL_FN u32 warp_scan(u32 v) {                  // inclusive sums
  v += dpp::move<dpp::ROW_SHIFT_1>(0, v);
  v += dpp::move<dpp::ROW_SHIFT_2>(0, v);
  v += dpp::move<dpp::ROW_SHIFT_4>(0, v);
  v += dpp::move<dpp::ROW_SHIFT_8>(0, v);
#ifdef __GFX9__
  v += dpp::move<dpp::ROW_BROADCAST_15, dpp::ODD_ROWS>(0, v);
  v += dpp::move<dpp::ROW_BROADCAST_31, dpp::UPPER_ROWS>(0, v);
#else
  v += dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(0, dpp::last_of_other_row(v));
  if (WAVE == 64) v += lane_index() < 32 ? 0 : lane_value(v, 31);
#endif
  return v;
}
PFPL_FN u32 row_scan_4(u32 v) { v += dpp::move<dpp::ROW_SHIFT_1>(0, v); return v + dpp::move<dpp::ROW_SHIFT_2>(0, v); }     // inclusive sums, right in the first 4 lanes
PFPL_FN u32 row_scan_8(u32 v) { v = row_scan_4(v); return v + dpp::move<dpp::ROW_SHIFT_4>(0, v); }                          // in the first 8
// What a row mask does to the carry of the lanes it disables is not documented: opaque() keeps masked moves out of the additions.
PFPL_FN u64 warp_scan(u64 v) {
  const auto add = [&](u32 low, u32 high) { v += (u64)high << 32 | low; };
  add(dpp::move<dpp::ROW_SHIFT_1>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_1>(0, (u32)(v >> 32)));
  add(dpp::move<dpp::ROW_SHIFT_2>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_2>(0, (u32)(v >> 32)));
  add(dpp::move<dpp::ROW_SHIFT_4>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_4>(0, (u32)(v >> 32)));
  add(dpp::move<dpp::ROW_SHIFT_8>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_8>(0, (u32)(v >> 32)));
#ifdef __GFX9__
  add(opaque(dpp::move<dpp::ROW_BROADCAST_15, dpp::ODD_ROWS>(0, (u32)v)), opaque(dpp::move<dpp::ROW_BROADCAST_15, dpp::ODD_ROWS>(0, (u32)(v >> 32))));
  add(opaque(dpp::move<dpp::ROW_BROADCAST_31, dpp::UPPER_ROWS>(0, (u32)v)), opaque(dpp::move<dpp::ROW_BROADCAST_31, dpp::UPPER_ROWS>(0, (u32)(v >> 32))));
#else
  add(opaque(dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(0, dpp::last_of_other_row((u32)v))), opaque(dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(0, dpp::last_of_other_row((u32)(v >> 32)))));
  if (WAVE == 64) { const u32 low = lane_value((u32)v, 31), high = lane_value((u32)(v >> 32), 31), upper = lane_index() < 32 ? 0 : ~0u; add(low & upper, high & upper); }
#endif
  return v;
}

// ---------------------------------------------------------------- bits
// Byte i of the result is byte (byte i of `selector`) of the eight bytes low, high; 0x0C gives 0.
PFPL_FN u32 permute_bytes(u32 low, u32 high, u32 selector) { return __builtin_amdgcn_perm(high, low, selector); }
PFPL_FN u32 select(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }            // v_bfi_b32
PFPL_FN u32 align_bytes(u32 low, u32 high, u32 by) { return __builtin_amdgcn_alignbyte(high, low, by); }     // low word of high:low >> 8 (by & 3)
PFPL_FN u32 shift_right(u32 v, u32 by) { return __builtin_amdgcn_alignbit(0, v, by); }     // v >> (by & 31)
PFPL_FN u32 popcount(u32 v) { return __builtin_popcount(v); }
PFPL_FN u32 popcount(u64 v) { return __builtin_popcountll(v); }
PFPL_FN u32 lowest_bit(u32 v) { return __builtin_ctz(v); }                                 // v != 0
PFPL_FN u32 lowest_bit(u64 v) { return __builtin_ctzll(v); }
// Sum of the products of the four unsigned bytes of a and b, plus c.
PFPL_FN u32 dot_bytes(u32 a, u32 b, u32 c) {
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || (!defined(__GFX9__) && !defined(__gfx1010__) && !defined(__gfx1013__))
  return __builtin_amdgcn_udot4(a, b, c, false);
#else
  PFPL_UNROLL for (u32 i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
#endif
}
PFPL_FN float larger(float a, float b) { return __builtin_fmaxf(a, b); }                   // of numbers: NaN loses

// ---------------------------------------------------------------- global memory, by address
PFPL_FN u32 load_word(u64 at) { return *(const u32 PFPL_GLOBAL*)at; }
PFPL_FN u32 load_byte(u64 at) { return *(const u8 PFPL_GLOBAL*)at; }
typedef u32 UnitVector __attribute__((ext_vector_type(4), aligned(4)));                   // a unit of four words; word alignment is enough
PFPL_FN Words4 load_unit(u64 at) { const UnitVector v = *(const UnitVector PFPL_GLOBAL*)at; return {v.x, v.y, v.z, v.w}; }
PFPL_FN void store_unit(u64 at, Words4 v) { UnitVector u; u.x = v.x; u.y = v.y; u.z = v.z; u.w = v.w; *(UnitVector PFPL_GLOBAL*)at = u; }
PFPL_FN void store_word(u64 at, u32 v) { *(u32 PFPL_GLOBAL*)at = v; }
PFPL_FN void store_byte(u64 at, u32 v) { *(u8 PFPL_GLOBAL*)at = (u8)v; }
PFPL_FN const u32* words_at(u64 at) { return (const u32*)(const u32 PFPL_GLOBAL*)at; }
// Words that other blocks access at the same time: agent scope.
PFPL_FN u64 load_relaxed(u64 at) { return __hip_atomic_load((u64 PFPL_GLOBAL*)at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN void store_relaxed(u64 at, u64 v) { __hip_atomic_store((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN void store_release(u64 at, u64 v) { __hip_atomic_store((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
// Each gives the value before.
PFPL_FN u64 fetch_add(u64 at, u64 v) { return __hip_atomic_fetch_add((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN u64 fetch_add_ordered(u64 at, u64 v) { return __hip_atomic_fetch_add((u64 PFPL_GLOBAL*)at, v, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN u64 fetch_max(u64 at, u64 v) { return __hip_atomic_fetch_max((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN void fence_acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
PFPL_FN void pause() { __builtin_amdgcn_s_sleep(1); }

}  // namespace pfpl
#endif
