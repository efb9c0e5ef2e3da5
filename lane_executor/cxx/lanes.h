// The CUDA kernels' platform on the executor: every name that kernels_cuda/platform.h defines for the device.
#pragma once
#include "executor.h"
#include <cmath>
#include <limits>

#define PFPL_FN inline
#define PFPL_NOINLINE __attribute__((noinline))
#define PFPL_MEMCPY __builtin_memcpy
#define PFPL_KERNEL(NAME, THREADS, BLOCKS) LANES_THREADS(NAME, THREADS) static void NAME
#define PFPL_PARAMETER const
#define PFPL_UNROLL
#define PFPL_ROLL

#include "format.h"

namespace pfpl {

struct alignas(8) Words2 { u32 x, y; };
struct alignas(16) Words4 { u32 x, y, z, w; };

PFPL_FN u32 thread_index() { return lanes_thread(); }
PFPL_FN u32 block_index() { return lanes_block(); }
PFPL_FN u32 grid_blocks() { return lanes_blocks(); }
PFPL_FN void await_predecessors() { lanes_await(); }
template <class T> PFPL_FN T& shared_memory() { return *(T*)lanes_shared(nullptr, sizeof(T)); }
PFPL_FN u32 shared_address(const void* p) { return (u32)((const u8*)p - (const u8*)lanes_shared(nullptr, 0)); }
template <class T> PFPL_FN T* shared_at(u32 address) { return (T*)((u8*)lanes_shared(nullptr, 0) + address); }

PFPL_FN void barrier() { lanes_barrier(lanes::NONE, 0); }
PFPL_FN bool barrier_or(bool p) { return lanes_barrier(lanes::OR, p) != 0; }
PFPL_FN void warp_barrier() { lanes_warp_barrier(); }

constexpr u32 WARP = LANES_WIDTH;
using Ballot = std::conditional_t<WARP == 64, u64, u32>;
constexpr u32 ALL_LANES = 0xffffffffu;
PFPL_FN Ballot ballot(bool p) { return (Ballot)lanes_collective(lanes::BALLOT, p, 0); }
PFPL_FN bool any(bool p) { return ballot(p) != 0; }
PFPL_FN u32 shuffle(u32 v, u32 lane) { return (u32)lanes_collective(lanes::SHUFFLE, v, lane % WARP); }
PFPL_FN u32 shuffle_up(u32 v, u32 by) { const u32 lane = lanes_thread() % WARP; return shuffle(v, lane < by ? lane : lane - by); }
PFPL_FN u32 shuffle_down(u32 v, u32 by) { const u32 lane = lanes_thread() % WARP; return shuffle(v, lane + by < WARP ? lane + by : lane); }
PFPL_FN u32 shuffle_xor(u32 v, u32 mask) { return shuffle(v, lanes_thread() % WARP ^ mask); }
PFPL_FN u32 warp_sum(u32 v) { return (u32)lanes_collective(lanes::ADD, v, 0); }
PFPL_FN u32 warp_or(u32 v) { return (u32)lanes_collective(lanes::OR, v, 0); }
PFPL_FN u32 warp_scan(u32 v) { return (u32)lanes_collective(lanes::SCAN, v, 0); }

// NVIDIA's prmt: the top bit of a selector's nibble spreads the sign of the byte
PFPL_FN u32 permute(u32 low, u32 high, u32 selector) {
  const u64 bytes = (u64)high << 32 | low;
  u32 d = 0;
  for (u32 i = 0; i < 4; i++) {
    const u32 nibble = selector >> (4 * i) & 15, byte = (u32)(bytes >> (nibble & 7) * 8) & 255;
    d |= (nibble < 8 ? byte : byte >> 7 ? 255 : 0) << (8 * i);
  }
  return d;
}
PFPL_FN u32 funnel_right(u32 low, u32 high, u32 by) { return (u32)(((u64)high << 32 | low) >> (by & 31)); }
PFPL_FN u32 funnel_left(u32 low, u32 high, u32 by) { return (u32)((((u64)high << 32 | low) << (by & 31)) >> 32); }
PFPL_FN u32 select(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }
PFPL_FN u32 select_not(u32 mask, u32 a, u32 b) { return ~select(mask, a, b); }
PFPL_FN u32 select_or_not(u32 mask, u32 a, u32 b) { return select(mask, a, ~b); }
PFPL_FN u32 popcount(u32 v) { return (u32)__builtin_popcount(v); }
PFPL_FN u32 lowest_bit(u32 v) { return (u32)__builtin_ffs((int)v) - 1; }
PFPL_FN u32 dot_bytes(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
PFPL_FN u32 opaque(u32 v) { return v; }
PFPL_FN u64 opaque(u64 v) { return v; }
PFPL_FN float max_nan(float a, float b) { return a > b || a != a ? a : b; }
PFPL_FN float absolute(float v) { return std::fabs(v); }
PFPL_FN double absolute(double v) { return std::fabs(v); }
PFPL_FN float fused(float a, float b, float c) { return std::fma(a, b, c); }
PFPL_FN double fused(double a, double b, double c) { return std::fma(a, b, c); }
template <class T> PFPL_FN T add_up(T a, T b) {
  const T sum = a + b, high = sum - a, lost = (a - (sum - high)) + (b - high);        // lost: exactly what rounding took off
  return lost > 0 ? std::nextafter(sum, std::numeric_limits<T>::infinity()) : sum;
}

PFPL_FN u32 load_relaxed(const u32* p) { return (u32)lanes_load(p, 4, lanes::RELAXED); }
PFPL_FN u64 load_relaxed(const u64* p) { return lanes_load(p, 8, lanes::RELAXED); }
PFPL_FN u32 load_acquire(const u32* p) { return (u32)lanes_load(p, 4, lanes::ACQUIRE); }
PFPL_FN u64 load_acquire(const u64* p) { return lanes_load(p, 8, lanes::ACQUIRE); }
PFPL_FN void store_relaxed(u32* p, u32 v) { lanes_store(p, 4, v, lanes::RELAXED); }
PFPL_FN void store_relaxed(u64* p, u64 v) { lanes_store(p, 8, v, lanes::RELAXED); }
PFPL_FN void store_release(u32* p, u32 v) { lanes_store(p, 4, v, lanes::RELEASE); }
PFPL_FN void store_release(u64* p, u64 v) { lanes_store(p, 8, v, lanes::RELEASE); }
PFPL_FN u32 fetch_add(u32* p, u32 v) { return (u32)lanes_update(p, 4, lanes::ADD, v, 0, lanes::RELAXED); }
PFPL_FN u64 fetch_add(u64* p, u64 v) { return lanes_update(p, 8, lanes::ADD, v, 0, lanes::RELAXED); }
PFPL_FN u64 fetch_max(u64* p, u64 v) { return lanes_update(p, 8, lanes::MAX, v, 0, lanes::RELAXED); }
PFPL_FN u32 fetch_add_ordered(u32* p, u32 v) { return (u32)lanes_update(p, 4, lanes::ADD, v, 0, lanes::ACQ_REL); }
PFPL_FN u64 fetch_add_ordered(u64* p, u64 v) { return lanes_update(p, 8, lanes::ADD, v, 0, lanes::ACQ_REL); }
PFPL_FN void fence() { lanes_fence(lanes::ACQ_REL); }

template <int WORDS> PFPL_FN u32 load_relaxed_at(const u32* p) { return load_relaxed(p + WORDS); }
template <class T> PFPL_FN T* global(u64 address) { return (T*)address; }

PFPL_FN void prefetch(u64) {}
PFPL_FN void store_words(Words4* p, Words4 v) { *p = v; }

PFPL_FN void append(u32& window, u32& position, u32& address, u32 bytes, u32 next) {
  window |= funnel_left(0, bytes, position);
  if ((next ^ position) & ~31u) {
    *shared_at<u32>(address) = window;
    address += 4;
    window = funnel_left(bytes, 0, position);
  }
  position = next;
}

template <u32 BYTES> PFPL_FN void copy_async(void* shared, const void* global, u32 wanted = BYTES) { lanes_copy(shared, global, BYTES, wanted); }
PFPL_FN void copy_async(void* shared, const void* global) { copy_async<16>(shared, global); }
PFPL_FN void copies_wait() { lanes_copy_wait(); }

}  // namespace pfpl
