// The encoder (FORMAT.md, coding a chunk): one launch codes one field or a list of them.
//
// A block owns one chunk at a time, each of its T threads N = 4096/T consecutive 32-bit words of it (a 64-bit code is two).  Both
// element types share all but the quantizer: the halves of 64-bit words are transposed each by itself, and from the planes on a chunk is
// 4096 words of bytes.
//
// Two kernels.  `encode_chunks`: persistent blocks that draw chunks as tickets, and write a coded chunk two chunks later, when the sizes
// before it have long been published.  `encode_small`: one chunk a block, more threads a chunk, for so few chunks that latency is all.
//
// State (see Launch): control word = epoch << 32 | tickets drawn.  A chunk's word = tag << 15 | coded bytes, tag = epoch + 1 (17 bits),
// so words of other calls are never taken for this one's.  The draw that is the last of its launch resets the tickets and steps the
// epoch; every block takes the epoch from its first draw, so none reads it late.  Each call also zeroes a slice of the words that it does
// not use: every word is rewritten within SLICES calls, long before its tag comes again.
//
// Memory order: everything shared between blocks is a single word that carries its whole meaning (a draw, or tag and size), and no other
// memory is read on the strength of it.  So relaxed accesses suffice; the end of a launch orders its words before the next call's.
//
// Progress: a block waits only for sizes of chunks with earlier tickets, whose blocks run already, and publishes its own size before it
// waits.  In `encode_small` the block index is the chunk; there a block whose patience ends sizes the missing chunk itself.
#pragma once
#include "block.h"
#include "transpose.h"

namespace pfpl {

constexpr u32 NONE = 0xffffffffu;
constexpr u32 CHUNK_WORDS = CHUNK_BYTES / 4;
constexpr u32 LAST_EPOCH = 0x1fffe, SIZE_BITS = 15, SLICES = 32768;
constexpr int PATIENCE = 64;                    // polls before a block of encode_small helps

PFPL_FN u64* control_word(const Launch& l) { return global<u64>(l.state); }
PFPL_FN u32* chunk_words(const Launch& l) { return global<u32>(l.state + CONTROL_BYTES + 16ull * l.field_capacity); }
PFPL_FN u32 tag_of(u64 draw) { return ((u32)(draw >> 32) + 1) << SIZE_BITS; }
// By all T threads of the block that made the last draw of the launch.
template <u32 T> PFPL_FN void end_of_epoch(const Launch& l, u32 tag, u32 tid) {
  const u32 epoch = (tag >> SIZE_BITS) - 1, width = (l.chunk_capacity + SLICES - 1) / SLICES;
  if (tid == 0) store_relaxed(control_word(l), (u64)(epoch == LAST_EPOCH ? 0 : epoch + 1) << 32);
  const u64 first = (u64)(epoch % SLICES) * width;
  for (u64 i = first + tid; i < first + width && i < l.chunk_capacity; i += T)
    if (i >= l.chunks) store_relaxed(chunk_words(l) + i, 0);
}

// ---------------------------------------------------------------- fields
template <class Value> PFPL_FN u64 payload_offset(const EncodeField& f) { return table_offset(f.wide != 0) + 4 * chunks_of<Value>(f.n); }

// The field that chunk c is of: the last whose first_chunk is not above c.  Looked for where it is if all are equally long.
PFPL_FN u32 find_field(const EncodeField* fields, const Launch& l, u32 c) {
  u32 at = (u32)((float)c * ((float)l.fields / (float)l.chunks)), step = 1;
  if (at >= l.fields) at = l.fields - 1;
  for (; fields[at].first_chunk > c; step *= 2) at = at > step ? at - step : 0;
  for (step = 1; at + step < l.fields && fields[at + step].first_chunk <= c; step *= 2) at += step;
  for (step /= 2; step; step /= 2)
    if (at + step < l.fields && fields[at + step].first_chunk <= c) at += step;
  return at;
}

// Header, padding and outcome of a field with `payload` coded bytes; one thread.
template <class Value> PFPL_NOINLINE void finish_field(const EncodeField& f, u64 payload) {
  const u64 chunks = chunks_of<Value>(f.n), end = payload_offset<Value>(f) + payload, bytes = (end + 3) & ~3ull;
  u32* const h = global<u32>(f.stream);
  if (bytes <= f.capacity) for (u64 i = end; i < bytes; i++) ((u8*)h)[i] = 0;
  if (f.wide) {
    const u64 archive = bytes - WIDE_HEADER;
    if (f.capacity >= WIDE_HEADER) {
      h[0] = MAGIC_W | Element<Value>::TYPE_BYTE; h[1] = bits_of(f.bound);
      h[2] = (u32)f.n; h[3] = (u32)(f.n >> 32); h[4] = (u32)archive; h[5] = (u32)(archive >> 32); h[6] = (u32)chunks; h[7] = (u32)(chunks >> 32);
    }
  } else {
    if (f.capacity >= NARROW_HEADER) { h[0] = MAGIC_P | Element<Value>::TYPE_BYTE; h[1] = (u32)(bytes - NARROW_HEADER); h[2] = bits_of(f.bound); h[3] = (u32)f.n; }
    if (f.capacity >= NARROW_HEADER + NARROW_WORDS) { h[4] = (u32)chunks * CHUNK_BYTES; h[5] = (u32)chunks; }
  }
  if (f.outcome) { Outcome* const o = global<Outcome>(f.outcome); o->stream_bytes = bytes; o->status = bytes <= f.capacity ? OK : OVERFLOW_; o->chunk = NO_CHUNK; }
}

// ---------------------------------------------------------------- shared memory
// Values and planes lie in rows of 128 bytes whose 16-byte units are swizzled.  With PLANES = 512 the planes overlap the upper half of the
// values, so that the next chunk's values can be loaded early where the planes of the upper half are zero and need no place.
template <class Value, u32 T, u32 PLANES, u32 STAGED> struct EncodeShared {
  Words4 units[PLANES + 1024];                  // the chunk's values at 0, its planes at PLANES
  u32 compact[16];                              // flags of a word's nonzero bytes -> byte permute selector, 65536 * 8 * bytes
  u32 staged[STAGED];                           // coded bytes, linear
  PFPL_FN u32* planes() { return (u32*)(units + PLANES); }
  u8 level2[256];                               // level-2 bitmap
  alignas(16) u32 counts[T / 32], counts_upper[T / 32], bits[T / 32], sums[T / 32];     // of each warp
  u64 draw;
  u32 field, entry;
};

// ---------------------------------------------------------------- geometry
template <class Value, u32 T> struct Geometry {
  static constexpr u32 N = CHUNK_WORDS / T;                     // words a thread
  static constexpr u32 V = Element<Value>::CODES / T;           // codes a thread
  static constexpr u32 SETS = sizeof(Value) / 4;                // 32-bit halves of a code: the lower, the upper
  static constexpr u32 PLANE_WORDS = CHUNK_WORDS / Element<Value>::WIDTH;
  // Planes lie in rows of 32 words whose 16-byte units are xored with this of the row: runs of words are then read, and a plane's words
  // from several threads written, without bank conflicts.
  PFPL_FN static constexpr u32 swizzle(u32 row) {
    return (V == 32 ? row : sizeof(Value) == 4 ? row ^ (row >> 4 & 4) : V == 16 ? row ^ (row >> 3 & 4) : row ^ (row >> 3 & 6)) & 7;
  }
  PFPL_FN static constexpr u32 place(u32 word) { return word ^ swizzle(word >> 5) << 2; }       // of a planes' word; linear over xor
};

// ---------------------------------------------------------------- values into shared memory
// Asynchronous.  Values past the field's end are 0, whose code is 0.
template <class Value, u32 T> PFPL_NOINLINE void load_values(Words4* units, u64 field, u64 left, u32 tid) {
  PFPL_ROLL for (u32 e = tid; e < Element<Value>::CODES; e += T) {
    const u32 at = e * sizeof(Value);
    const bool here = e < left;
    copy_async<sizeof(Value)>((u8*)(units + value_unit(at >> 4)) + (at & 15), global<u8>(here ? field + at : field), here ? sizeof(Value) : 0);
  }
}
template <class Value, u32 T> PFPL_FN void load_chunk(Words4* units, const EncodeField& f, u32 chunk, u32 tid) {
  const u64 first = (u64)chunk * Element<Value>::CODES, left = f.n - first, field = f.field + first * sizeof(Value);
  if (left >= Element<Value>::CODES && !(f.field & 15)) {
    Words4* const d = units + value_unit(tid);  // T is a multiple of 64 units: the rows' low bits repeat
    const u8* const g = global<u8>(field) + tid * 16;
    PFPL_UNROLL for (u32 k = 0; k < 1024 / T; k++) copy_async<16>(d + k * T, g + k * T * 16);
  } else load_values<Value, T>(units, field, left, tid);
}

// ---------------------------------------------------------------- quantize and difference
// The first try of quantize(), for values whose first bin holds; `Check` tells afterwards whether it held for all (it may say no when it
// did, for |q| from half the radius on).  The zigzag code is |2q + 1/2| - 1/2, which is exact; it comes out as the bits of 2^23 (2^52)
// plus the code, which sets no bit of OUTSIDE; any sum that is too large, and NaN, sets one.  Differences do not see the 2^23.
template <class Value> struct Check;
template <> struct Check<float> {
  static constexpr u32 BIAS = 0x4B000000u, OUTSIDE = ~0x4B3FFFFFu;
  u32 codes = 0;
  float error = 0.f;
  PFPL_FN void add(u32 c, float d, const Step<float>&) { codes |= c; error = max_nan(error, absolute(d)); }
  PFPL_FN bool holds(const Step<float>& k) const { return (error <= k.eb) & !(codes & OUTSIDE); }
};
template <> struct Check<double> {
  static constexpr u64 BIAS = 0x4330000000000000ull;
  static constexpr u32 OUTSIDE = ~0x4337FFFFu;  // of the upper half
  u32 codes = 0;
  bool ok = true;
  PFPL_FN void add(u64 c, double d, const Step<double>& k) { codes |= (u32)(c >> 32); ok = ok & (absolute(d) <= k.eb); }
  PFPL_FN bool holds(const Step<double>&) const { return ok & !(codes & OUTSIDE); }
};
template <class Value> PFPL_FN typename Element<Value>::Code code_of(Value q) {
  return bits_of(absolute(fused(q, (Value)2, (Value)0.5)) + (value_of(Check<Value>::BIAS) - (Value)0.5));
}
template <class Value> PFPL_FN Value nearest(Value x, const Step<Value>& k) { return (x * k.inv + Element<Value>::ROUND) - Element<Value>::ROUND; }
template <class Value> PFPL_FN typename Element<Value>::Code quantize_first(Value x, const Step<Value>& k, Check<Value>& check) {
  const Value q = nearest(x, k);
  const typename Element<Value>::Code c = code_of(q);
  check.add(c, x - q * k.eb2, k);
  return c;
}
// quantize() with the codes of quantize_first().
template <class Value> PFPL_FN typename Element<Value>::Code quantize_both(Value x, const Step<Value>& k) {
  using E = Element<Value>; using Code = typename E::Code;
  const Value q1 = nearest(x, k), d1 = x - q1 * k.eb2;
  const Value q2 = q1 + value_of((bits_of(d1) & ((Code)1 << (E::WIDTH - 1))) | bits_of((Value)1)), d2 = x - q2 * k.eb2;
  const bool ok1 = (absolute(d1) <= k.eb) & (absolute(q1) < E::RADIUS);
  const bool ok2 = (absolute(d2) <= k.eb) & (absolute(q2) < E::RADIUS) & (absolute(q1) <= E::RADIUS);
  return ok1 | ok2 ? code_of(ok1 ? q1 : q2) : bits_of(x) + Check<Value>::BIAS;
}

// The codes (or bits of values) of a 16-byte unit.
PFPL_FN void unpack(const Words4& u, u32* c) { c[0] = u.x; c[1] = u.y; c[2] = u.z; c[3] = u.w; }
PFPL_FN void unpack(const Words4& u, u64* c) { c[0] = (u64)u.y << 32 | u.x; c[1] = (u64)u.w << 32 | u.z; }
PFPL_FN Words4 pack(const u32* c) { return Words4{c[0], c[1], c[2], c[3]}; }
PFPL_FN Words4 pack(const u64* c) { return Words4{(u32)c[0], (u32)(c[0] >> 32), (u32)c[1], (u32)(c[1] >> 32)}; }

// A group of two units a thread, from `unit` on, with both tries: the codes of a thread that says `fails` go into its first two units, which
// nobody needs any more.  Out of line, for few groups need it; the warp shares the values of a few failing lanes out.
template <class Value, u32 T> PFPL_NOINLINE void quantize_again(Words4* units, u32 unit, bool fails, Step<Value> k) {
  using Code = typename Element<Value>::Code;
  constexpr u32 PER_UNIT = 16 / sizeof(Value), GROUP = 2 * PER_UNIT, LANES = 32 / GROUP, THREAD_UNITS = 1024 / T;
  const u32 tid = thread_index(), lane = tid & 31, first = tid * THREAD_UNITS;
  warp_barrier();
  u32 failing = ballot(fails);
  if (popcount(failing) > 4 * LANES) {
    PFPL_UNROLL for (u32 i = 0; i < 2; i++) {
      Code c[PER_UNIT];
      unpack(units[value_unit(unit + i)], c);
      PFPL_UNROLL for (u32 j = 0; j < PER_UNIT; j++) c[j] = quantize_both(value_of(c[j]), k);
      units[value_unit(first + i)] = pack(c);
    }
  } else {
    PFPL_ROLL do {
      u32 mine = failing;                       // its lowest bit is the lane that this one takes a value of
      PFPL_UNROLL for (u32 i = 0; i < LANES; i++) { if (lane / GROUP > i) mine &= mine - 1; failing &= failing - 1; }
      if (mine) {
        const u32 away = (lowest_bit(mine) - lane) * THREAD_UNITS + lane % GROUP / PER_UNIT, j = lane % PER_UNIT;
        ((Code*)(units + value_unit(first + away)))[j] = quantize_both(((const Value*)(units + value_unit(unit + away)))[j], k);
      }
    } while (failing);
  }
  warp_barrier();
}

// This thread's words d + m (see transpose.h), last element first: rows[V-1-e], the upper halves at rows[2V-1-e].  Gives the OR of the
// warp's d, of 64-bit words squeezed: bit 16 if any upper half, bit 8 if any upper quarter of a lower half is not 0.
template <class Value, u32 T> PFPL_FN u32 code_values(Words4* units, const Step<Value>& k, u32 tid, u32* rows) {
  using G = Geometry<Value, T>; using Code = typename Element<Value>::Code;
  constexpr u32 PER_UNIT = 16 / sizeof(Value), THREAD_UNITS = G::N / 4, GROUP = 2 * PER_UNIT;
  constexpr Code M = Element<Value>::NEGABINARY;
  const u32 unit0 = tid * THREAD_UNITS;
  Code before = Check<Value>::BIAS, all = 0;
  Check<Value> check;
  const Words4* const previous = units + value_unit(tid ? unit0 - 1 : 0);
  const Code last = quantize_first(((const Value*)previous)[PER_UNIT - 1], k, check);
  if (tid) before = last;
  const u32 row = unit0 & ~7u, swizzle = unit0 >> 3 & 7, in_row = unit0 & 7;
  PFPL_UNROLL for (u32 g = 0; g < G::V / GROUP; g++) {
    const Words4* const p0 = units + (row | ((in_row + 2 * g) ^ swizzle));
    const Words4* const p1 = units + (row | ((in_row + 2 * g + 1) ^ swizzle));
    Code c[GROUP];
    unpack(*p0, c); unpack(*p1, c + PER_UNIT);
    if (g) check = Check<Value>();
    PFPL_UNROLL for (u32 j = 0; j < GROUP; j++) c[j] = quantize_first(value_of(c[j]), k, check);
    const bool fails = !check.holds(k);
    if (any(fails)) {                           // some value of the warp's needs the second try, or its own bits
      if (g == 0 && tid) before = quantize_both(((const Value*)previous)[PER_UNIT - 1], k);
      quantize_again<Value, T>(units, unit0 + 2 * g, fails, k);
      if (fails) { unpack(units[value_unit(unit0)], c); unpack(units[value_unit(unit0 + 1)], c + PER_UNIT); }
    }
    PFPL_UNROLL for (u32 j = 0; j < GROUP; j++) {
      const Code d = c[j] - before + M;
      before = c[j];
      all |= d ^ M;
      const u32 i = G::V - 1 - (GROUP * g + j);
      rows[i] = (u32)d;
      if constexpr (G::SETS == 2) rows[G::V + i] = (u32)(d >> 32);
    }
  }
  if constexpr (G::SETS == 2) return warp_or((all >> 32 ? 0x10000u : 0) | ((u32)all >> 16 ? 0x100u : 0));
  else return warp_or(all);
}

// How much of a chunk's 4096 words, from its end, can be nonzero, given the OR of code_values(): a quarter, half, all of them.
PFPL_FN bool within_quarter(u32 bits) { return bits < 0x100u; }
PFPL_FN bool within_half(u32 bits) { return bits < 0x10000u; }

// rows: words -> planes, in registers.  `bits`: this warp's; rows of planes that it says are zero are left unspecified.
template <class Value, u32 T> PFPL_FN void transpose_rows(u32* rows, u32 bits, u32 tid) {
  using G = Geometry<Value, T>;
  if constexpr (G::V == 32) {
    if (within_quarter(bits)) planes_of_words<8>(rows);
    else if (within_half(bits)) planes_of_words<16>(rows);
    else planes_of_words<32>(rows);
  } else {
    const u32 part = tid % (32 / G::V);
    planes_of_parts<G::V>(rows, part);
    if constexpr (G::SETS == 2) { if (!within_half(bits)) planes_of_parts<G::V>(rows + G::V, part); }
  }
}

// planes -> shared memory.  `bits`: this warp's, `block_bits`: the block's, whose planes are all written, zeros included.
template <class Value, u32 T> PFPL_FN void store_planes(u32* planes, const u32* rows, u32 bits, u32 block_bits, u32 tid) {
  using G = Geometry<Value, T>;
  const u32 group = tid * G::V / 32, part = tid % (32 / G::V);
  // the upper of the two 32-bit words that a plane has of a 64-bit group holds the group's first 32 elements
  const u32 base = G::place(part * G::V * G::PLANE_WORDS + (G::SETS == 2 ? group ^ 1 : group));
  auto put = [&](u32 set, u32 from, u32 to, bool zero) {        // set 0 is the last 32 planes
    PFPL_UNROLL for (u32 i = from; i < to; i++) {
      const u32 offset = (G::V - 1 - i) * G::PLANE_WORDS + (G::SETS - 1 - set) * (CHUNK_WORDS / 2);
      planes[(base ^ G::swizzle(offset >> 5) << 2) + offset] = zero ? 0 : rows[set * G::V + i];
    }
  };
  if constexpr (G::V == 32) {
    put(0, 0, 8, false);
    if (!within_quarter(block_bits)) { if (within_quarter(bits)) put(0, 8, 16, true); else put(0, 8, 16, false); }
    if (!within_half(block_bits)) { if (within_half(bits)) put(0, 16, 32, true); else put(0, 16, 32, false); }
  } else {
    put(0, 0, G::V, false);
    if constexpr (G::SETS == 2) { if (!within_half(block_bits)) { if (within_half(bits)) put(1, 0, G::V, true); else put(1, 0, G::V, false); } }
  }
}

// ---------------------------------------------------------------- RZE: flags
// Flags of the nonzero bytes of eight words, byte i of word j at bit 4j + i.
PFPL_FN u32 nonzero_pair(u32 a, u32 b) {        // of two words, times 128
  const u32 ma = (((a & 0x7f7f7f7fu) + 0x7f7f7f7fu) | a) & 0x80808080u, mb = (((b & 0x7f7f7f7fu) + 0x7f7f7f7fu) | b) & 0x80808080u;
  return dot_bytes(mb, 0x80402010u, dot_bytes(ma, 0x08040201u, 0));
}
PFPL_FN u32 nonzero_flags(const u32* w) {
  const u32 b0 = nonzero_pair(w[0], w[1]), b1 = nonzero_pair(w[2], w[3]), b2 = nonzero_pair(w[4], w[5]), b3 = nonzero_pair(w[6], w[7]);
  return (((((b3 << 8) + b2) << 8) + b1) << 1) + (b0 >> 7);
}

// A thread's run of RW words: flags of its nonzero bytes, which are RW/2 bytes of the bitmap; `changed`: those that differ from the byte before;
// `counts`: how many flags, and 65536 times how many changed bytes.
template <u32 RW> struct Flags { u32 nonzero[RW / 8], changed, counts; };

template <class Value, u32 T, u32 RW> PFPL_FN void read_run(const u32* planes, u32 word, u32* r) {
  const u32 row = word >> 5, swizzle = Geometry<Value, T>::swizzle(row), unit0 = word >> 2 & 7;
  PFPL_UNROLL for (u32 k = 0; k < RW / 4; k++) {
    const Words4 v = *(const Words4*)(planes + row * 32 + (((unit0 + k) ^ swizzle) << 2));
    r[4 * k] = v.x; r[4 * k + 1] = v.y; r[4 * k + 2] = v.z; r[4 * k + 3] = v.w;
  }
}
// `start`: no bitmap byte, or only zeros, before the run.
template <class Value, u32 T, u32 RW> PFPL_FN void flag_run(const u32* planes, u32 word, bool start, u32* r, Flags<RW>& f) {
  read_run<Value, T, RW>(planes, word, r);
  const Words2 v = *(const Words2*)(planes + Geometry<Value, T>::place(start ? word : word - 2));
  const u32 last = start ? 0 : nonzero_pair(v.x, v.y) << 17;   // the bitmap byte before the run, on top
  u32 delta[2] = {0, 0};
  f.counts = 0;
  PFPL_UNROLL for (u32 g = 0; g < RW / 8; g++) {
    f.nonzero[g] = nonzero_flags(r + 8 * g);
    delta[g] = f.nonzero[g] ^ funnel_left(g ? f.nonzero[g - 1] : last, f.nonzero[g], 8);
    f.counts += popcount(f.nonzero[g]);
  }
  f.changed = nonzero_pair(delta[0], delta[1]) >> 7;
  f.counts += popcount(f.changed) << 16;
}

// Levels 3 and 4, in one warp: lane l has bytes 8l .. 8l+7 of level 2's bitmap.
struct UpperLevels {
  Words2 level2;
  u32 flags, before;                            // level 3's bitmap byte l, and the one before
  u32 kept_below, kept;                         // bytes of level 2 kept by the lanes below, by all
  u32 level4;
};
PFPL_FN UpperLevels upper_levels(const u8* level2, u32 lane) {
  UpperLevels u;
  u.level2 = ((const Words2*)level2)[lane];
  u32 previous = shuffle_up(u.level2.y, 1);
  if (lane == 0) previous = 0;
  u.flags = nonzero_pair(u.level2.x ^ funnel_left(previous, u.level2.x, 8), u.level2.y ^ funnel_left(u.level2.x, u.level2.y, 8)) >> 7;
  const u32 scan = warp_scan(popcount(u.flags));
  u.kept_below = scan - popcount(u.flags);
  u.kept = shuffle(scan, 31);
  u.before = shuffle_up(u.flags, 1);
  if (lane == 0) u.before = 0;
  u.level4 = ballot(u.flags != u.before);
  return u;
}
// The chunk's size-table entry, from the number of nonzero bytes, of kept bytes of level 1's bitmap, and the upper levels.
PFPL_FN u32 table_entry(u32 nonzero, u32 kept, const UpperLevels& u) {
  const u32 bytes = nonzero ? nonzero + kept + u.kept + popcount(u.level4) + 6 : EMPTY_CHUNK_BYTES;
  return bytes < CHUNK_BYTES ? bytes : RAW_FLAG | CHUNK_BYTES;
}

// ---------------------------------------------------------------- RZE: coded bytes into shared memory
// each(b) for the bits that are set of the lowest N, in order.  UNROLL: all at once, for latency; a loop is less code.
template <u32 N, bool UNROLL, class Each> PFPL_FN void each_bit(u32 bits, Each each) {
  if constexpr (UNROLL) { PFPL_UNROLL for (u32 b = 0; b < N; b++) if (bits >> b & 1) each(b); }
  else for (; bits; bits &= bits - 1) each(lowest_bit(bits));
}
// Levels 3 and 4 and the chunk's last two bytes, from byte `at` of `out` on; one warp.
PFPL_FN void stage_upper(u8* out, u32 at, bool empty, const UpperLevels& u, u32 lane) {
  if (!empty) {
    u32 p = at + u.kept_below;
    each_bit<8, true>(u.flags, [&](u32 b) { out[p++] = (u8)((b < 4 ? u.level2.x : u.level2.y) >> (8 * (b & 3))); });
    at += u.kept;
    if (u.flags != u.before) out[at + popcount(u.level4 & ((1u << lane) - 1))] = (u8)u.flags;
    at += popcount(u.level4);
    if (lane < 4) out[at + lane] = (u8)(u.level4 >> (8 * lane));
    at += 4;
  }
  if (lane < 2) out[at + lane] = (u8)(CHUNK_BYTES >> (8 * lane));
}

// The end of a run's nonzero bytes, which shares its word with the next run's.
struct Tail { u32 bytes, start, end; };         // the bytes at their places in the word; first and last position, in bits
// The run's nonzero bytes, from byte `at1` on, whole words only (a word is stored by the run that fills it), and the kept bytes of its
// bitmap, from byte `at2` on.
template <u32 RW, bool UNROLL> PFPL_FN Tail stage_run(u32* out, const u32* compact, const u32* r, const Flags<RW>& f, u32 at1, u32 at2) {
  const u32 table = shared_address(compact);
  u32 window = 0, position = at1 * 8, address = shared_address(out) + (at1 & ~3u);
  PFPL_UNROLL for (u32 g = 0; g < RW / 8; g++) {
    if (any(f.nonzero[g] != 0)) {
      // nibbles times 4: offsets into the table, whose address has a free byte for them
      const u32 even = (f.nonzero[g] << 2) & 0x3c3c3c3cu, odd = (f.nonzero[g] >> 2) & 0x3c3c3c3cu;
      u32 e[8];
      PFPL_UNROLL for (u32 k = 0; k < 8; k++) e[k] = *shared_at<const u32>(permute(k & 1 ? odd : even, table, 0x7650 + (k >> 1)));
      PFPL_UNROLL for (u32 k = 0; k < 8; k++) append(window, position, address, permute(r[8 * g + k], 0, e[k]), position + (e[k] >> 16));
    }
  }
  u8* kept = (u8*)out + at2;
  each_bit<RW / 2, UNROLL>(f.changed, [&](u32 b) { *kept++ = (u8)permute(f.nonzero[0], RW > 8 ? f.nonzero[RW / 8 - 1] : 0, b); });
  return Tail{window, at1 * 8, position};
}
// After a barrier: the tail's bytes go into a word that another thread may have stored.
PFPL_FN void stage_tail(u8* out, const Tail& t) {
  const u32 word = t.end >> 5, to = t.end >> 3 & 3, from = word == t.start >> 5 ? t.start >> 3 & 3 : 0;
  PFPL_UNROLL for (u32 b = 0; b < 3; b++) if (b >= from && b < to) out[4 * word + b] = (u8)(t.bytes >> (8 * b));
}
// A raw chunk: the planes as they are.
template <class Value, u32 T> PFPL_FN void stage_raw(u32* out, const u32* planes, u32 tid) {
  PFPL_ROLL for (u32 u = tid; u < 1024; u += T) *(Words4*)(out + u * 4) = *(const Words4*)(planes + Geometry<Value, T>::place(u * 4));
}

// `length` staged bytes -> device memory, any alignment.
template <u32 T> PFPL_FN void write_out(const u32* staged, u8* g, u32 length, u32 tid) {
  const u8* const bytes = (const u8*)staged;
  const u32 head = (0u - (u32)(u64)g) & 15;     // bytes before the first whole 16-byte unit
  if (length < 32) { if (tid < length) g[tid] = bytes[tid]; return; }
  const u32 units = (length - head) >> 4, shift = head * 8;
  const u32* p = staged + (head >> 2) + tid * 4;
  u8* d = g + head + tid * 16;
  PFPL_ROLL for (u32 u = tid; u < units; u += T, p += T * 4, d += T * 16) {
    const u32 w0 = p[0], w1 = p[1], w2 = p[2], w3 = p[3], w4 = p[4];
    store_words((Words4*)d, Words4{funnel_right(w0, w1, shift), funnel_right(w1, w2, shift), funnel_right(w2, w3, shift), funnel_right(w3, w4, shift)});
  }
  if (tid < 32) {
    const u32 done = head + units * 16, i = tid < 16 ? tid : done + tid - 16;
    if (tid < 16 ? i < head : i < length) g[i] = bytes[i];
  }
}
template <class Value> PFPL_FN void write_entry(const EncodeField& f, u32 chunk, u32 entry) {
  const u64 at = table_offset(f.wide != 0) + 4ull * chunk;
  if (at + 4 <= f.capacity) *global<u32>(f.stream + at) = entry;
}
PFPL_FN void fill_compact(u32* compact, u32 tid) {
  if (tid < 16) {
    u32 selector = 0x4444, k = 0;
    for (u32 j = 0; j < 4; j++) if (tid >> j & 1) { selector ^= (4 ^ j) << (4 * k); k++; }
    compact[tid] = selector | 8 * k << 16;
  }
}

// ---------------------------------------------------------------- sizes of earlier chunks
template <u32 T, u32 COUNT> struct Look {       // a thread's share of up to COVER words
  static constexpr u32 LOADS = COUNT, COVER = LOADS * T;
  u32 w[LOADS];
  // Words first .. end-1, as they are now.
  PFPL_FN void issue(const u32* words, u32 first, u32 end, u32 tag, u32 tid) {
    const u32* const p = words + first + tid;
    const u32 left = end - first > tid ? end - first - tid : 0;
    PFPL_UNROLL for (u32 k = 0; k < LOADS; k++) w[k] = tag;
    load<0>(p, left);
  }
  template <u32 K> PFPL_FN void load(const u32* p, u32 left) {
    if constexpr (K < LOADS) { if (T * K < left) w[K] = load_relaxed_at<T * K>(p); load<K + 1>(p, left); }
  }
  PFPL_FN bool missing(u32 tag) const {         // some word is not this call's yet
    u32 o = 0;
    PFPL_UNROLL for (u32 k = 0; k < LOADS; k++) o |= w[k] ^ tag;
    return o >> SIZE_BITS;
  }
  PFPL_FN u32 sum(u32 tag) const {
    u32 t = 0u - LOADS * tag;
    PFPL_UNROLL for (u32 k = 0; k < LOADS; k++) t += w[k];
    return t;
  }
};

// ================================================================ persistent blocks
constexpr u32 ENCODE_THREADS = 128, ENCODE_BLOCKS = 5;          // a block; blocks an SM
using EncodeLook = Look<ENCODE_THREADS, 10>;                    // a costly chunk is one and a half to two rounds of the grid long
constexpr u32 HALF_WORDS = 2572;                                // staged words of one waiting chunk; chosen for ENCODE_BLOCKS
constexpr u32 HALF_LEVELS = HALF_WORDS * 4 - 64 - 300;          // nonzero and kept level-1 bytes that surely fit (the rest is below 300)
template <class Value> using Shared = EncodeShared<Value, ENCODE_THREADS, 512, 2 * HALF_WORDS>;

struct Waiting { u32 chunk, length, field; };   // a coded chunk in shared memory; chunk NONE: none
struct Prefix { u64 bytes; u32 chunk, field; }; // payload bytes of the field before chunk `chunk` (counted in the launch)

// The prefix, in the field of `w`.
template <bool LIST> PFPL_FN Prefix enter_field(Prefix p, const EncodeField* fields, const Waiting& w) {
  return !LIST || p.field == w.field ? p : Prefix{0, fields[LIST ? w.field : 0].first_chunk, w.field};
}
// Writes `w` from `staged`; p: the prefix at w.  Gives the prefix past it.
template <class Value, bool LIST> PFPL_FN Prefix write_waiting(const u32* staged, Prefix p, const EncodeField* fields, const Waiting& w, u32 tid) {
  const EncodeField& f = fields[LIST ? w.field : 0];
  const u64 at = payload_offset<Value>(f) + p.bytes;
  if (at + w.length <= f.capacity) write_out<ENCODE_THREADS>(staged, global<u8>(f.stream + at), w.length, tid);
  p.bytes += w.length;
  p.chunk = w.chunk + 1;
  if (tid == 0 && p.chunk - f.first_chunk == chunks_of<Value>(f.n)) finish_field<Value>(f, p.bytes);
  return p;
}
// The same from any earlier prefix, after waiting for the sizes between; all threads.
template <class Value, bool LIST> PFPL_NOINLINE Prefix write_late(const u32* words, u32 half, Prefix p, const EncodeField* fields, Waiting w, u32 tag) {
  constexpr u32 T = ENCODE_THREADS;
  Shared<Value>& s = shared_memory<Shared<Value>>();
  const u32 tid = thread_index();
  p = enter_field<LIST>(p, fields, w);
  PFPL_ROLL do {
    const u32 end = w.chunk - p.chunk > EncodeLook::COVER ? p.chunk + EncodeLook::COVER : w.chunk;
    EncodeLook look;
    do look.issue(words, p.chunk, end, tag, tid); while (look.missing(tag));
    const u32 sum = warp_sum(look.sum(tag));
    if ((tid & 31) == 0) s.sums[tid >> 5] = sum;
    barrier();
    p.bytes += sum_of<T / 32>(s.sums);
    p.chunk = end;
    barrier();
  } while (p.chunk != w.chunk);
  p = write_waiting<Value, LIST>(s.staged + half * HALF_WORDS, p, fields, w, tid);
  barrier();                                    // the half is free
  return p;
}

struct Block {                                  // what a persistent block carries from chunk to chunk
  u32 chunk, field, tag, half;                  // half: the staging half that is free, or holds older
  Waiting older, newer;
  Prefix prefix;
};

// From the planes in shared memory to staged bytes (all but the barrier that completes them); publishes the chunk's size and, if that
// waits for the planes, starts the load of the next chunk.  RW: words of a thread's run; the runs cover the chunk's last T * RW words,
// before which all is zero; with BOTH, if `both`, a first pass of the same code covers as many words before them.
template <class Value, bool LIST, u32 RW, bool BOTH> PFPL_FN void pack_chunk(Shared<Value>& s, const Launch& launch, const EncodeField* fields, Block& b, bool both, bool late, u32 next, u32 next_field) {
  constexpr u32 T = ENCODE_THREADS, WARPS = T / 32, SPAN = T * RW, LAST = CHUNK_WORDS - SPAN;
  if (!BOTH) both = false;
  u32* const planes = s.planes();
  u32* const words = chunk_words(launch);
  u32 tid = opaque(thread_index());
  u32 r[RW];
  Flags<RW> f, first;                           // first: of the first of two passes
  PFPL_UNROLL for (u32 g = 0; g < RW / 8; g++) first.nonzero[g] = 0;
  first.changed = first.counts = 0;
  u32 from = both ? LAST - SPAN : LAST;         // the pass's first word
  PFPL_ROLL while (true) {
    flag_run<Value, T, RW>(planes, from + tid * RW, tid == 0 && !(both && from == LAST), r, f);
    if (!BOTH || from == LAST) break;
    first = f;
    from = LAST;
  }
  const u32 scan = warp_scan(f.counts);
  u32 scan_first = 0;
  if ((tid & 31) == 31) s.counts[tid >> 5] = scan;
  if (both) { scan_first = warp_scan(first.counts); if ((tid & 31) == 31) s.counts_upper[tid >> 5] = scan_first; }
  if constexpr (RW == 16) { s.level2[tid] = (u8)first.changed; s.level2[128 + tid] = (u8)f.changed; }
  else {
    const u32 beside = shuffle_down(f.changed, 1);
    s.level2[tid] = 0;
    if (tid < 64) s.level2[128 + tid] = 0;
    if (!(tid & 1)) s.level2[192 + tid / 2] = (u8)(f.changed | beside << 4);
  }
  barrier();                                    // B3: counts and level 2's bitmap are here
  tid = opaque(thread_index());
  const u32 lane = tid & 31, warp = tid >> 5;
  u32 total = sum_of<WARPS>(s.counts), at = scan - f.counts + sum_below<WARPS>(s.counts, warp), at_first = 0;
  if (both) {
    const u32 before = sum_of<WARPS>(s.counts_upper);
    at_first = scan_first - first.counts + sum_below<WARPS>(s.counts_upper, warp);
    at += before; total += before;
  }
  const u32 nonzero = total & 0xffff, kept = total >> 16;
  UpperLevels upper;
  if (warp == 0) {
    upper = upper_levels(s.level2, lane);
    if (lane == 0) {
      const u32 entry = table_entry(nonzero, kept, upper);
      store_relaxed(words + b.chunk, b.tag | (entry & ~RAW_FLAG));
      s.entry = entry;
      write_entry<Value>(fields[LIST ? b.field : 0], b.chunk - fields[LIST ? b.field : 0].first_chunk, entry);
    }
  }
  u32* out = s.staged + b.half * HALF_WORDS;
  if (late) b.prefix = write_late<Value, LIST>(words, b.half, b.prefix, fields, b.older, b.tag);        // sizes before it were missing at B1
  const bool big = BOTH && both && nonzero + kept > HALF_LEVELS;
  bool raw = false;
  if (big) {                                    // takes both halves
    if (b.newer.chunk != NONE) b.prefix = write_late<Value, LIST>(words, b.half ^ 1, b.prefix, fields, b.newer, b.tag);
    out = s.staged;
    barrier();
    raw = s.entry & RAW_FLAG;
  }
  if (BOTH && raw) {
    stage_raw<Value, T>(out, planes, tid);
    barrier();
    if (next < launch.chunks) load_chunk<Value, T>(s.units, fields[LIST ? next_field : 0], next - fields[LIST ? next_field : 0].first_chunk, tid);
  } else {
    if (warp == 0) stage_upper((u8*)out, nonzero + kept, nonzero == 0, upper, lane);
    Tail tail, tail_first{0, 0, 0};
    bool pass = both;                           // the first of two
    PFPL_ROLL while (true) {
      if (both) read_run<Value, T, RW>(planes, (pass ? LAST - SPAN : LAST) + tid * RW, r);
      const u32 a = pass ? at_first : at;
      Flags<RW> g = f;
      if (BOTH && pass) g = first;
      tail = stage_run<RW, false>(out, s.compact, r, g, a & 0xffff, nonzero + (a >> 16));
      if (!BOTH || !pass) break;
      tail_first = tail;
      pass = false;
    }
    barrier();                                  // B4: whole words are stored, planes all read
    if (both && next < launch.chunks) load_chunk<Value, T>(s.units, fields[LIST ? next_field : 0], next - fields[LIST ? next_field : 0].first_chunk, tid);
    stage_tail((u8*)out, tail);
    if (BOTH && both) stage_tail((u8*)out, tail_first);
  }
  const Waiting done{b.chunk, s.entry & ~RAW_FLAG, b.field};
  if (big) { b.older = done; b.newer.chunk = NONE; b.half = 0; }
  else { b.older = b.newer; b.newer = done; b.half ^= 1; }
  b.chunk = next; b.field = next_field;
}

template <class Value, bool LIST> PFPL_FN void encode_chunks(const Launch& launch, const EncodeField* fields) {
  constexpr u32 T = ENCODE_THREADS, WARPS = T / 32;
  Shared<Value>& s = *shared_at<Shared<Value>>(opaque(shared_address(&shared_memory<Shared<Value>>())));      // the address computed once
  u32* const words = chunk_words(launch);
  u32 tid = thread_index();
  if (tid == 0) s.draw = fetch_add(control_word(launch), 1);
  fill_compact(s.compact, tid);
  for (u32 i = block_index() * T + tid; i < launch.fields; i += grid_blocks() * T) if (fields[i].n == 0) finish_field<Value>(fields[i], 0);
  barrier();
  Block b{(u32)s.draw, 0, tag_of(s.draw), 0, {NONE, 0, 0}, {NONE, 0, 0}, {0, 0, 0}};
  if (b.chunk < launch.chunks) {
    if (LIST) b.field = find_field(fields, launch, b.chunk);
    load_chunk<Value, T>(s.units, fields[LIST ? b.field : 0], b.chunk - fields[LIST ? b.field : 0].first_chunk, tid);
  }
  while (b.chunk < launch.chunks) {
    copies_wait();
    barrier();                                  // B0: values are here; the bytes staged before are complete
    tid = opaque(thread_index());
    const bool waiting = b.older.chunk != NONE;
    u64 draw;                                   // whole until it is stored: taking half of it here would wait for it
    if (tid == 0) draw = fetch_add(control_word(launch), 1);    // long before it is needed
    if (LIST && waiting) b.prefix = enter_field<LIST>(b.prefix, fields, b.older);
    u32 rows[CHUNK_WORDS / T], bits;
    {
      const EncodeField& f = fields[LIST ? b.field : 0];
      const Value eb = (Value)f.bound;
      bits = code_values<Value, T>(s.units, Step<Value>{eb, 2 * eb, (Value)f.inverse}, tid, rows);
    }
    if ((tid & 31) == 0) s.bits[tid >> 5] = bits;
    if (tid == 0) {
      if (LIST && (u32)draw < launch.chunks) s.field = find_field(fields, launch, (u32)draw);
      s.draw = draw;
    }
    EncodeLook look;                            // at the sizes before the older waiting chunk; the transpose hides the loads
    const u32 end = waiting ? b.older.chunk : b.prefix.chunk;
    look.issue(words, b.prefix.chunk, end, b.tag, tid);
    transpose_rows<Value, T>(rows, bits, tid);
    bool late = look.missing(b.tag) || end - b.prefix.chunk > EncodeLook::COVER;
    const u32 sum = warp_sum(look.sum(b.tag));
    if ((tid & 31) == 0) s.sums[tid >> 5] = sum;
    late = barrier_or(late);                    // B1: values all read
    tid = opaque(thread_index());
    const u32 block_bits = or_of<WARPS>(s.bits), next_field = LIST ? s.field : 0, next = (u32)s.draw;
    if (within_half(block_bits) && next < launch.chunks) load_chunk<Value, T>(s.units, fields[LIST ? next_field : 0], next - fields[LIST ? next_field : 0].first_chunk, tid);
    store_planes<Value, T>(s.planes(), rows, bits, block_bits, tid);
    if (waiting && !late) {
      b.prefix.bytes += sum_of<WARPS>(s.sums);
      b.prefix = write_waiting<Value, LIST>(s.staged + b.half * HALF_WORDS, b.prefix, fields, b.older, tid);
    }
    barrier();                                  // B2: planes are here, the older half is free
    if (within_quarter(block_bits)) pack_chunk<Value, LIST, 8, false>(s, launch, fields, b, false, late, next, next_field);
    else pack_chunk<Value, LIST, 16, true>(s, launch, fields, b, !within_half(block_bits), late, next, next_field);
  }
  if (b.chunk == launch.chunks + grid_blocks() - 1) end_of_epoch<T>(launch, b.tag, thread_index());
  barrier();                                    // the last tails are staged
  if (b.older.chunk != NONE) b.prefix = write_late<Value, LIST>(words, b.half, b.prefix, fields, b.older, b.tag);
  if (b.newer.chunk != NONE) b.prefix = write_late<Value, LIST>(words, b.half ^ 1, b.prefix, fields, b.newer, b.tag);
}

// ================================================================ few chunks of one field: one a block
constexpr u32 SMALL_THREADS = 256, SMALL_BLOCKS = 4, SMALL_CHUNKS = 512;       // a block; blocks an SM; chunks at most
using SmallLook = Look<32, 6>;
template <class Value> using SmallShared = EncodeShared<Value, SMALL_THREADS, 1024, 4736>;      // staged: room for all levels of a chunk that turns out raw

template <class Value> PFPL_FN void encode_small(const Launch& launch, const EncodeField& field) {
  using G = Geometry<Value, SMALL_THREADS>;
  constexpr u32 T = SMALL_THREADS, WARPS = T / 32, RW = G::N;
  static_assert(RW == 16, "a byte of level 2's bitmap a thread");
  SmallShared<Value>& s = *shared_at<SmallShared<Value>>(opaque(shared_address(&shared_memory<SmallShared<Value>>())));
  const u32 tid = thread_index(), lane = tid & 31, warp = tid >> 5, own = block_index();
  u32* const words = chunk_words(launch);
  u32* const planes = s.planes();
  fill_compact(s.compact, tid);
  const u64 ahead = ((u64)own * T + tid) * (CHUNK_BYTES / T);
  if (ahead < field.n * sizeof(Value)) prefetch(field.field + ahead);
  await_predecessors();
  if (own >= launch.chunks) { if (own == 0 && tid == 0) finish_field<Value>(field, 0); return; }
  load_chunk<Value, T>(s.units, field, own, tid);
  u64 draw = 0;
  if (tid == 0) draw = fetch_add(control_word(launch), 1);
  const Value eb = (Value)field.bound;
  const Step<Value> step{eb, 2 * eb, (Value)field.inverse};
  u32 chunk = own;
  PFPL_ROLL while (true) {
    copies_wait();
    barrier();                                  // values are here
    u32 rows[RW];
    const u32 bits = code_values<Value, T>(s.units, step, tid, rows);
    transpose_rows<Value, T>(rows, G::SETS == 2 ? NONE : bits, tid);
    store_planes<Value, T>(planes, rows, NONE, NONE, tid);
    if (tid == 0) s.draw = draw;
    barrier();                                  // planes are here
    u32 r[RW];
    Flags<RW> f;
    flag_run<Value, T, RW>(planes, tid * RW, tid == 0, r, f);
    const u32 scan = warp_scan(f.counts);
    if (lane == 31) s.counts[warp] = scan;
    s.level2[tid] = (u8)f.changed;
    barrier();                                  // counts and level 2's bitmap are here
    const u32 total = sum_of<WARPS>(s.counts), nonzero = total & 0xffff, kept = total >> 16, tag = tag_of(s.draw);
    UpperLevels upper;
    if (warp == 0) {
      upper = upper_levels(s.level2, lane);
      if (lane == 0) {
        const u32 entry = table_entry(nonzero, kept, upper);
        store_relaxed(words + chunk, tag | (entry & ~RAW_FLAG));
        if (chunk == own) { write_entry<Value>(field, own, entry); s.entry = entry; }
      }
    }
    Tail tail;
    if (chunk == own) {
      if (warp == 0) stage_upper((u8*)s.staged, nonzero + kept, nonzero == 0, upper, lane);
      const u32 at = scan - f.counts + sum_below<WARPS>(s.counts, warp);
      tail = stage_run<RW, true>(s.staged, s.compact, r, f, at & 0xffff, nonzero + (at >> 16));
    }
    barrier();                                  // whole words are stored
    if (chunk == own) { if (s.entry & RAW_FLAG) stage_raw<Value, T>(s.staged, planes, tid); else stage_tail((u8*)s.staged, tail); }
    // One warp adds up the sizes before.  One that stays missing is that of a block that waits for a place on the device: size it here.
    if (warp == 1) {
      u32 before, missing;
      PFPL_ROLL for (int i = 0; i < PATIENCE; i++) {
        before = 0; missing = NONE;
        PFPL_ROLL for (u32 first = 0; first < own; first += SmallLook::COVER) {
          SmallLook look;
          look.issue(words, first, first + SmallLook::COVER < own ? first + SmallLook::COVER : own, tag, lane);
          PFPL_UNROLL for (u32 k = 0; k < SmallLook::LOADS; k++) if ((look.w[k] ^ tag) >> SIZE_BITS) missing = first + lane + 32 * k;
          before += look.sum(tag);
        }
        if (!any(missing != NONE)) break;
      }
      before = warp_sum(before);
      PFPL_UNROLL for (u32 d = 16; d; d >>= 1) { const u32 other = shuffle_xor(missing, d); missing = other < missing ? other : missing; }
      if (lane == 0) { s.sums[0] = before; s.sums[1] = missing; }
    }
    barrier();                                  // the staged bytes are complete, sizes looked at
    chunk = s.sums[1];
    if (chunk == NONE) break;
    load_chunk<Value, T>(s.units, field, chunk, tid);
  }
  const u32 before = s.sums[0];
  const u32 length = s.entry & ~RAW_FLAG;
  const u64 at = payload_offset<Value>(field) + before;
  if (at + length <= field.capacity) write_out<T>(s.staged, global<u8>(field.stream + at), length, tid);
  if (tid == 0 && own == launch.chunks - 1) finish_field<Value>(field, (u64)before + length);
  if ((u32)s.draw == grid_blocks() - 1) end_of_epoch<T>(launch, tag_of(s.draw), tid);
}

}  // namespace pfpl
