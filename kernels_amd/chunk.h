// What the encoder and the decoder share: how a block of 256 threads holds a chunk, and the steps between words and planes.
//
// A thread owns RUN = 16 words of 32 bits of the chunk: 16 codes of 32 bits, or 8 of 64.  In shared memory the chunk's 4096 words lie
// in order (of the values, or of the planes), with 16-byte units moved within 128 bytes (swizzle) so that threads reading their run of
// four units and waves writing plane words both meet all banks.
#pragma once
#include "platform.h"

namespace pfpl {

constexpr u32 THREADS = 256, WAVES = THREADS / WAVE, RUN = 16, CHUNK_WORDS = CHUNK_BYTES / 4, UNITS = RUN / 4;
constexpr u32 WAVE_UNITS = WAVE * UNITS;        // units that a wave owns

// Position of word `a`: bits 2 and 3 are xored with bits 5 and 6 (runs), bits 3 and 4 with bits 10 and 11 (planes).
PFPL_FN u32 swizzle(u32 a) { return a ^ (a >> 3 & 0xC) ^ (a >> 7 & 0x18); }

// Unit k of this thread's run is at word base ^ 4k, with base = swizzle(RUN * thread).
PFPL_FN void read_run(const u32* words, u32 base, u32* r) {
  PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) {
    const Words4 v = *(const Words4*)(words + (base ^ 4 * k));
    r[4 * k] = v.x; r[4 * k + 1] = v.y; r[4 * k + 2] = v.z; r[4 * k + 3] = v.w;
  }
}
PFPL_FN void write_run(u32* words, u32 base, const u32* r) {
  PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) *(Words4*)(words + (base ^ 4 * k)) = Words4{r[4 * k], r[4 * k + 1], r[4 * k + 2], r[4 * k + 3]};
}

// ---------------------------------------------------------------- transposes (FORMAT.md, coding a chunk, step 4)
// A 32x32 bit matrix has row 31 - e for element e, so that plane 31 - j is its transpose's row j.  Of the elements, one of two
// threads holds 0..15 (rows 31..16), the other 16..31; of the planes, the first holds 0..15 and the second 16..31.  For 64-bit codes
// one matrix is made of the elements' upper words (planes 0..31), one of the lower (32..63): thread bit 0 says which, bit 1 which half.
template <class Value> struct Place {
  static constexpr bool WIDE = Element<Value>::WIDTH == 64;
  static constexpr u32 PLANE_WORDS = CHUNK_WORDS / Element<Value>::WIDTH, PARTNER = WIDE ? 2 : 1;
  u32 even, odd;                                // where plane words go, for j even and odd
  u32 half_even, half_odd;                      // and where the upper 16 planes of each matrix are zero
  u32 join;                                     // byte selector that exchanges halves with the partner
  u32 low, high;                                // byte selectors of the stage by 8; of 64-bit codes, the lower words' threads hold rows r and r + 8 swapped
  u32 pack;                                     // the same where the upper 16 planes are zero

  PFPL_FN Place(u32 thread, bool decoding) {
    const bool second = thread & PARTNER, swapped = WIDE && (thread & 1);
    const u32 plane = WIDE ? (thread & 1) * 32 : 0, column = WIDE ? thread >> 2 ^ 1 : thread >> 1;
    even = swizzle((plane + (second ? 16 : 0)) * PLANE_WORDS + column); odd = even ^ 8;
    half_even = swizzle((plane + (second ? 24 : 16)) * PLANE_WORDS + column); half_odd = half_even ^ 8;
    join = second ? 0x05040100u : 0x03020706u;
    low = !swapped ? 0x06020400u : decoding ? 0x07030501u : 0x02060004u;
    high = !swapped ? 0x07030501u : decoding ? 0x06020400u : 0x03070105u;
    pack = swapped ? 0x01050004u : 0x05010400u;
  }
  // Plane word j (0..15) of this thread: the i-th plane of its 16 with i = 15 - j.  Bit 10 (64-bit codes: 6) is a source of the swizzle.
  PFPL_FN u32 word(u32 j) const {
    const u32 i = 15 - j;
    return ((WIDE ? i & 1 : i & 8) ? odd : even) + i * PLANE_WORDS;
  }
  PFPL_FN u32 half_word(u32 j) const {          // j in 0..7, of 8 planes
    const u32 i = 7 - j;
    return ((WIDE && (i & 1)) ? half_odd : half_even) + i * PLANE_WORDS;
  }
};

// One stage: of rows i and i + S, the columns that differ in bit S of their number change places.
template <u32 S, u32 ROWS> PFPL_FN void stage(u32* r) {
  constexpr u32 MASK = S == 4 ? 0x0F0F0F0Fu : S == 2 ? 0x33333333u : 0x55555555u;
  PFPL_UNROLL for (u32 i = 0; i < ROWS; i++)
    if (!(i & S)) {
      const u32 a = r[i], b = r[i + S];
      r[i] = select(MASK, a, b << S); r[i + S] = select(MASK, a >> S, b);
    }
}
template <u32 ROWS, class Value> PFPL_FN void join_halves(u32* r, const Place<Value>& place) {
  PFPL_UNROLL for (u32 i = 0; i < ROWS; i++) r[i] = permute_bytes(r[i], shuffle_xor<Place<Value>::PARTNER>(r[i]), place.join);
}
template <class Value> PFPL_FN void exchange_8(u32* r, const Place<Value>& place) {
  PFPL_UNROLL for (u32 i = 0; i < 8; i++) {
    const u32 a = r[i], b = r[i + 8];
    r[i] = permute_bytes(a, b, place.low); r[i + 8] = permute_bytes(a, b, place.high);
  }
}
// Words -> planes and back.  `half`: the upper 16 planes are zero; then a register holds rows i and i + 8, and 8 plane words come out.
template <class Value> PFPL_FN void planes_of_words(u32* r, const Place<Value>& place, bool half) {
  if (half) {
    PFPL_UNROLL for (u32 i = 0; i < 8; i++) r[i] = permute_bytes(r[i], r[i + 8], place.pack);
    stage<4, 8>(r); stage<2, 8>(r); stage<1, 8>(r);
    join_halves<8>(r, place);
  } else {
    exchange_8(r, place);
    stage<4, 16>(r); stage<2, 16>(r); stage<1, 16>(r);
    join_halves<16>(r, place);
  }
}
template <class Value> PFPL_FN void words_of_planes(u32* r, const Place<Value>& place, bool half) {
  if (half) {
    join_halves<8>(r, place);
    stage<1, 8>(r); stage<2, 8>(r); stage<4, 8>(r);
    const u32 first = (place.low & 0x01010101u) != 0 ? 0x0C0C0301u : 0x0C0C0200u;        // bytes 0, 2 are row i's, 1, 3 row i + 8's; or swapped
    PFPL_UNROLL for (u32 i = 0; i < 8; i++) { const u32 v = r[i]; r[i] = permute_bytes(v, 0, first); r[i + 8] = permute_bytes(v, 0, first ^ 0x00000101u); }
  } else {
    join_halves<16>(r, place);
    stage<1, 16>(r); stage<2, 16>(r); stage<4, 16>(r);
    exchange_8(r, place);
  }
}

// The planes in four parts of 4096 bytes, 16 KiB in all: which of them hold a one bit (bit i for part i).  A wave's bytes lie in one part.
// `r`: the words of all lanes.  Matrices have two parts each of 16 planes (64-bit codes), or one has four of 8.
constexpr u32 PART_BYTES = CHUNK_BYTES / 4;
template <class Value> struct Parts {
  static constexpr u32 UPPER = Element<Value>::WIDTH == 64 ? 0x5 : 0x3;    // the parts of the upper 16 planes
};
PFPL_FN u32 parts_of(const u32* r, float) {
  u32 all = 0;
  PFPL_UNROLL for (u32 i = 0; i < RUN; i++) all |= r[i];
  return (any(all >> 24) ? 1 : 0) | (any(all & 0xff0000u) ? 2 : 0) | (any(all & 0xff00u) ? 4 : 0) | (any(all & 0xffu) ? 8 : 0);
}
PFPL_FN u32 parts_of(const u32* r, double) {
  u32 all = 0;
  PFPL_UNROLL for (u32 i = 0; i < RUN; i++) all |= r[i];
  const Mask upper = ballot(all >> 16), lower = ballot(all & 0xffffu), even = (Mask)0x5555555555555555ull;
  return (upper & even ? 1 : 0) | (lower & even ? 2 : 0) | (upper & ~even ? 4 : 0) | (lower & ~even ? 8 : 0);
}
PFPL_FN u32 or_all(const u32* all) {
  u32 v = 0;
  PFPL_UNROLL for (u32 w = 0; w < WAVES; w++) v |= all[w];
  return uniform(v);
}
PFPL_FN bool has_part(u32 parts, u32 wave) { return parts >> (wave * 4 / WAVES) & 1; }

// ---------------------------------------------------------------- bytes
// The top bit of each byte: is it nonzero.
PFPL_FN u32 nonzero_bytes(u32 v) { return ((v & 0x7f7f7f7fu) + 0x7f7f7f7fu | v) & 0x80808080u; }
// Flags of the eight bytes of two words, times 128.
PFPL_FN u32 flags_of(u32 a, u32 b) { return dot_bytes(nonzero_bytes(a), 0x08040201u, dot_bytes(nonzero_bytes(b), 0x80402010u, 0)); }
PFPL_FN u32 flag_word(const u32* r) {            // of eight words
  return flags_of(r[0], r[1]) >> 7 | flags_of(r[2], r[3]) << 1 | flags_of(r[4], r[5]) << 9 | flags_of(r[6], r[7]) << 17;
}

// Entry of a table by the four flags of a word's bytes: a byte selector, and how far the position among the nonzero bytes advances.
struct Spread { u32 selector, advance; };
constexpr u32 ZERO_BYTE = 0x0C;                 // in a selector
// Moves the flagged bytes to the front; advances in bits.
PFPL_FN Spread compaction(u32 flags) {
  u32 selector = 0, n = 0;
  for (u32 b = 0; b < 4; b++) if (flags >> b & 1) selector |= b << 8 * n++;
  for (u32 b = n; b < 4; b++) selector |= ZERO_BYTE << 8 * b;
  return {selector, 8 * n};
}
// And back; advances in bytes.
PFPL_FN Spread expansion(u32 flags) {
  u32 selector = 0, n = 0;
  for (u32 b = 0; b < 4; b++) selector |= (flags >> b & 1 ? n++ : ZERO_BYTE) << 8 * b;
  return {selector, n};
}
// The entries of the eight words that a flag word covers.
PFPL_FN void read_entries(const Spread* table, u32 flags, Spread* entries) {
  const u32 even = opaque(flags << 3 & 0x78787878u), odd = opaque(flags >> 1 & 0x78787878u);       // bytes: offsets into the table
  PFPL_UNROLL for (u32 k = 0; k < 8; k++) entries[k] = *(const Spread*)((const u8*)table + ((k & 1 ? odd : even) >> 8 * (k / 2) & 0xff));
}

// ---------------------------------------------------------------- sums over the block
// `mine` holds this wave's sum and `all` the waves': the sum of the waves before this one, and of all.
struct Sums { u32 before, total; };
PFPL_FN Sums sums_of_waves(const u32* all, u32 lane, u32 wave) {
  const u32 v = all[lane & (WAVES - 1)], sums = WAVES == 4 ? row_scan_4(v) : row_scan_8(v);
  return {wave ? lane_value(sums, wave - 1) : 0, lane_value(sums, WAVES - 1)};
}
// A wave's sum of v, for 64-bit sums of sizes (below 2^54): the upper parts are rarely there.
PFPL_FN u64 wave_sum(u64 v) {
  u64 sum = lane_value(warp_scan((u32)v & 0xffffffu), WAVE - 1);
  if (any(v >> 24 != 0)) sum += (u64)lane_value(warp_scan((u32)(v >> 24)), WAVE - 1) << 24;
  return sum;
}
PFPL_FN u64 sum_all(const u64* all) {
  u64 sum = 0;
  PFPL_UNROLL for (u32 w = 0; w < WAVES; w++) sum += all[w];
  return uniform(sum);
}

// ---------------------------------------------------------------- lists of fields
// The last field whose first chunk is at most `chunk`: the one that holds it (empty fields share their successor's first chunk).
template <class Field> PFPL_FN u32 find_field(FieldPointer<Field> fields, u32 count, u32 chunk, u32 lane) {
  u32 low = 0;
  while (count > 1) {                           // fields low .. low + count - 1, of which the first qualifies
    const u32 step = (count + WAVE - 1) / WAVE, i = lane * step;
    const bool holds = i < count && fields[low + i].first_chunk <= chunk;
    const u32 part = popcount(ballot(holds)) - 1;
    low += part * step;
    count = count - part * step < step ? count - part * step : step;
  }
  return low;
}

// Where the state's parts are (Launch::state); TICKET and EPOCH are words of their own cache lines.
constexpr u32 TICKET = 0, EPOCH = 256, FIELD_STATE_BYTES = 16;
PFPL_FN u64 field_state(LaunchPointer launch, u32 field) { return launch->state + CONTROL_BYTES + (u64)field * FIELD_STATE_BYTES; }
PFPL_FN u64 chunk_words(LaunchPointer launch) { return field_state(launch, launch->field_capacity); }

}  // namespace pfpl
