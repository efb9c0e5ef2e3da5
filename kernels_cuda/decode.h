// Decoding, one launch: a block of 128 threads takes a run of consecutive chunks of the launch, one chunk at a time.
//
// All sizes are in the table, so no block waits for another: each sums the table up to its first chunk, once, and from there on only adds
// lengths.  A thread owns 32 consecutive codes of 32 bits, or 16 of 64 bits, in registers.  One chunk, with its barriers:
//
//   B0  what the chunk is (Job) and the levels 4 to 2 of its bitmap are known; the other buffer is free: the next chunk's copy starts
//       each thread spreads a run of level 1: its flag words, and how many nonzero bytes come before each, go to shared memory
//   B1  (coded chunks only) flags complete: the counts are checked, verdicts posted
//       every thread picks its words of all planes straight out of the coded bytes, transposes them, sums its differences
//   B2  sums complete, coded bytes used up, the next chunk's have arrived
//       codes, values, and through the used buffer to coalesced stores; meanwhile one warp, another each time, works the levels of the
//       next chunk's bitmap and looks up the chunk after it
//
// A plane word of lane k lies a few bytes behind that of lane k - 1, so these loads have hardly any bank conflicts; groups of planes in
// which a warp has no byte are skipped.
#pragma once
#include "platform.h"
#include "transpose.h"

namespace pfpl {

constexpr u32 DECODE_THREADS = 128, DECODE_WARPS = DECODE_THREADS / 32;
constexpr u32 DECODE_BLOCKS = 6;                // resident on a multiprocessor, at most
constexpr u32 THREAD_WORDS = CHUNK_BYTES / 4 / DECODE_THREADS;             // 32-bit words of codes a thread
constexpr u32 CODED_STRIDE = 16416;             // a buffer: up to 15 bytes before the chunk, the chunk, and what the last word loads touch

// What became of a field, gathered from the blocks: zero between launches.
struct FieldState {
  u64 verdict;                                  // the largest ~(status, chunk); 0: nothing wrong
  u32 arrived;                                  // chunks accounted for
  u32 reserved;
};
static_assert(sizeof(FieldState) == 16, "state ABI");
PFPL_FN u64 verdict_of(u32 status, u32 chunk) { return status == OK ? 0 : ~((u64)status << 32 | chunk); }
PFPL_FN u64 worse(u64 a, u64 b) { return a > b ? a : b; }

enum Form : u32 { NOTHING, ZEROS, RAW, CODED };                            // how a chunk decodes; NOTHING: it does not
struct Job {
  u64 out;                                      // device address of the chunk's first value (before the field, if a range starts inside)
  u64 source;                                   // device address of the first coded byte
  u64 end;                                      // device address of the end of the archive
  u64 verdict;                                  // known before decoding
  u16 low, high;                                // its values low .. high-1 are wanted
  u32 chunk, length;
  u32 form, field;
  u32 closing;                                  // not 0: the block's last job of this field; chunks that it accounts for
  u32 total;                                    // chunks of the field in this launch
  float bound;
  u32 more;                                     // there is a job after this one
};

template <class Value> struct DecodeShared {
  u32 selector[16];                             // nibble -> byte permute that spreads bytes out to where the nibble has ones
  u32 running[16];                              // nibble -> byte permute of a running value: byte 0 is the value before
  u8 coded[2][CODED_STRIDE];
  Words2 flags[CHUNK_BYTES / 32];               // level 1: 32 flags, rotated left by 2; nonzero bytes before them, in the run's warp
  Words2 level2[64];                            // 32 flags; kept bytes before them
  u64 totals[DECODE_WARPS];                     // sums of differences
  u32 counts[DECODE_WARPS], live[DECODE_WARPS]; // nonzero bytes of a warp's runs; which of its lanes have any
  u32 kept, planes;                             // kept bytes of level 2 begin here; planes that can hold a one, or 0: levels 4 to 2 do not add up
  u64 verdict;                                  // of this block's chunks of the field so far
  Job job[2];
  // where the block is: of the next chunk
  u64 first, count, stream, out, table, offset, end, index;
  u32 next, last, field, field_end, field_first, status;
  float bound;
  u32 taken;                                    // chunks of the field accounted for
};

PFPL_FN u32 word_at(const u8* p, u32 at) {      // the 4 bytes at p + at
  const u32* w = (const u32*)(p + (at & ~3u));
  return funnel_right(w[0], w[1], at * 8);
}
template <class Value> PFPL_FN u32 running_bytes(const DecodeShared<Value>& s, const u8* coded, u32 flags, u32 at) {      // `at`: of the value before
  const u32* w = (const u32*)(coded + (i32)(at & ~3u));
  return permute(w[0], w[1], s.running[flags] + (at & 3) * 0x1111u);
}

// ---------------------------------------------------------------- which chunk, and where
// The field of the launch that chunk g is in, not before `from`.  One warp.
PFPL_FN u32 field_of(const DecodeField* fields, u32 count, u32 g, u32 from, u32 lane) {
  u32 low = from, high = count;                 // in low .. high-1
  for (u32 step = 1; high - low > 1; step = (high - low + 31) / 32) {
    const u32 f = low + lane * step;
    const u32 hits = popcount(ballot(f < high && (lane == 0 || fields[f].first_chunk <= g)));
    const u32 top = low + hits * step;
    low += (hits - 1) * step;
    if (hits < 32 || step > 1) high = top < high ? top : high;
  }
  return low;
}

// Sum of the lengths of entries part * 4 .. of a table's first `count`, by warps part of parts; `bad`: an entry was.
PFPL_FN u64 sum_lengths(const u32* table, u64 count, u32 part, u32 parts, u32 lane, bool& bad) {
  u64 sum = 0;
  for (u64 i = part * 32 + lane; i < count; i += parts * 32 * 8) {
    u32 e[8];
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) e[k] = i + k * parts * 32 < count ? table[i + k * parts * 32] : EMPTY_CHUNK_BYTES;
    u32 t = 0;
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) {
      bad |= bad_entry(e[k]);
      t += (e[k] & ~RAW_FLAG) - (i + k * parts * 32 < count ? 0 : EMPTY_CHUNK_BYTES);
    }
    sum += t;                                   // eight lengths of sound entries do not wrap; after a bad one nothing depends on the sum
  }
  return sum;
}
PFPL_FN u64 warp_sum(u64 v) {
  PFPL_UNROLL for (u32 d = 16; d; d >>= 1) v += (u64)shuffle_xor((u32)(v >> 32), d) << 32 | shuffle_xor((u32)v, d);
  return v;
}
// The lowest of the table's first `count` chunks that is bad or ends past `room` bytes.  One warp; there is one.
PFPL_NOINLINE u32 first_bad(const u32* table, u64 count, u64 room, u32 lane) {
  u64 sum = 0;
  for (u64 i = 0; i < count; i += 32) {
    const u32 e = i + lane < count ? table[i + lane] : EMPTY_CHUNK_BYTES;
    const u32 bad = ballot(bad_entry(e));
    const u32 sums = warp_scan(bad_entry(e) ? 0 : e & ~RAW_FLAG);
    const u32 past = bad | ballot(i + lane < count && sum + sums > room);
    if (past) return (u32)i + lowest_bit(past);
    sum += shuffle(sums, 31);
  }
  return NO_CHUNK;
}

// Enters the field of chunk s.next: what it is, and where that chunk begins.  `part`: of how many warps this is which; the sum of the
// lengths before the chunk is the caller's to complete.
template <class Value> struct Entered { DecodeField field; Layout layout; u64 index, before; u32 number, end; bool bad; };
template <class Value> PFPL_FN Entered<Value> enter(const Launch& launch, const DecodeField* fields, u32 g, u32 from, u32 part, u32 parts, u32 lane) {
  Entered<Value> e;
  e.number = field_of(fields, launch.fields, g, from, lane);
  e.field = fields[e.number];
  e.end = e.number + 1 < launch.fields ? fields[e.number + 1].first_chunk : launch.chunks;
  e.layout = read_header<Value>((const u32*)e.field.stream, e.field.bytes, e.field.n);
  e.index = e.field.first / Element<Value>::CODES + (g - e.field.first_chunk);
  e.bad = false;
  e.before = e.layout.status == OK ? sum_lengths((const u32*)(e.field.stream + e.layout.table), e.index, part, parts, lane, e.bad) : 0;
  return e;
}
// Takes note of it.  One warp; `before` and `bad` complete.  Gives the verdict on the entries before a range.
template <class Value> PFPL_FN u64 note(DecodeShared<Value>& s, const Entered<Value>& e, u32 g, u32 lane) {
  u64 verdict = e.layout.status == OK ? 0 : verdict_of(e.layout.status, NO_CHUNK);
  const u64 room = e.layout.end - e.layout.payload;
  if (e.layout.status == OK && g == e.field.first_chunk && (e.bad || e.before > room))
    verdict = verdict_of(BAD_TABLE, first_bad((const u32*)(e.field.stream + e.layout.table), e.index, room, lane));
  warp_barrier();                               // all lanes have read s
  if (lane == 0) {
    s.first = e.field.first; s.count = e.field.count; s.stream = e.field.stream;
    s.table = e.field.stream + e.layout.table; s.offset = e.layout.payload + e.before; s.end = e.layout.end; s.index = e.index;
    s.out = e.field.field + (e.index * Element<Value>::CODES - e.field.first) * sizeof(Value);
    s.field = e.number; s.field_first = e.field.first_chunk; s.field_end = e.end; s.status = e.layout.status; s.bound = e.layout.bound;
    s.taken = 0;
  }
  warp_barrier();
  return verdict;
}
// Describes chunk s.next in `job` and steps past it.  One warp.
template <class Value> PFPL_FN void describe(DecodeShared<Value>& s, Job& job, u64 verdict, u32 lane) {
  constexpr u32 CODES = Element<Value>::CODES;
  warp_barrier();                               // all lanes have read s
  if (lane == 0) {
    const u32 stop = s.field_end < s.last ? s.field_end : s.last;         // of this block's chunks of the field
    job.out = s.out; job.source = s.stream + s.offset; job.end = s.stream + s.end;
    job.bound = s.bound; job.field = s.field; job.total = s.field_end - s.field_first; job.chunk = (u32)s.index;
    u32 form = NOTHING, length = 0, steps = stop - s.next;                // of a refused field the rest is passed over at once
    if (s.status == OK) {
      const u32 entry = *(const u32*)(s.table + 4 * s.index);
      length = entry & ~RAW_FLAG;
      steps = 1;
      if (bad_entry(entry) || s.offset > s.end || length > s.end - s.offset) verdict = worse(verdict, verdict_of(BAD_TABLE, (u32)s.index));
      else form = entry & RAW_FLAG ? RAW : length == EMPTY_CHUNK_BYTES ? ZEROS : CODED;
    }
    job.form = form; job.length = length; job.verdict = verdict;
    const u64 begin = s.index * CODES, stopped = s.first + s.count;
    job.low = begin < s.first ? (u16)(s.first - begin) : 0;
    job.high = (u16)(stopped - begin < CODES ? stopped - begin : CODES);
    s.taken += steps;
    s.next += steps; s.index += steps; s.offset += length; s.out += (u64)steps * CHUNK_BYTES;
    job.closing = s.next == stop ? s.taken : 0;
    job.more = s.next < s.last;
  }
  warp_barrier();
}
template <class Value> PFPL_FN void next_job(DecodeShared<Value>& s, const Launch& launch, const DecodeField* fields, Job& job, u32 lane) {
  u64 verdict = 0;
  if (s.next == s.field_end) {
    const u32 g = s.next;
    Entered<Value> e = enter<Value>(launch, fields, g, s.field + 1, 0, 1, lane);
    e.before = warp_sum(e.before); e.bad = any(e.bad);
    verdict = note(s, e, g, lane);
  }
  describe(s, job, verdict, lane);
}

// ---------------------------------------------------------------- verdicts
PFPL_FN void write_outcome(u64 outcome, u64 stream_bytes, u64 verdict) {
  const u32 status = verdict ? (u32)(~verdict >> 32) : (u32)OK, chunk = verdict ? (u32)~verdict : NO_CHUNK;
  Outcome* o = (Outcome*)outcome;
  o->stream_bytes = status == OK || status >= BAD_TABLE ? stream_bytes : 0;
  o->status = status; o->chunk = chunk;
}
// One thread, for all of the block's chunks of the field: the block that completes the field writes its outcome.
PFPL_FN void arrive(const Launch& launch, const DecodeField& field, const Job& job, u64 verdict) {
  if (!field.outcome) return;
  if (job.closing != job.total) {
    FieldState* f = (FieldState*)(launch.state + CONTROL_BYTES) + job.field;
    if (verdict) fetch_max(&f->verdict, verdict);
    if (fetch_add_ordered(&f->arrived, job.closing) + job.closing != job.total) return;
    verdict = load_relaxed(&f->verdict);
    store_relaxed(&f->verdict, (u64)0); store_relaxed(&f->arrived, 0u);
  }
  write_outcome(field.outcome, job.end - field.stream, verdict);
}

// ---------------------------------------------------------------- coded bytes
template <class Value> PFPL_FN void request(DecodeShared<Value>& s, const Job& job, u32 buffer, u32 tid) {
  if (job.form == NOTHING) return;
  const u32 begin = (u32)job.source & 15, units = (begin + job.length + 15) / 16;
  const u64 from = job.source - begin, left = job.end - from;             // whole units, but nothing past the archive
  const u32 room = left < CODED_STRIDE ? (u32)left : CODED_STRIDE;
  PFPL_ROLL for (u32 u = tid; u < units; u += DECODE_THREADS)
    copy_async<16>(s.coded[buffer] + u * 16, (const void*)(from + u * 16), room - u * 16 < 16 ? room - u * 16 : 16);
}

// Levels 4, 3 and 2 of a chunk's bitmap -> s.level2, s.kept, s.planes.  One warp.  Do they add up?
template <class Value> PFPL_FN bool upper_levels(DecodeShared<Value>& s, const Job& job, const u8* coded, u32 lane) {
  const u32 begin = (u32)job.source & 15, end = begin + job.length;
  if ((word_at(coded, end - 2) & 0xffff) != CHUNK_BYTES) return false;
  if (job.form == ZEROS) { if (lane == 0) s.planes = 1; return true; }
  u32 at = end - 6;                             // kept bytes of the level at hand end here
  const u32 level4 = word_at(coded, at), n4 = popcount(level4);
  if (n4 > at - begin) return false;
  at -= n4;
  const u32 k = popcount(level4 & ALL_LANES >> (31 - lane));
  const u32 level3 = k ? coded[at + k - 1] : 0;                            // byte `lane`
  const u32 c3 = popcount(level3), upto3 = warp_scan(c3), n3 = shuffle(upto3, 31);
  if (n3 > at - begin) return false;
  at -= n3;
  u32 f0 = 0, f1 = 0;                           // bytes 8 lane .. 8 lane + 7 of level 2: zero up to the first kept one
  if (upto3) {
    const u32 before = upto3 - c3, p = at + before - 1;
    f0 = running_bytes(s, coded, level3 & 15, p); f1 = running_bytes(s, coded, level3 >> 4, p + popcount(level3 & 15));
    if (!before) {
      const u32 z = lowest_bit(level3) * 8;
      if (z < 32) f0 &= ALL_LANES << z; else { f0 = 0; f1 &= ALL_LANES << (z - 32); }
    }
  }
  const u32 c0 = popcount(f0), c1 = popcount(f1), upto2 = warp_scan(c0 + c1), n2 = shuffle(upto2, 31);
  if (n2 > at - begin) return false;
  s.level2[2 * lane] = Words2{f0, upto2 - c1 - c0}; s.level2[2 * lane + 1] = Words2{f1, upto2 - c1};
  const u32 half = shuffle(upto2, 15), quarter = shuffle(upto2, 23);
  if (lane == 0) { s.kept = at - n2; s.planes = Element<Value>::WIDTH >> (half ? 0 : quarter ? 1 : 2); }
  return true;
}
template <class Value> PFPL_FN void levels(DecodeShared<Value>& s, const Job& job, const u8* coded, u32 lane) {
  if (job.form != CODED && job.form != ZEROS) return;
  const bool sound = upper_levels(s, job, coded, lane);
  if (lane == 0 && !sound) s.planes = 0;
}

// Level 1 of the last 128 * NB bitmap bytes, those of the planes that can hold a one, NB bytes a thread -> s.flags, s.counts, s.live.
template <u32 NB, class Value> PFPL_FN void level1(DecodeShared<Value>& s, const u8* coded, u32 tid) {
  constexpr u32 NF = NB / 4, START = CHUNK_BYTES / 8 - DECODE_THREADS * NB;
  const u32 bit = START + tid * NB, shift = bit & 31;
  const Words2 l2 = s.level2[bit / 32];
  const u32 before = l2.y + popcount(l2.x & ((1u << shift) - 1)), f = l2.x >> shift & ((1u << NB) - 1);
  u32 F[NF], at = s.kept + before - 1;
  PFPL_UNROLL for (u32 g = 0; g < NF; g++) { const u32 n = f >> (4 * g) & 15; F[g] = running_bytes(s, coded, n, at); at += popcount(n); }
  if (!before) {                                // zero up to the first kept byte
    const u32 z = f ? lowest_bit(f) : NB;
    PFPL_UNROLL for (u32 g = 0; g < NF; g++) if (z > 4 * g) F[g] = z >= 4 * g + 4 ? 0 : F[g] & ALL_LANES << 8 * (z - 4 * g);
  }
  u32 n[NF], count = 0, some = 0;
  PFPL_UNROLL for (u32 g = 0; g < NF; g++) { n[g] = count; count += popcount(F[g]); some |= F[g]; }
  const u32 upto = warp_scan(count), live = ballot(some != 0);
  PFPL_UNROLL for (u32 g = 0; g < NF; g++) s.flags[START / 4 + tid * NF + g] = Words2{F[g] << 2 | F[g] >> 30, upto - count + n[g]};
  if (tid % 32 == 31) { s.counts[tid / 32] = upto; s.live[tid / 32] = live; }
}

// The word whose nibble is `rotation` / 4 of flag word f, its nonzero bytes spread out; `below`: the flags before it.
template <class Value> PFPL_FN u32 spread(const DecodeShared<Value>& s, const u8* coded, Words2 f, u32 from, u32 rotation, u32 below) {
  const u32 at = f.y + popcount(f.x & below) + from;
  const u32 selector = *(const u32*)((const u8*)s.selector + (funnel_right(f.x, f.x, rotation) & 0x3c));
  return permute(word_at(coded, at), 0, selector);
}

// ---------------------------------------------------------------- planes to differences
// Where a lane's words are.  32-bit codes: thread t has word t of every plane.  64-bit codes: threads 4g .. 4g+3 have group g, 16
// elements each; lane j of the four picks, of plane p (j even) or p + 8 (j odd), the word with elements 32 (j/2) .., and trades it
// with its neighbour, so that both have their 16 bits of both planes.
template <class Value> struct Lane;
template <> struct Lane<float> {
  static constexpr u32 PLANE = 128, PAIR = 1;   // words of a plane; planes a pick
  u32 word, odd;
  PFPL_FN Lane(u32 tid) : word(tid), odd(0) {}
  PFPL_FN u32 trade(u32 own) const { return own; }
};
template <> struct Lane<double> {
  static constexpr u32 PLANE = 64, PAIR = 2;
  u32 word, odd;
  PFPL_FN Lane(u32 tid) : word(tid / 4 * 2 + (tid & 2 ? 0 : 1)), odd(tid & 1) {}
  // own: of plane p + 8 odd; gives plane p (high half) and p + 8 (low half)
  PFPL_FN u32 trade(u32 own) const { return permute(own, shuffle_xor(own, 1), odd ? 0x5410 : 0x3276); }
};

// Calls pick(l, i) for each word that a thread needs of the lowest NP planes, l the plane (of the first lane of a pair) counted from the
// first of them, i its place in r; four words, or eight planes of 64-bit codes, at a time, which are 0 if wanted(group) is false.
template <u32 NP, class Value, class Wanted, class Pick> PFPL_FN void each_word(u32* r, Wanted wanted, Pick pick) {
  if constexpr (sizeof(Value) == 4) {
    PFPL_UNROLL for (u32 i = 0; i < NP / 4; i++) {
      const bool some = wanted(i);
      PFPL_UNROLL for (u32 k = 0; k < 4; k++) r[NP - 1 - (4 * i + k)] = 0;
      if (some) PFPL_UNROLL for (u32 k = 0; k < 4; k++) r[NP - 1 - (4 * i + k)] = pick(4 * i + k);
    }
  } else {
    PFPL_UNROLL for (u32 i = 0; i < NP / 8; i++) {
      const bool some = wanted(i);
      u32* const half = r + (NP == 64 && i < 4 ? 0 : 16) + (NP > 16 && i / 2 % 2 == 0 ? 8 : 0) + 4 - i % 2 * 4;
      PFPL_UNROLL for (u32 k = 0; k < 4; k++) half[3 - k] = 0;
      if (some) PFPL_UNROLL for (u32 k = 0; k < 4; k++) half[3 - k] = pick(i / 2 * 16 + i % 2 * 4 + k);
    }
  }
}

// Planes of a coded chunk, of which at most the lowest NP hold a one; `from`: where the chunk's bytes begin.
template <u32 NP, class Value> PFPL_FN void gather(const DecodeShared<Value>& s, const u8* coded, u32 from, u32* r, u32 tid) {
  using L = Lane<Value>;
  constexpr u32 PLANE_FLAGS = L::PLANE / 8;     // flag words of a plane
  constexpr u32 RUNS = NP / 4;                  // planes whose flags one warp made
  constexpr u32 LANES = 32 / RUNS;              // lanes that made a plane's; a quarter of them (at least one) made those this warp needs
  const L at(tid);
  const u32 warp = tid / 32, rotation = at.word % 8 * 4, below = ((1u << rotation) - 1) << 2;
  const Words2* const flags = s.flags + (Element<Value>::WIDTH - NP) * PLANE_FLAGS + at.word / 8 + at.odd * 8 * PLANE_FLAGS;
  u32 start[DECODE_WARPS], live[DECODE_WARPS];
  PFPL_UNROLL for (u32 q = 0; q < DECODE_WARPS; q++) { start[q] = from; from += s.counts[q]; live[q] = s.live[q] >> (warp * LANES / 4); }
  each_word<NP, Value>(r,
    [&](u32 i) {
      u32 hit = 0;
      PFPL_UNROLL for (u32 k = 0; k < 4 * L::PAIR; k++) {
        const u32 l = L::PAIR == 1 ? 4 * i + k : i / 2 * 16 + i % 2 * 4 + k % 4 + k / 4 * 8;
        hit |= live[l / RUNS] & ((1u << (LANES < 4 ? 1 : LANES / 4)) - 1) << l % RUNS * LANES;
      }
      return hit != 0;
    },
    [&](u32 l) {
      const u32 mine = L::PAIR == 1 || l / RUNS == (l + 8) / RUNS || !at.odd ? start[l / RUNS] : start[(l + 8) / RUNS % DECODE_WARPS];
      return at.trade(spread(s, coded, flags[l * PLANE_FLAGS], mine, rotation, below));
    });
}
// Planes of a raw chunk.
template <class Value> PFPL_FN void gather_raw(const u8* coded, u32 from, u32* r, u32 tid) {
  const Lane<Value> at(tid);
  const u8* const p = coded + 4 * (at.word + at.odd * 8 * at.PLANE);
  each_word<Element<Value>::WIDTH, Value>(r, [](u32) { return true; }, [&](u32 l) { return at.trade(word_at(p + l * 4 * at.PLANE, from)); });
}

// Planes -> negabinary differences + m, last element first; 64-bit ones as upper halves r[0..15] and lower halves r[16..31].
template <u32 NP> PFPL_FN void differences(u32* r, float) { words_of_planes<NP>(r); }
template <u32 NP> PFPL_FN void differences(u32* r, double) {
  if constexpr (NP == 64) words_of_half_planes<32>(r);
  else { PFPL_UNROLL for (u32 i = 0; i < 16; i++) r[i] = NEGABINARY; }
  words_of_half_planes<NP == 16 ? 16 : 32>(r + 16);
}

// ---------------------------------------------------------------- differences to values
template <class Value> struct Codes;            // what a thread holds: PER_THREAD codes, last element first
template <> struct Codes<float> {
  static constexpr u32 PER_THREAD = THREAD_WORDS;
  // A code c that is a bin, plus BIAS, is the bits of 2^22 + c/2; ONE more 2^22, rounded up, makes it 2^23 + |q|, |q| = (c + 1) / 2,
  // and the product with eb2 comes from one multiply-add, since 2^23 eb2 is exact (up to LARGEST).  The sign of q is c's last bit.
  static constexpr u32 BIAS = 0x4A800000u, BIN_SHIFT = 23;
  static constexpr float ONE = 4194304.f, TWO = 8388608.f, LARGEST = 0x1p104f;
  static PFPL_FN u32 get(const u32* r, u32 i) { return r[i]; }
  static PFPL_FN void put(u32* r, u32 i, u32 v) { r[i] = v; }
  static PFPL_FN u32 top(u32 v) { return v; }
  static PFPL_FN u32 signed_bits(u32 v, u32 c) { return v ^ c << 31; }
};
template <> struct Codes<double> {
  static constexpr u32 PER_THREAD = THREAD_WORDS / 2;
  static constexpr u64 BIAS = 0x4320000000000000ull;
  static constexpr u32 BIN_SHIFT = 20;
  static constexpr double ONE = 2251799813685248., TWO = 4503599627370496., LARGEST = 0x1p200;
  static PFPL_FN u64 get(const u32* r, u32 i) { return (u64)r[i] << 32 | r[16 + i]; }
  static PFPL_FN void put(u32* r, u32 i, u64 v) { r[i] = (u32)(v >> 32); r[16 + i] = (u32)v; }
  static PFPL_FN u32 top(u64 v) { return (u32)(v >> 32); }
  static PFPL_FN u64 signed_bits(u64 v, u64 c) { return v ^ (u64)((u32)c << 31) << 32; }
};
PFPL_FN u32 scan(u32 v, u32) { return warp_scan(v); }
PFPL_FN u64 scan(u64 v, u32 lane) {
  PFPL_UNROLL for (u32 d = 1; d < 32; d <<= 1) {
    const u64 t = (u64)shuffle_up((u32)(v >> 32), d) << 32 | shuffle_up((u32)v, d);
    if (lane >= d) v += t;
  }
  return v;
}

// Differences -> values, in place; `sum`: the code before the thread's first.
template <class Value> PFPL_FN void values(u32* r, typename Element<Value>::Code sum, Value eb2) {
  using E = Element<Value>; using C = Codes<Value>; using Code = typename E::Code;
  u32 ones = 0, zeros = ALL_LANES;              // of the upper bits: which are one, which zero somewhere
  sum += C::BIAS;
  PFPL_UNROLL for (i32 i = C::PER_THREAD - 1; i >= 0; i--) {
    sum = sum + C::get(r, i) - E::NEGABINARY;
    C::put(r, i, sum);
    ones |= C::top(sum); zeros &= C::top(sum);
  }
  const u32 bias = C::top((Code)C::BIAS);
  if (any(((ones ^ bias) | (zeros ^ bias)) >> C::BIN_SHIFT) || !(eb2 <= C::LARGEST)) {
    PFPL_UNROLL for (u32 i = 0; i < C::PER_THREAD; i++) C::put(r, i, bits_of(dequantize<Value>((Code)(C::get(r, i) - C::BIAS), eb2)));
  } else {
    const Value minus = -(C::TWO * eb2);
    PFPL_UNROLL for (u32 i = 0; i < C::PER_THREAD; i++) {
      const Code c = C::get(r, i);
      C::put(r, i, C::signed_bits(bits_of(fused(add_up(value_of(c), C::ONE), eb2, minus)), c));
    }
  }
}

// Values -> memory, through `stage`, 4 KiB of this warp's: rows of 128 bytes, one a thread, 16-byte units XORed with the row.
template <class Value> PFPL_FN void store(const u32* r, Words4* stage, u64 out, u32 low, u32 high, u32 tid) {
  constexpr u32 V = Codes<Value>::PER_THREAD, CODES = Element<Value>::CODES;
  const u32 lane = tid % 32, warp = tid / 32;
  PFPL_UNROLL for (u32 u = 0; u < 8; u++) {
    const Words4 w = sizeof(Value) == 4 ? Words4{r[31 - 4 * u], r[30 - 4 * u], r[29 - 4 * u], r[28 - 4 * u]}
                                        : Words4{r[31 - 2 * u], r[15 - 2 * u], r[30 - 2 * u], r[14 - 2 * u]};
    stage[lane * 8 + (u ^ lane % 8)] = w;
  }
  warp_barrier();
  if (!low && high == CODES && !(out & 15)) {
    Words4* const to = (Words4*)out + warp * 256 + lane;
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) to[32 * k] = stage[k * 32 + (lane ^ (lane / 8 + k % 2 * 4))];
  } else {
    using Code = typename Element<Value>::Code;
    constexpr u32 UNIT = 16 / sizeof(Value);    // values of a unit
    PFPL_ROLL for (u32 k = 0; k < V; k++) {
      const u32 i = k * 32 + lane, row = i / V, at = warp * 32 * V + i;
      if (at >= low && at < high) ((Code*)out)[at] = ((const Code*)(stage + row * 8 + (i % V / UNIT ^ row % 8)))[i % UNIT];
    }
  }
}
template <class Value> PFPL_FN void store_zeros(u64 out, u32 low, u32 high, u32 tid) {
  if (!low && high == Element<Value>::CODES && !(out & 15)) {
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) ((Words4*)out)[tid + k * DECODE_THREADS] = Words4{0, 0, 0, 0};
  } else {
    PFPL_ROLL for (u32 i = low + tid; i < high; i += DECODE_THREADS) ((Value*)out)[i] = 0;
  }
}

// ---------------------------------------------------------------- the kernel
template <class Value> PFPL_FN void decode(const Launch& launch, const DecodeField* fields) {
  using E = Element<Value>; using C = Codes<Value>; using Code = typename E::Code;
  auto& s = shared_memory<DecodeShared<Value>>();
  const u32 tid = thread_index(), lane = tid % 32, warp = tid / 32;
  if (tid < 16) {
    u32 selector = 0, running = 0, k = 0;
    for (u32 j = 0; j < 4; j++) {
      const bool one = tid >> j & 1;
      selector |= (one ? k : 4) << 4 * j;
      k += one;
      running |= k << 4 * j;
    }
    s.selector[tid] = selector; s.running[tid] = running;
  }
  const u32 g = (u32)((u64)launch.chunks * block_index() / grid_blocks()), last = (u32)((u64)launch.chunks * (block_index() + 1) / grid_blocks());
  if (g < last) {
    Entered<Value> e = enter<Value>(launch, fields, g, 0, warp, DECODE_WARPS, lane);
    const u64 before = warp_sum(e.before);
    const bool bad = any(e.bad);
    if (lane == 0) { s.totals[warp] = before; s.counts[warp] = bad; }
    barrier();
    if (warp == 0) {
      e.before = s.totals[0] + s.totals[1] + s.totals[2] + s.totals[3]; e.bad = s.counts[0] | s.counts[1] | s.counts[2] | s.counts[3];
      if (lane == 0) { s.next = g; s.last = last; s.verdict = 0; }
      describe(s, s.job[0], note(s, e, g, lane), lane);
    }
    barrier();
    request(s, s.job[0], 0, tid);
    if (warp == 0 && s.job[0].more) next_job(s, launch, fields, s.job[1], lane);
    copies_wait();
    barrier();
    if (warp == 1) levels(s, s.job[0], s.coded[0], lane);

    for (u32 turn = 0;; turn ^= 1) {
      barrier();                                // B0
      const Job& job = s.job[turn];
      const Job& next = s.job[turn ^ 1];
      u8* const coded = s.coded[turn];
      const u32 begin = (u32)job.source & 15, low = job.low, high = job.high;
      const u64 out = job.out;
      const Value eb2 = 2 * (Value)job.bound;
      const bool more = job.more;
      u32 form = job.form;
      if (more) request(s, next, turn ^ 1, tid);
      const u32 planes = s.planes;
      if ((form == CODED || form == ZEROS) && !planes) form = NOTHING;
      if (form == CODED) {
        if (planes == E::WIDTH) level1<16>(s, coded, tid);
        else if (planes == E::WIDTH / 2) level1<8>(s, coded, tid);
        else level1<4>(s, coded, tid);
        barrier();                              // B1
        if (begin + s.counts[0] + s.counts[1] + s.counts[2] + s.counts[3] != s.kept) form = NOTHING;
      }
      if (tid == 0) {
        u64 verdict = worse(job.verdict, s.verdict);
        if (form == NOTHING && job.form != NOTHING) verdict = worse(verdict, verdict_of(CORRUPT_CHUNK, job.chunk));
        if (job.closing) { arrive(launch, fields[job.field], job, verdict); verdict = 0; }
        s.verdict = verdict;
      }
      u32 r[THREAD_WORDS];
      Code sum = 0, upto = 0;
      if (form >= RAW) {
        if (form == RAW) { gather_raw<Value>(coded, begin, r, tid); differences<E::WIDTH>(r, Value()); }
        else if (planes == E::WIDTH) { gather<E::WIDTH>(s, coded, begin, r, tid); differences<E::WIDTH>(r, Value()); }
        else if (planes == E::WIDTH / 2) { gather<E::WIDTH / 2>(s, coded, begin, r, tid); differences<E::WIDTH / 2>(r, Value()); }
        else { gather<E::WIDTH / 4>(s, coded, begin, r, tid); differences<E::WIDTH / 4>(r, Value()); }
        PFPL_UNROLL for (u32 i = 0; i < C::PER_THREAD; i++) sum += C::get(r, i);
        sum -= C::PER_THREAD * E::NEGABINARY;
        upto = scan(sum, lane);
        if (lane == 31) s.totals[warp] = upto;
      }
      copies_wait();
      barrier();                                // B2
      if (form >= RAW) {
        Code before = upto - sum;
        PFPL_UNROLL for (u32 q = 0; q + 1 < DECODE_WARPS; q++) if (q < warp) before += (Code)s.totals[q];
        values<Value>(r, before, eb2);
        store<Value>(r, (Words4*)coded + warp * 256, out, low, high, tid);
      } else if (form == ZEROS) store_zeros<Value>(out, low, high, tid);
      if (!more) break;
      if (warp == (block_index() + turn) % DECODE_WARPS) {
        levels(s, next, s.coded[turn ^ 1], lane);
        if (next.more) next_job(s, launch, fields, s.job[turn], lane);
      }
    }
  }
  // Fields of which nothing is wanted: their header is judged all the same.
  if (launch.chunks == 0 || launch.fields > 1)
    for (u32 f = block_index() * DECODE_THREADS + tid; f < launch.fields; f += grid_blocks() * DECODE_THREADS) {
      const DecodeField& field = fields[f];
      if (field.count || !field.outcome) continue;
      const Layout l = read_header<Value>((const u32*)field.stream, field.bytes, field.n);
      write_outcome(field.outcome, l.end, l.status == OK ? 0 : verdict_of(l.status, NO_CHUNK));
    }
}

}  // namespace pfpl
