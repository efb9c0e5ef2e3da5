// Decoding, one launch: a block of 128 threads takes a run of consecutive chunks of the launch, one chunk at a time.
//
// All sizes are in the table, so no block waits for another: each sums the table up to its first chunk, once, and from there on only adds
// lengths.  A thread owns 32 consecutive codes of 32 bits, or 16 of 64 bits, in registers.  One chunk, with its barriers:
//
//       one warp works the levels 4 to 2 of the chunk's bitmap, another looks up the next chunk; the next time the other two do
//   B0  levels and the next chunk are known, the other buffer is free: the next chunk's copy starts
//       each thread spreads a run of level 1: its flag words, and how many nonzero bytes come before each, go to shared memory
//   B1  (coded chunks only) flags complete: the counts are checked, verdicts posted
//       every thread picks its words of all planes straight out of the coded bytes, transposes them, sums its differences
//   B2  sums complete, coded bytes used up, the next chunk's have arrived
//       codes, values, and through the used buffer to coalesced stores
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
  u64 arrived;                                  // chunks accounted for, and VERDICT_POSTED for each block that found something wrong
};
constexpr u64 VERDICT_POSTED = 1ull << 32;
static_assert(sizeof(FieldState) == 16, "state ABI");
PFPL_FN u64 verdict_of(u32 status, u32 chunk) { return status == OK ? 0 : ~((u64)status << 32 | chunk); }
PFPL_FN u64 worse(u64 a, u64 b) { return a > b ? a : b; }

enum Form : u32 { NOTHING, ZEROS, RAW, CODED };                            // how a chunk decodes; NOTHING: it does not
struct Job {
  u64 out;                                      // device address of the chunk's first value (before the field, if a range starts inside)
  u64 source;                                   // device address of the first coded byte
  u32 form, length, left;                       // left: bytes from `source` to the end of the archive, or LEFT_ENOUGH
  u32 chunk;                                    // of the field
  u16 low, high;                                // its values low .. high-1 are wanted
  u16 more, matter;                             // there is a job after this one; verdicts are to be looked after
  float bound;
  u32 field;
  u64 verdict;                                  // known before decoding
  u64 stream_bytes;                             // the field's; in a closing job
  u32 closing;                                  // not 0: the block's last job of this field; chunks that it accounts for
};
constexpr u32 LEFT_ENOUGH = 0x10000;
PFPL_FN u32 clamped(u64 left) { return left < LEFT_ENOUGH ? (u32)left : LEFT_ENOUGH; }

// Where the block is: its next chunk.
struct Place {
  u64 out, source, left, table;                 // as in Job; the chunk's entry
  u32 next, stop, last;                         // in the launch: the chunk, the end of this block's chunks of the field, of all its chunks
  u32 field_end, field, begin;                  // end of the field in the launch; where this block began in it
  u32 chunk, status;                            // in the field; the field's own
  u16 low, high;                                // of the next chunk: first value wanted; of the field's last chunk: end of those wanted
  float bound;
  u64 stream_bytes;
};

template <class Value, u32 T = DECODE_THREADS> struct DecodeShared {
  alignas(128) u32 selector[16];                // nibble -> byte permute that spreads bytes out to where the nibble has ones
  u32 running[16];                              // nibble -> byte permute of a running value: byte 0 is the value before
  u8 coded[T == DECODE_THREADS ? 2 : 1][CODED_STRIDE];
  Words2 flags[CHUNK_BYTES / 32];               // level 1: 32 flags, rotated left by 2; nonzero bytes before them, in the run's warp
  Words2 level2[64];                            // 32 flags; kept bytes before them
  u64 totals[T / 32];                           // sums of differences
  u32 counts[T / 32], live[T / 32];             // nonzero bytes of a warp's runs; which of its lanes have any
  u32 kept, planes;                             // kept bytes of level 2 begin here; planes that can hold a one, or 0: levels 4 to 2 do not add up
  u64 verdict;                                  // of this block's chunks of the field so far
  Job job[2];
  Place place;
};

template <class Value> constexpr u32 PLANE_FLAGS = CHUNK_BYTES / 32 / Element<Value>::WIDTH;       // flag words of a plane

// Places in the coded bytes are shared addresses.
PFPL_FN u32 word_at(u32 at) {                   // the 4 bytes at `at`
  const u32* w = shared_at<const u32>(at & ~3u);
  return funnel_right(w[0], w[1], at * 8);
}
template <class Value, u32 T> PFPL_FN void fill_tables(DecodeShared<Value, T>& s, u32 tid) {
  if (tid >= 16) return;
  u32 selector = 0, running = 0, k = 0;
  for (u32 j = 0; j < 4; j++) {
    const bool one = tid >> j & 1;
    selector |= (one ? k : 4) << 4 * j;
    k += one;
    running |= k << 4 * j;
  }
  s.selector[tid] = selector; s.running[tid] = running;
}
// Entry flags / 4 of a table of 16 words, 64-byte aligned.
PFPL_FN u32 entry_of(const u32* table, u32 flags) { return *shared_at<const u32>(shared_address(table) | (flags & 0x3c)); }
// Four bytes of a level: the flags are bits 2 to 5; `at`: where the value before them is.
template <class Value, u32 T> PFPL_FN u32 running_bytes(const DecodeShared<Value, T>& s, u32 flags, u32 at) {
  const u32* w = shared_at<const u32>(at & ~3u);
  return permute(w[0], w[1], entry_of(s.running, flags) + (at & 3) * 0x1111u);
}

// ---------------------------------------------------------------- which chunk, and where
// The fields of a launch: one, a parameter that no pointer is made to, so that its members are constants of the launch; or a list.
struct OneField {
  static constexpr bool SINGLE = true;
  const DecodeField& field;
  PFPL_FN DecodeField operator[](u32) const { return field; }
  PFPL_FN u32 first_chunk(u32) const { return 0; }
};
struct FieldList {
  static constexpr bool SINGLE = false;
  const DecodeField* field;
  PFPL_FN DecodeField operator[](u32 f) const { return field[f]; }
  PFPL_FN u32 first_chunk(u32 f) const { return field[f].first_chunk; }
};
// The field of the launch that chunk g is in, not before `from`.  One warp.
template <class Fields> PFPL_FN u32 field_of(const Fields& fields, u32 count, u32 g, u32 from, u32 lane) {
  u32 low = from, high = count;                 // in low .. high-1
  for (u32 step = 1; high - low > 1; step = (high - low + 31) / 32) {
    const u32 f = low + lane * step;
    const u32 hits = popcount(ballot(f < high && (lane == 0 || fields.first_chunk(f) <= g)));
    const u32 top = low + hits * step;
    low += (hits - 1) * step;
    if (hits < 32 || step > 1) high = top < high ? top : high;
  }
  return low;
}

// Sum of the lengths of a table's first `count` entries, by lanes `lane` of `lanes`; CHECK: is any entry bad.  After a bad one nothing
// depends on the sum, and eight lengths of sound ones do not wrap.
template <bool CHECK> PFPL_FN u64 sum_lengths(const u32* table, u64 count, u32 lane, u32 lanes, bool& bad) {
  u64 sum = 0;
  table += lane;
  PFPL_ROLL for (; count >= 8 * lanes; count -= 8 * lanes, table += 8 * lanes) {
    u32 e[8], t = 0;
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) e[k] = table[k * lanes];
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) { t += e[k] & ~RAW_FLAG; if (CHECK) bad |= bad_entry(e[k]); }
    sum += t;
  }
  const u32 rest = (u32)count > lane ? (u32)count - lane : 0;
  u32 t = 0;
  PFPL_UNROLL for (u32 k = 0; k < 8; k++) if (k * lanes < rest) {
    const u32 e = table[k * lanes];
    t += e & ~RAW_FLAG;
    if (CHECK) bad |= bad_entry(e);
  }
  return sum + t;
}
PFPL_FN u64 warp_sum(u64 v) {                   // three sums that do not wrap
  return warp_sum((u32)v & 0x3ffffff) + ((u64)warp_sum((u32)(v >> 26) & 0x3ffffff) << 26) + ((u64)warp_sum((u32)(v >> 52)) << 52);
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

// Enters the field of chunk g: what it is, and where that chunk begins.  `part`: of how many warps this is which; the sum of the lengths
// before the chunk is the caller's to complete.
template <class Value> struct Entered { DecodeField field; Layout layout; u64 index, before; u32 number, end, entry; bool bad; };
template <class Value, class Fields> PFPL_FN Entered<Value> enter(const Launch& launch, const Fields& fields, u32 g, u32 from, u32 part, u32 parts, u32 lane) {
  Entered<Value> e;
  e.number = Fields::SINGLE ? 0 : field_of(fields, launch.fields, g, from, lane);
  e.field = fields[e.number];
  e.end = Fields::SINGLE || e.number + 1 == launch.fields ? launch.chunks : fields.first_chunk(e.number + 1);
  e.index = e.field.first / Element<Value>::CODES + (g - e.field.first_chunk);
  const u32* const stream = (const u32*)e.field.stream;
  const u64 bytes = e.field.bytes, chunks = chunks_of<Value>(e.field.n);
  const u32 word = lane < WIDE_HEADER / 4 && 4 * lane + 4 <= bytes ? stream[lane] : 0;
  // The table is read where it should be, while the header is on its way.  The chunks before a range are nobody's, so its first block
  // looks at their entries too.
  u64 table = table_offset(takes_wide_header(chunks));
  e.before = 0; e.entry = 0; e.bad = false;
  const auto read_table = [&] {
    const u32* const entries = stream + table / 4;
    const u32 at = part * 32 + lane, lanes = parts * 32;
    e.bad = false;
    e.entry = entries[e.index];
    e.before = g == e.field.first_chunk ? sum_lengths<true>(entries, e.index, at, lanes, e.bad) : sum_lengths<false>(entries, e.index, at, lanes, e.bad);
  };
  if (e.index < chunks && table + 4 * chunks <= bytes) read_table();
  u32 header[WIDE_HEADER / 4];
  PFPL_UNROLL for (u32 i = 0; i < WIDE_HEADER / 4; i++) header[i] = shuffle(word, i);
  e.layout = read_header<Value>(header, bytes, e.field.n);
  if (e.layout.status == OK && e.layout.table != table) { table = e.layout.table; read_table(); }
  return e;
}
// Takes note of it.  One warp; `before` and `bad` complete.  Gives the verdict on the entries before a range.
template <class Value> PFPL_FN u64 note(Place& s, const Entered<Value>& e, u32 g, u32 lane) {
  constexpr u32 CODES = Element<Value>::CODES;
  const bool fine = e.layout.status == OK;
  const u64 room = e.layout.end - e.layout.payload;
  u64 verdict = verdict_of(e.layout.status, NO_CHUNK);
  if (fine && (e.bad || (g == e.field.first_chunk && e.before > room)))
    verdict = verdict_of(BAD_TABLE, first_bad((const u32*)(e.field.stream + e.layout.table), e.index, room, lane));
  warp_barrier();                               // all lanes have read s
  if (lane == 0) {
    const u64 stopped = e.field.first + e.field.count;
    s.out = e.field.field + (e.index * CODES - e.field.first) * sizeof(Value);
    s.source = e.field.stream + e.layout.payload + e.before; s.left = fine && e.before <= room ? room - e.before : 0;
    s.table = e.field.stream + e.layout.table + 4 * e.index;
    s.stop = e.end < s.last ? e.end : s.last; s.field_end = e.end; s.field = e.number; s.begin = g;
    s.chunk = (u32)e.index; s.status = e.layout.status; s.bound = e.layout.bound; s.stream_bytes = e.layout.end;
    s.low = g == e.field.first_chunk ? (u16)(e.field.first % CODES) : 0;
    s.high = (u16)((stopped - 1) % CODES + 1);
  }
  warp_barrier();
  return verdict;
}
PFPL_FN u32 form_of(u32 entry, u64 left) {
  const u32 length = entry & ~RAW_FLAG;
  return bad_entry(entry) || length > left ? NOTHING : entry & RAW_FLAG ? RAW : length == EMPTY_CHUNK_BYTES ? ZEROS : CODED;
}
// Describes chunk s.next in `job` and steps past it.  One warp.
template <class Value> PFPL_FN void describe(Place& s, Job& job, u64 verdict, u32 lane) {
  warp_barrier();                               // all lanes have read s
  if (lane == 0) {
    const u32 next = s.next, stop = s.stop;
    u32 form = NOTHING, length = 0, end = stop; // of a refused field the rest is passed over at once
    const u64 left = s.left, source = s.source;
    if (s.status == OK) {
      const u32 entry = *(const u32*)s.table;
      length = entry & ~RAW_FLAG;
      end = next + 1;
      form = form_of(entry, left);
      if (form == NOTHING) verdict = worse(verdict, verdict_of(BAD_TABLE, s.chunk));
      s.left = form == NOTHING ? 0 : left - length;                        // nothing after a bad entry counts
      s.source = source + length; s.table += 4;
    }
    job.out = s.out; job.source = source; job.form = form; job.length = length; job.left = clamped(left);
    job.chunk = s.chunk; job.bound = s.bound; job.field = s.field; job.verdict = verdict;
    job.low = s.low; job.high = end == s.field_end ? s.high : (u16)Element<Value>::CODES;
    job.closing = end == stop ? end - s.begin : 0; job.stream_bytes = s.stream_bytes;
    job.more = end < s.last; job.matter = end == stop || form == NOTHING || verdict;
    s.low = 0; s.out += CHUNK_BYTES; s.chunk++; s.next = end;
  }
  warp_barrier();
}
template <class Value, class Fields> PFPL_NOINLINE u64 enter_next(Place& s, const Launch& launch, const Fields& fields, u32 lane) {
  const u32 g = s.next;
  Entered<Value> e = enter<Value>(launch, fields, g, s.field + 1, 0, 1, lane);
  e.before = warp_sum(e.before); e.bad = any(e.bad);
  return note(s, e, g, lane);
}
template <class Value, class Fields> PFPL_FN void next_job(Place& s, const Launch& launch, const Fields& fields, Job& job, u32 lane) {
  u64 verdict = 0;
  if constexpr (!Fields::SINGLE) { if (s.next == s.field_end) verdict = enter_next<Value>(s, launch, fields, lane); }
  describe<Value>(s, job, verdict, lane);
}

// ---------------------------------------------------------------- verdicts
PFPL_FN void write_outcome(u64 outcome, u64 stream_bytes, u64 verdict) {
  const u32 status = verdict ? (u32)(~verdict >> 32) : (u32)OK, chunk = verdict ? (u32)~verdict : NO_CHUNK;
  Outcome* o = (Outcome*)outcome;
  o->stream_bytes = status == OK || status >= BAD_TABLE ? stream_bytes : 0;
  o->status = status; o->chunk = chunk;
}
// Of a field of which nothing is wanted the header is judged all the same.
template <class Value> PFPL_FN void judge_header(const DecodeField& field) {
  if (!field.outcome) return;
  const Layout l = read_header<Value>((const u32*)field.stream, field.bytes, field.n);
  write_outcome(field.outcome, l.end, verdict_of(l.status, NO_CHUNK));
}
PFPL_FN FieldState* state_of(const Launch& launch, const Job& job) { return (FieldState*)(launch.state + CONTROL_BYTES) + job.field; }
template <class Fields> PFPL_FN u32 chunks_of_field(const Launch& launch, const Fields& fields, u32 f) {
  return (Fields::SINGLE || f + 1 == launch.fields ? launch.chunks : fields.first_chunk(f + 1)) - fields.first_chunk(f);
}
// One thread, at the block's last chunk of the field: the arrival of its chunks.  The block that completes a field writes its outcome, in
// conclude(), which takes what this gave.
template <class Fields> PFPL_FN u64 post(const Launch& launch, const Fields& fields, const Job& job, u64 verdict) {
  const u64 outcome = fields[job.field].outcome;
  if (!outcome) return 0;
  if (job.closing == chunks_of_field(launch, fields, job.field)) { write_outcome(outcome, job.stream_bytes, verdict); return 0; }
  FieldState* f = state_of(launch, job);
  if (!verdict) return fetch_add(&f->arrived, (u64)job.closing) + job.closing;
  fetch_max(&f->verdict, verdict);
  return fetch_add_ordered(&f->arrived, VERDICT_POSTED + job.closing) + VERDICT_POSTED + job.closing;
}
// One thread: what is wrong with the chunk, and the same.
template <class Value, class Fields> PFPL_FN u64 judge(DecodeShared<Value>& s, const Launch& launch, const Fields& fields, const Job& job, bool nothing) {
  u64 verdict = worse(job.verdict, s.verdict);
  if (nothing && job.form != NOTHING) verdict = worse(verdict, verdict_of(CORRUPT_CHUNK, job.chunk));
  s.verdict = job.closing ? 0 : verdict;
  return job.closing ? post(launch, fields, job, verdict) : 0;
}
template <class Fields> PFPL_FN void conclude(const Launch& launch, const Fields& fields, const Job& job, u64 arrived) {
  if ((u32)arrived != chunks_of_field(launch, fields, job.field)) return;
  FieldState* f = state_of(launch, job);
  u64 verdict = 0;
  if (arrived >= VERDICT_POSTED) { fence(); verdict = load_relaxed(&f->verdict); store_relaxed(&f->verdict, (u64)0); }
  store_relaxed(&f->arrived, (u64)0);
  write_outcome(fields[job.field].outcome, job.stream_bytes, verdict);
}

// ---------------------------------------------------------------- coded bytes
// Starts the copy of a chunk's coded bytes into a buffer: whole units of 16 bytes, but nothing past the archive.
// `tid`: which of T parts of them is this thread's; `lane`: of which word of a unit that is cut short.
template <class Value, u32 T> PFPL_FN void request(DecodeShared<Value, T>& s, u64 source, u32 form, u32 length, u32 left, u32 buffer, u32 tid, u32 lane) {
  const u32 begin = (u32)source & 15, bytes = begin + length, units = (bytes + 15) / 16, room = begin + left;
  const u8* from = (const u8*)(source - begin);
  if (form == NOTHING) return;
  u8* const to = shared_at<u8>(opaque(shared_address(s.coded[buffer]) + tid * 16));      // both addresses once, not for every copy
  from = (const u8*)opaque((u64)(from + tid * 16));
  constexpr u32 ROUND = T * 16, ROUNDS = CHUNK_BYTES / ROUND + 1, FIRST = ROUNDS < 4 ? ROUNDS : 4;
  const u32 whole = units - (room < units * 16);
  PFPL_UNROLL for (u32 k = 0; k < FIRST; k++) if (tid + k * T < whole) copy_async(to + k * ROUND, from + k * ROUND);
  if (whole > FIRST * T) { PFPL_UNROLL for (u32 k = FIRST; k < ROUNDS; k++) if (tid + k * T < whole) copy_async(to + k * ROUND, from + k * ROUND); }
  if (whole < units && lane < 4) {              // the archive ends within a unit: a word a lane
    i32 at = (i32)(whole * 16 + lane * 4) - (i32)(tid * 16);
    const i32 end = (i32)(room - tid * 16);
    if (at + 4 <= end) copy_async<4>(to + at, from + at);
    else PFPL_ROLL for (; at < end; at++) to[at] = from[at];
  }
}

// Levels 4, 3 and 2 of a chunk's bitmap -> s.level2, s.kept, s.planes.  One warp.  Do they add up?
template <class Value, u32 T> PFPL_FN bool upper_levels(DecodeShared<Value, T>& s, u32 form, u32 begin, u32 length, u32 lane) {
  const u32 end = begin + length;
  if ((word_at(end - 2) & 0xffff) != CHUNK_BYTES) return false;
  if (form == ZEROS) { if (lane == 0) s.planes = 1; return true; }
  u32 at = end - 6;                             // kept bytes of the level at hand end here
  const u32 level4 = word_at(at), n4 = popcount(level4);
  if (n4 > at - begin) return false;
  at -= n4;
  const u32 k = popcount(level4 & ALL_LANES >> (31 - lane));
  const u32 level3 = k ? *shared_at<const u8>(at + k - 1) : 0;                            // byte `lane`
  const u32 c3 = popcount(level3), upto3 = warp_scan(c3), n3 = shuffle(upto3, 31);
  if (n3 > at - begin) return false;
  at -= n3;
  u32 f0 = 0, f1 = 0;                           // bytes 8 lane .. 8 lane + 7 of level 2: zero up to the first kept one
  if (upto3) {
    const u32 before = upto3 - c3, p = at + before - 1;
    f0 = running_bytes(s, level3 << 2, p); f1 = running_bytes(s, level3 >> 2, p + popcount(level3 & 15));
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
template <class Value, u32 T> PFPL_FN void levels(DecodeShared<Value, T>& s, u32 form, u32 begin, u32 length, u32 lane) {
  if (form != CODED && form != ZEROS) return;
  const bool sound = upper_levels(s, form, begin, length, lane);
  if (lane == 0 && !sound) s.planes = 0;
}

// Where the words of flags lie: with more threads a chunk, lanes of a warp read those of several planes at once, from banks of their own.
template <class Value, u32 T> PFPL_FN u32 flag_place(u32 word) {
  if constexpr (T == DECODE_THREADS) return word;
  else return word ^ word / (PLANE_FLAGS<Value> * Element<Value>::CODES / T) % (32 * T / Element<Value>::CODES);
}

// Level 1 of the last T * NB bitmap bytes, those of the planes that can hold a one, NB bytes a thread -> s.flags, s.counts, s.live; all
// or none, if the chunk is not coded.
template <u32 NB, class Value, u32 T> PFPL_FN void level1(DecodeShared<Value, T>& s, u32 tid, u32 form = CODED) {
  constexpr u32 NF = NB / 4, START = CHUNK_BYTES / 8 - T * NB;
  u32 F[NF];
  if (form != CODED) {
    PFPL_UNROLL for (u32 g = 0; g < NF; g++) F[g] = form == RAW ? ALL_LANES : 0;
  } else {
    const u32 bit = START + tid * NB, shift = bit & 31;
    const Words2 l2 = s.level2[bit / 32];
    const u32 before = l2.y + popcount(l2.x & ((1u << shift) - 1)), f = l2.x >> shift & ((1u << NB) - 1);
    const u32 at = s.kept + before - 1;
    PFPL_UNROLL for (u32 g = 0; g < NF; g++) F[g] = running_bytes(s, g ? f >> (4 * g - 2) : f << 2, at + (g ? popcount(f & ((1u << 4 * g) - 1)) : 0));
    if (!before) {                              // zero up to the first kept byte
      const u32 z = f ? lowest_bit(f) : NB;
      PFPL_UNROLL for (u32 g = 0; g < NF; g++) if (z > 4 * g) F[g] = z >= 4 * g + 4 ? 0 : F[g] & ALL_LANES << 8 * (z - 4 * g);
    }
  }
  u32 n[NF], count = 0, some = 0;
  PFPL_UNROLL for (u32 g = 0; g < NF; g++) { n[g] = count; count += popcount(F[g]); some |= F[g]; }
  const u32 upto = warp_scan(count), live = ballot(some != 0);
  PFPL_UNROLL for (u32 g = 0; g < NF; g++) s.flags[flag_place<Value, T>(START / 4 + tid * NF + g)] = Words2{F[g] << 2 | F[g] >> 30, upto - count + n[g]};
  if (tid % 32 == 31) { s.counts[tid / 32] = upto; s.live[tid / 32] = live; }
}

// The word whose nibble is `rotation` / 4 of flag word f, its nonzero bytes spread out; `below`: the flags before it.
template <class Value, u32 T> PFPL_FN u32 spread(const DecodeShared<Value, T>& s, Words2 f, u32 from, u32 rotation, u32 below) {
  return permute(word_at(f.y + popcount(f.x & below) + from), 0, entry_of(s.selector, funnel_right(f.x, f.x, rotation)));
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

// Planes of a coded chunk, of which at most the lowest NP hold a one; `from`: where the chunk's bytes begin.  Gives the number of planes
// that this warp needs; the words of the others are not set.
template <u32 NP, class Value> PFPL_FN u32 gather(const DecodeShared<Value>& s, Words4 counts, u32 from, u32* r, u32 tid) {
  using L = Lane<Value>;
  constexpr u32 PLANE_FLAGS = pfpl::PLANE_FLAGS<Value>;
  constexpr u32 RUNS = NP / 4;                  // planes whose flags one warp made
  constexpr u32 LANES = 32 / RUNS;              // lanes that made a plane's; a quarter of them (at least one) made those this warp needs
  constexpr u32 GROUPS = NP / 4 / L::PAIR, WIDTH = Element<Value>::WIDTH;
  const L at(tid);
  const u32 warp = tid / 32, rotation = at.word % 8 * 4, below = ((1u << rotation) - 1) << 2;
  const Words2* const flags = s.flags + (WIDTH - NP) * PLANE_FLAGS + at.word / 8 + at.odd * 8 * PLANE_FLAGS;
  const u32 start[DECODE_WARPS] = {from, from + counts.x, from + counts.x + counts.y, from + counts.x + counts.y + counts.z};
  const Words4 lives = *(const Words4*)s.live;
  const u32 shift = warp * LANES / 4, live[DECODE_WARPS] = {lives.x >> shift, lives.y >> shift, lives.z >> shift, lives.w >> shift};
  u32 hit[GROUPS];
  PFPL_UNROLL for (u32 i = 0; i < GROUPS; i++) {
    hit[i] = 0;
    PFPL_UNROLL for (u32 k = 0; k < 4 * L::PAIR; k++) {
      const u32 l = L::PAIR == 1 ? 4 * i + k : i / 2 * 16 + i % 2 * 4 + k % 4 + k / 4 * 8;
      hit[i] |= live[l / RUNS] & ((1u << (LANES < 4 ? 1 : LANES / 4)) - 1) << l % RUNS * LANES;
    }
  }
  each_word<NP, Value>(r, [&](u32 i) { return hit[i] != 0; },
    [&](u32 l) {
      const u32 mine = L::PAIR == 1 || l / RUNS == (l + 8) / RUNS || !at.odd ? start[l / RUNS] : start[(l + 8) / RUNS % DECODE_WARPS];
      return at.trade(spread(s, flags[l * PLANE_FLAGS], mine, rotation, below));
    });
  u32 upper = 0, middle = 0;
  PFPL_UNROLL for (u32 i = 0; i + 4 < GROUPS; i++) upper |= hit[i];
  if (GROUPS > 2) middle = hit[GROUPS > 2 ? GROUPS - 4 : 0] | hit[GROUPS > 2 ? GROUPS - 3 : 0];
  return upper ? WIDTH : middle ? WIDTH / 2 : WIDTH / 4;
}
// Planes of a raw chunk.
template <class Value> PFPL_FN void gather_raw(u32 from, u32* r, u32 tid) {
  const Lane<Value> at(tid);
  from += 4 * (at.word + at.odd * 8 * at.PLANE);
  each_word<Element<Value>::WIDTH, Value>(r, [](u32) { return true; }, [&](u32 l) { return at.trade(word_at(from + l * 4 * at.PLANE)); });
}

// Planes -> negabinary differences + m, last element first; 64-bit ones as upper halves r[0..15] and lower halves r[16..31].
template <u32 NP> PFPL_FN void differences(u32* r, float) { words_of_planes<NP>(r); }
template <u32 NP> PFPL_FN void differences(u32* r, double) {
  if constexpr (NP == 64) words_of_half_planes<32>(r);
  else { PFPL_UNROLL for (u32 i = 0; i < 16; i++) r[i] = NEGABINARY; }
  words_of_half_planes<NP == 16 ? 16 : 32>(r + 16);
}

// ---------------------------------------------------------------- differences to values
// What a thread holds: N codes, last element first.
template <class Value, u32 N = THREAD_WORDS * 4 / sizeof(Value)> struct Codes;
template <u32 N> struct Codes<float, N> {
  static constexpr u32 PER_THREAD = N;
  // A code c that is a bin, plus BIAS, is the bits of 2^22 + c/2; ONE more 2^22, rounded up, makes it 2^23 + |q|, |q| = (c + 1) / 2,
  // and the product with eb2 comes from one multiply-add, since 2^23 eb2 is exact (up to LARGEST).  The sign of q is c's last bit.
  static constexpr u32 BIAS = 0x4A800000u, BIN_SHIFT = 23;
  static constexpr float ONE = 4194304.f, TWO = 8388608.f, LARGEST = 0x1p104f;
  static PFPL_FN u32 get(const u32* r, u32 i) { return r[i]; }
  static PFPL_FN void put(u32* r, u32 i, u32 v) { r[i] = v; }
  static PFPL_FN u32 top(u32 v) { return v; }
  static PFPL_FN u32 opaque_minus_m() { return opaque(0u - Element<float>::NEGABINARY); }      // in a register: sums of three are one operation
  static PFPL_FN u32 signed_bits(u32 v, u32 c) { return v ^ c << 31; }
};
template <u32 N> struct Codes<double, N> {
  static constexpr u32 PER_THREAD = N;
  static constexpr u64 BIAS = 0x4320000000000000ull;
  static constexpr u32 BIN_SHIFT = 20;
  static constexpr double ONE = 2251799813685248., TWO = 4503599627370496., LARGEST = 0x1p200;
  static PFPL_FN u64 get(const u32* r, u32 i) { return (u64)r[i] << 32 | r[N + i]; }
  static PFPL_FN void put(u32* r, u32 i, u64 v) { r[i] = (u32)(v >> 32); r[N + i] = (u32)v; }
  static PFPL_FN u32 top(u64 v) { return (u32)(v >> 32); }
  static PFPL_FN u64 opaque_minus_m() { return 0ull - Element<double>::NEGABINARY; }
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

// Differences -> values, in place; `sum`: the code before the thread's first.  `near`: the codes differ by less than a quarter of 2R, so
// that they are all bins if the first is and none has left its half of 4R.
template <class Value, class C = Codes<Value>> PFPL_FN void values(u32* r, typename Element<Value>::Code sum, Value eb2, bool near) {
  using E = Element<Value>; using Code = typename E::Code;
  constexpr u32 BIAS = (u32)(C::BIAS >> (E::WIDTH - 32));
  const Code minus_m = C::opaque_minus_m();
  u32 zeros = ALL_LANES;                        // of the upper bits: which are zero somewhere
  sum += C::BIAS;
  PFPL_UNROLL for (i32 i = C::PER_THREAD - 1; i >= 0; i--) {
    sum = sum + C::get(r, i) + minus_m;
    C::put(r, i, sum);
    zeros &= C::top(sum);
  }
  u32 ones = C::top(sum);                       // which are one
  if (!near) { PFPL_UNROLL for (u32 i = 0; i < C::PER_THREAD; i++) ones |= C::top(C::get(r, i)); }
  if (any(((ones ^ BIAS) | (zeros ^ BIAS)) >> C::BIN_SHIFT) || !(eb2 <= C::LARGEST)) {
    PFPL_UNROLL for (u32 i = 0; i < C::PER_THREAD; i++) C::put(r, i, bits_of(dequantize<Value>((Code)(C::get(r, i) - C::BIAS), eb2)));
  } else {
    const Value minus = -(C::TWO * eb2);
    PFPL_UNROLL for (u32 i = 0; i < C::PER_THREAD; i++) {
      const Code c = C::get(r, i);
      C::put(r, i, C::signed_bits(bits_of(fused(add_up(value_of(c), C::ONE), eb2, minus)), c));
    }
  }
}

// Values -> memory, through shared memory at `stage`, 128-byte aligned: rows of 128 bytes, one a thread, 16-byte units XORed with the row.
// A warp reads what it wrote.
template <class Value> PFPL_FN void store(const u32* r, u32 stage, u64 out, u32 low, u32 high, u32 tid) {
  constexpr u32 V = Codes<Value>::PER_THREAD, CODES = Element<Value>::CODES;
  const u32 lane = tid % 32, warp = tid / 32;
  PFPL_UNROLL for (u32 u = 0; u < 8; u++) {
    const Words4 w = sizeof(Value) == 4 ? Words4{r[31 - 4 * u], r[30 - 4 * u], r[29 - 4 * u], r[28 - 4 * u]}
                                        : Words4{r[31 - 2 * u], r[15 - 2 * u], r[30 - 2 * u], r[14 - 2 * u]};
    *shared_at<Words4>((stage + tid * 128 + lane % 8 * 16) ^ u * 16) = w;
  }
  warp_barrier();
  if (!low && high == CODES && !(out & 15)) {
    Words4* const to = (Words4*)out + warp * 256 + lane;
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) store_words(to + 32 * k, *shared_at<const Words4>(stage + warp * 4096 + k * 512 + (lane ^ (lane / 8 + k % 2 * 4)) * 16));
  } else {
    using Code = typename Element<Value>::Code;
    constexpr u32 UNIT = 16 / sizeof(Value);    // values of a unit
    PFPL_ROLL for (u32 k = 0; k < V; k++) {
      const u32 i = k * 32 + lane, row = i / V, at = warp * 32 * V + i;
      if (at >= low && at < high) ((Code*)out)[at] = *shared_at<const Code>(stage + warp * 4096 + row * 128 + (i % V / UNIT ^ row % 8) * 16 + i % UNIT * sizeof(Code));
    }
  }
}
template <class Value> PFPL_FN void store_zeros(u64 out, u32 low, u32 high, u32 tid) {
  if (!low && high == Element<Value>::CODES && !(out & 15)) {
    PFPL_UNROLL for (u32 k = 0; k < 8; k++) store_words((Words4*)out + tid + k * DECODE_THREADS, Words4{0, 0, 0, 0});
  } else {
    PFPL_ROLL for (u32 i = low + tid; i < high; i += DECODE_THREADS) ((Value*)out)[i] = 0;
  }
}

// ---------------------------------------------------------------- the kernel
template <class Value, class Fields> PFPL_FN void decode(const Launch& launch, const Fields& fields) {
  using E = Element<Value>; using C = Codes<Value>; using Code = typename E::Code;
  auto& s = *shared_at<DecodeShared<Value>>(opaque(shared_address(&shared_memory<DecodeShared<Value>>())));     // the address computed once
  const u32 tid = thread_index(), lane = tid % 32, warp = tid / 32;
  const u32 b = block_index(), blocks = grid_blocks();
  u32 g = b, last = b + 1;
  if (launch.chunks != blocks) {
    const u32 share = launch.chunks / blocks, more_by_one = launch.chunks % blocks;
    g = b * share + (b < more_by_one ? b : more_by_one);
    last = g + share + (b < more_by_one);
  }
  if (g < last) {
    Entered<Value> e = enter<Value>(launch, fields, g, 0, warp, DECODE_WARPS, lane);
    const u64 before = warp_sum(e.before);
    const bool bad = any(e.bad);
    if (lane == 0) { s.totals[warp] = before; s.counts[warp] = bad; }
    barrier();
    e.before = s.totals[0] + s.totals[1] + s.totals[2] + s.totals[3]; e.bad = s.counts[0] | s.counts[1] | s.counts[2] | s.counts[3];
    {
      const u64 room = e.layout.end - e.layout.payload, left = e.layout.status == OK && e.before <= room ? room - e.before : 0;
      request(s, e.field.stream + e.layout.payload + e.before, form_of(e.entry, left), e.entry & ~RAW_FLAG, clamped(left), 0, tid, tid);
    }
    if (warp == 0) {
      if (lane == 0) { s.place.next = g; s.place.last = last; s.verdict = 0; }
      warp_barrier();
      describe<Value>(s.place, s.job[0], note(s.place, e, g, lane), lane);
    }
    fill_tables(s, tid);
    copies_wait();
    barrier();

    u64 arrived = 0;                            // thread 0: of the field that the block ends in
    for (u32 turn = 0;; turn ^= 1) {
      const Job& job = s.job[turn];
      Job& next = s.job[turn ^ 1];
      if (warp == turn * 2) levels(s, job.form, shared_address(s.coded[turn]) + ((u32)job.source & 15), job.length, lane);
      if (warp == turn * 2 + 1 && job.more) next_job<Value>(s.place, launch, fields, next, lane);
      barrier();                                // B0
      const u32 begin = shared_address(s.coded[turn]) + ((u32)job.source & 15), low = job.low, high = job.high, planes = s.planes;
      const u64 out = job.out;
      const Value eb2 = 2 * (Value)job.bound;
      const bool more = job.more;
      u32 form = job.form;
      if (more) request(s, next.source, next.form, next.length, next.left, turn ^ 1, tid, tid);
      if ((form == CODED || form == ZEROS) && !planes) form = NOTHING;
      Words4 counts{0, 0, 0, 0};
      if (form == CODED) {
        if (planes == E::WIDTH) level1<16>(s, tid);
        else if (planes == E::WIDTH / 2) level1<8>(s, tid);
        else level1<4>(s, tid);
        barrier();                              // B1
        counts = *(const Words4*)s.counts;
        if (begin + counts.x + counts.y + counts.z + counts.w != s.kept) form = NOTHING;
      }
      if (tid == 0 && (job.matter || form == NOTHING)) {
        arrived = judge(s, launch, fields, job, form == NOTHING);
        if (more && arrived) conclude(launch, fields, job, arrived);
      }
      u32 r[THREAD_WORDS];
      u32 width = E::WIDTH;                     // the planes that the warp needs
      Code sum = 0, upto = 0;
      if (form >= RAW) {
        if (form == RAW) gather_raw<Value>(begin, r, tid);
        else if (planes == E::WIDTH) width = gather<E::WIDTH>(s, counts, begin, r, tid);
        else if (planes == E::WIDTH / 2) width = gather<E::WIDTH / 2>(s, counts, begin, r, tid);
        else width = gather<E::WIDTH / 4>(s, counts, begin, r, tid);
        if (width == E::WIDTH) differences<E::WIDTH>(r, Value());
        else if (width == E::WIDTH / 2) differences<E::WIDTH / 2>(r, Value());
        else differences<E::WIDTH / 4>(r, Value());
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
        values<Value>(r, before, eb2, width < E::WIDTH);
        store<Value>(r, (shared_address(s.coded[turn]) + 127) & ~127u, out, low, high, tid);     // may reach into s.flags, which are used up
      } else if (form == ZEROS) store_zeros<Value>(out, low, high, tid);
      if (!more) {
        if (tid == 0 && arrived) conclude(launch, fields, job, arrived);
        break;
      }
    }
  }
  // Fields of which nothing is wanted: their header is judged all the same.
  if (launch.chunks == 0 || launch.fields > 1)
    for (u32 f = block_index() * DECODE_THREADS + tid; f < launch.fields; f += grid_blocks() * DECODE_THREADS) {
      const DecodeField field = fields[f];
      if (!field.count) judge_header<Value>(field);
    }
}

}  // namespace pfpl
