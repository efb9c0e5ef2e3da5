// The AMD kernels' platform on the executor: every name that kernels_amd/platform.h defines for the device.
#pragma once
#include "executor.h"

#define PFPL_FN inline
#define PFPL_UNROLL
#define PFPL_ROLL
#define PFPL_SHARED(TYPE, NAME) static const char NAME##_key = 0; TYPE& NAME = *(TYPE*)lanes_shared(&NAME##_key, sizeof(TYPE))
#define PFPL_KERNEL(NAME, THREADS, WAVES) LANES_THREADS(NAME, THREADS) static void NAME

#include "format.h"

namespace pfpl {

constexpr u32 WAVE = LANES_WIDTH;
using Mask = std::conditional_t<WAVE == 64, u64, u32>;

typedef float Pair __attribute__((vector_size(8)));
struct alignas(16) Words4 { u32 x, y, z, w; };

PFPL_FN u32 thread_index() { return lanes_thread(); }
PFPL_FN u32 block_index() { return lanes_block(); }
PFPL_FN u32 grid_blocks(u32) { return lanes_blocks(); }
PFPL_FN u32 lane_index() { return lanes_thread() % WAVE; }
using LaunchPointer = const Launch*;
template <class Field> using FieldPointer = const Field*;
PFPL_FN LaunchPointer launch_of(const Launch& launch) { return &launch; }
template <class Field, class List> PFPL_FN FieldPointer<Field> fields_of(LaunchPointer launch, const List& list) {
  return launch->list ? (FieldPointer<Field>)launch->list : list.field;
}
template <class T> PFPL_FN const T* again(const T* f) { return f; }

PFPL_FN void barrier() { lanes_barrier(lanes::NONE, 0); }
PFPL_FN void warp_barrier() { lanes_warp_barrier(); }

PFPL_FN Mask ballot(bool p) { return (Mask)lanes_collective(lanes::BALLOT, p, 0); }
PFPL_FN bool any(bool p) { return ballot(p) != 0; }
PFPL_FN u32 shuffle(u32 v, u32 lane) { return (u32)lanes_collective(lanes::SHUFFLE, v, lane % WAVE); }
PFPL_FN u32 uniform(u32 v) {
  const u32 first = shuffle(v, 0);
  if (v != first) lanes_fail("not uniform", v);
  return first;
}
PFPL_FN u64 uniform(u64 v) { return (u64)uniform((u32)(v >> 32)) << 32 | uniform((u32)v); }
PFPL_FN u32 lane_value(u32 v, u32 lane) { return shuffle(v, lane); }
PFPL_FN u32 popcount(u32 v) { return (u32)__builtin_popcount(v); }
PFPL_FN u32 popcount(u64 v) { return (u32)__builtin_popcountll(v); }
PFPL_FN u32 lanes_below(Mask m) { return popcount(m & (((Mask)1 << lane_index()) - 1)); }
template <u32 BY> PFPL_FN u32 shuffle_xor(u32 v) { return shuffle(v, lane_index() ^ BY); }
PFPL_FN u32 lane_before(u32 v, u32 first) {
  const u32 lane = lane_index(), before = shuffle(v, lane - 1);
  return lane ? before : first;
}
PFPL_FN u32 warp_scan(u32 v) { return (u32)lanes_collective(lanes::SCAN, v, 0); }
PFPL_FN u64 warp_scan(u64 v) { return lanes_collective(lanes::SCAN, v, 0); }
// right in a row's first lanes only
PFPL_FN u32 row_scan_4(u32 v) { const u32 sums = warp_scan(v); return lane_index() < 4 ? sums : ~sums; }
PFPL_FN u32 row_scan_8(u32 v) { const u32 sums = warp_scan(v); return lane_index() < 8 ? sums : ~sums; }

// v_perm_b32: 8 to 11 spread the sign of an odd byte, 12 gives 0, above gives ones
PFPL_FN u32 permute_bytes(u32 low, u32 high, u32 selector) {
  const u64 bytes = (u64)high << 32 | low;
  u32 d = 0;
  for (u32 i = 0; i < 32; i += 8) {
    const u32 s = selector >> i & 255;
    const u32 byte = s < 8 ? (u32)(bytes >> 8 * s) & 255 : s < 12 ? (bytes >> (16 * (s - 8) + 15) & 1 ? 255 : 0) : s == 12 ? 0 : 255;
    d |= byte << i;
  }
  return d;
}
PFPL_FN u32 select(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }
PFPL_FN u32 align_bytes(u32 low, u32 high, u32 by) { return (u32)(((u64)high << 32 | low) >> 8 * (by & 3)); }
PFPL_FN u32 lowest_bit(u32 v) { return (u32)__builtin_ctz(v); }
PFPL_FN u32 lowest_bit(u64 v) { return (u32)__builtin_ctzll(v); }
PFPL_FN u32 dot_bytes(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
PFPL_FN u32 shift_right(u32 v, u32 by) { return v >> (by & 31); }
PFPL_FN float larger(float a, float b) { return a != a ? b : b != b ? a : a > b ? a : b; }
PFPL_FN u32 opaque(u32 v) { return v; }
PFPL_FN u32 opaque_uniform(u32 v) { return v; }

PFPL_FN u32 load_word(u64 at) { return *(const u32*)at; }
PFPL_FN u32 load_byte(u64 at) { return *(const u8*)at; }
PFPL_FN Words4 load_unit(u64 at) { const u32* p = (const u32*)at; return {p[0], p[1], p[2], p[3]}; }
PFPL_FN void store_word(u64 at, u32 v) { *(u32*)at = v; }
PFPL_FN void store_byte(u64 at, u32 v) { *(u8*)at = (u8)v; }
PFPL_FN void store_unit(u64 at, Words4 v) { store_word(at, v.x); store_word(at + 4, v.y); store_word(at + 8, v.z); store_word(at + 12, v.w); }
PFPL_FN const u32* words_at(u64 at) { return (const u32*)at; }
PFPL_FN u64 load_relaxed(u64 at) { return lanes_load((const void*)at, 8, lanes::RELAXED); }
PFPL_FN void store_relaxed(u64 at, u64 v) { lanes_store((void*)at, 8, v, lanes::RELAXED); }
PFPL_FN void store_release(u64 at, u64 v) { lanes_store((void*)at, 8, v, lanes::RELEASE); }
PFPL_FN u64 fetch_add(u64 at, u64 v) { return lanes_update((void*)at, 8, lanes::ADD, v, 0, lanes::RELAXED); }
PFPL_FN u64 fetch_add_ordered(u64 at, u64 v) { return lanes_update((void*)at, 8, lanes::ADD, v, 0, lanes::ACQ_REL); }
PFPL_FN u64 fetch_max(u64 at, u64 v) { return lanes_update((void*)at, 8, lanes::MAX, v, 0, lanes::RELAXED); }
PFPL_FN void fence_acquire() { lanes_fence(lanes::ACQUIRE); }
PFPL_FN void pause() { lanes_pause(); }

}  // namespace pfpl
