// Small kernels, right ones and their mutations: they prove that the executor finds what it claims to find.
#include "lanes.h"
using namespace pfpl;

namespace {
constexpr u32 THREADS = 128;

// out[i] = sum of in[0..=i] within the block, through shared memory; each flag drops one barrier
template <bool FIRST, bool SECOND> void scan(const u32* in, u32* out) {
  u32* const s = &shared_memory<u32>();
  const u32 t = thread_index(), at = block_index() * THREADS + t;
  s[t] = in[at];
  if (FIRST) barrier();
  for (u32 d = 1; d < THREADS; d *= 2) {
    const u32 v = t >= d ? s[t - d] : 0;
    if (SECOND) barrier();
    s[t] += v;
    barrier();
  }
  out[at] = s[t];
}

// a warp's lanes exchange through shared memory; KIND: what stands between
enum class Between { WARP_BARRIER, BALLOT, NOTHING };
template <Between KIND> void exchange(const u32* in, u32* out) {
  u32* const s = &shared_memory<u32>();
  const u32 t = thread_index(), at = block_index() * THREADS + t;
  s[t] = in[at];
  if (KIND == Between::WARP_BARRIER) warp_barrier();
  if (KIND == Between::BALLOT) ballot(true);
  out[at] = s[t ^ 1];
}

// each block adds up its input and passes a plain payload on behind a flag
enum class Pass { ORDERED, RELAXED_STORE, RELAXED_LOAD, FENCES, NO_SECOND_FENCE, NO_BARRIER };
template <Pass KIND> void chain(const u32* in, u32* out, u32* flags, u32* ticket) {
  u32* const s = &shared_memory<u32>();
  const u32 t = thread_index();
  if (t == 0) s[0] = fetch_add(ticket, 1);
  barrier();
  const u32 b = s[0];
  u32* const payload = out + b * THREADS;
  if (t == 0 && b) {
    const u32* const before = flags + b - 1;
    if (KIND == Pass::RELAXED_LOAD || KIND == Pass::FENCES || KIND == Pass::NO_SECOND_FENCE) while (!load_relaxed(before)) {}
    else while (!load_acquire(before)) {}
    if (KIND == Pass::FENCES) fence();
  }
  barrier();
  payload[t] = in[b * THREADS + t] + (b ? payload[(int)t - (int)THREADS] : 0);
  if (KIND != Pass::NO_BARRIER) barrier();
  if (t == 0) {
    if (KIND == Pass::FENCES || KIND == Pass::NO_SECOND_FENCE) fence();
    if (KIND == Pass::ORDERED || KIND == Pass::RELAXED_LOAD || KIND == Pass::NO_BARRIER) store_release(flags + b, 1);
    else store_relaxed(flags + b, 1);
  }
}

// message passing by two atomic words: out[0] = 1 when the second word's news came without the first's
template <bool ORDERED> void message(u32* words, u32* out) {
  if (thread_index()) return;
  if (block_index() == 0) {
    store_relaxed(words, 1);
    if (ORDERED) store_release(words + 1, 1); else store_relaxed(words + 1, 1);
  } else {
    while (!(ORDERED ? load_acquire(words + 1) : load_relaxed(words + 1))) {}
    *out = load_relaxed(words) == 0;
  }
}

// a release goes on through another block's update: 0 writes and releases, 1 adds, 2 acquires
void relay(u32* words, u32* out) {
  if (thread_index()) return;
  const u32 b = block_index();
  if (b == 0) { out[0] = 7; fetch_add_ordered(words, 1); }
  if (b == 1) { while (!load_relaxed(words)) {} fetch_add(words, 1); }
  if (b == 2) { while (load_acquire(words) != 2) {} out[1] = out[0]; }
}

// every block reads words[0] and then draws; the last draw of all changes words[0]
template <bool ORDERED> void retire(u32* words) {
  if (thread_index()) return;
  const u32 epoch = load_relaxed(words);
  const u32 draw = ORDERED ? fetch_add_ordered(words + 1, 1) : fetch_add(words + 1, 1);
  if (draw == grid_blocks() - 1) store_relaxed(words, epoch + 1);
}

// rows are copied asynchronously, one ahead; each flag drops one thing
template <bool WAIT, bool ARRIVED, bool CONSUMED> void copies(const u32* in, u32* out) {
  u32* const s = &shared_memory<u32>();
  const u32 t = thread_index();
  copy_async<4>(s + t, in + t);
  for (u32 row = 0; row < 3; row++) {
    if (WAIT) copies_wait();
    if (ARRIVED) barrier();
    const u32 v = s[THREADS - 1 - t];
    if (CONSUMED) barrier();
    if (row < 2) copy_async<4>(s + t, in + (row + 1) * THREADS + t, row == 1 && t == 0 ? 2 : 4);
    out[row * THREADS + t] = v;
  }
}

// one lane does `what` to `in` (4096 bytes, only read) or `out`
void touch(const u32* in, u32* out, u32 what, u32 at) {
  u8* const s = &shared_memory<u8>();
  if (thread_index() != 5) return;
  const u8* const i = (const u8*)in;
  u8* const o = (u8*)out;
  switch (what) {
    case 0: *out = i[at]; break;
    case 1: o[at] = 1; break;
    case 2: ((u8*)in)[at] = 1; break;
    case 3: *out = *(const u32*)(i + at); break;
    case 4: *(Words4*)(o + at) = Words4{1, 2, 3, 4}; break;
    case 5: s[at] = 1; break;
    case 6: *out = s[at]; break;
    case 7: copy_async<16>(s, i + at); break;
    case 8: __builtin_memcpy(o + at, &what, 4); break;
    case 9: fetch_add((u32*)(o + at), 1); break;
    case 10: *out = o[at]; break;
    case 11: { static const u32 powers[4] = {1, 2, 4, 8}; *out = powers[at]; break; }
    case 12: *out = 1u << at; break;
  }
}

// lanes go apart
void diverge(u32 what) {
  const u32 t = thread_index();
  if (what == 0 && t % 2) ballot(true);
  if (what == 1 && t < 40) barrier();
  if (what == 2) { if (t % 2) warp_barrier(); else warp_sum(1); }
  if (what == 3) { if (t < WARP) barrier(); else barrier_or(true); return; }
  if (what == 4 && t == 3) return;
  barrier();
}

// block 0 waits for block 1
void wait_for_later(u32* flag) {
  if (thread_index()) return;
  if (block_index() == 0) while (!load_acquire(flag)) {}
  else store_release(flag, 1);
}

// reductions, scans and shuffles: eight words a lane
void collectives(u32* out) {
  const u32 t = thread_index(), v = t * 2654435761u;
  u32* const o = out + t * 8;
  const Ballot b = ballot(v >> 31);
  o[0] = (u32)b; o[1] = (u32)((u64)b >> 32); o[2] = warp_sum(v); o[3] = warp_or(v & 0x11u << t % 8);
  o[4] = warp_scan(v); o[5] = shuffle_up(v, 3); o[6] = shuffle_down(v, 3); o[7] = shuffle_xor(v, 5) + shuffle(v, 6);
}
}  // namespace

LANES_EXPORT(scan, scan<true, true>)
LANES_EXPORT(scan_without_first_barrier, scan<false, true>)
LANES_EXPORT(scan_without_second_barrier, scan<true, false>)
LANES_EXPORT(exchange, exchange<Between::WARP_BARRIER>)
LANES_EXPORT(exchange_by_ballot, exchange<Between::BALLOT>)
LANES_EXPORT(exchange_by_nothing, exchange<Between::NOTHING>)
LANES_EXPORT(chain, chain<Pass::ORDERED>)
LANES_EXPORT(chain_relaxed_store, chain<Pass::RELAXED_STORE>)
LANES_EXPORT(chain_relaxed_load, chain<Pass::RELAXED_LOAD>)
LANES_EXPORT(chain_fences, chain<Pass::FENCES>)
LANES_EXPORT(chain_no_second_fence, chain<Pass::NO_SECOND_FENCE>)
LANES_EXPORT(chain_no_barrier, chain<Pass::NO_BARRIER>)
LANES_EXPORT(message, message<true>)
LANES_EXPORT(message_relaxed, message<false>)
LANES_EXPORT(relay, relay)
LANES_EXPORT(retire, retire<true>)
LANES_EXPORT(retire_relaxed, retire<false>)
LANES_EXPORT(copies, copies<true, true, true>)
LANES_EXPORT(copies_without_wait, copies<false, true, true>)
LANES_EXPORT(copies_without_arrival, copies<true, false, true>)
LANES_EXPORT(copies_without_consumption, copies<true, true, false>)
LANES_EXPORT(touch, touch)
LANES_EXPORT(diverge, diverge)
LANES_EXPORT(wait_for_later, wait_for_later)
LANES_EXPORT(collectives, collectives)
