// Decoding few chunks of one field: one chunk a block, more threads a chunk, for so few that latency is all (see decode.h).
//
// A thread owns V consecutive codes; 32 / V neighbouring lanes, its parts, share a group of 32, each lane with as many planes.  One chunk:
//
//       the blocks ask for the whole stream into the second-level cache, before the work before them has ended
//       every warp for itself reads the table where it should be, and requests the coded bytes
//       the first warp, which requested the chunk's end, works the levels 4 to 2; another judges the header
//   B0  levels, coded bytes and the header's verdict are here
//       each thread spreads a run of level 1
//   B1  flags complete: the counts are checked, verdicts posted
//       every thread picks its words of its planes, a transpose across the parts, sums of differences
//   B2  sums complete
//       codes, values, stores
#pragma once
#include "block.h"
#include "decode.h"

namespace pfpl {

constexpr u32 DECODE_SMALL_THREADS = 256, DECODE_SMALL_BLOCKS = 4;
constexpr u32 LINE = 128;                       // bytes that a prefetch brings
constexpr u32 NEAR = 255;                       // entries before a chunk that every warp adds up for itself, at most
template <class Value> using DecodeSmallShared = DecodeShared<Value, DECODE_SMALL_THREADS>;

// A thread's words of planes, 64-bit codes' upper halves r[0..V-1] and lower halves r[V..2V-1], last plane first; `from`: where the coded
// bytes begin.
template <class Value, u32 T> PFPL_FN void gather_parts(const DecodeShared<Value, T>& s, u32 from, u32* r, u32 tid) {
  constexpr u32 V = Element<Value>::CODES / T, SETS = sizeof(Value) / 4, FLAGS = PLANE_FLAGS<Value>;
  constexpr u32 PLANES = CHUNK_BYTES / 32 / (T / 32) / FLAGS, RUNS = V / PLANES;      // planes whose flags one warp made; warps that made a part's
  const u32 part = tid % (32 / V), word = tid / (32 / V) ^ (SETS - 1);     // of the planes: the upper one has the group's first 32 elements
  const u32 rotation = word % 8 * 4, below = ((1u << rotation) - 1) << 2;
  const Words2* const flags = s.flags + part * V * FLAGS + (word / 8 ^ part);         // see flag_place()
  PFPL_UNROLL for (u32 set = 0; set < SETS; set++) {
    const u32 warp = set * 32 / PLANES + part * RUNS;
    u32 start = from + sum_below<T / 32>(s.counts, warp);
    PFPL_UNROLL for (u32 i = 0; i < V; i++) {
      r[set * V + V - 1 - i] = spread(s, flags[(set * 32 + i) * FLAGS], start, rotation, below);
      if (i % PLANES == PLANES - 1) start += s.counts[warp + i / PLANES];
    }
  }
}

// Values -> memory, through shared memory at `stage`, in which a warp reads what it wrote.
template <class Value, u32 V> PFPL_FN void store_parts(const u32* r, u32 stage, u64 out, u32 low, u32 high, u32 tid) {
  constexpr u32 PER_UNIT = 16 / sizeof(Value), UNITS = V / PER_UNIT;
  const u32 lane = tid % 32, first = tid / 32 * 32;
  Words4* const units = shared_at<Words4>(stage);
  PFPL_UNROLL for (u32 u = 0; u < UNITS; u++) {
    const u32* const e = r + V - 1 - u * PER_UNIT;
    units[value_unit(tid * UNITS + u)] = sizeof(Value) == 4 ? Words4{e[0], e[-1], e[-2], e[-3]} : Words4{e[V], e[0], e[V - 1], e[-1]};
  }
  warp_barrier();
  if (!low && high == Element<Value>::CODES && !(out & 15)) {
    PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) {
      const u32 unit = first * UNITS + k * 32 + lane;
      store_words((Words4*)out + unit, units[value_unit(unit)]);
    }
  } else {
    using Code = typename Element<Value>::Code;
    PFPL_ROLL for (u32 k = 0; k < V; k++) {
      const u32 at = first * V + k * 32 + lane;
      if (at >= low && at < high) ((Code*)out)[at] = ((const Code*)(units + value_unit(at / PER_UNIT)))[at % PER_UNIT];
    }
  }
}

// What few calls do, out of the way of the others.
template <class Value> PFPL_NOINLINE void judge_only(const DecodeField& field) { judge_header<Value>(field); }
struct Before { u64 bytes; bool bad; };
// Of a table's first `count` entries; all threads.
template <class Value> PFPL_NOINLINE Before sum_far(const u32* entries, u64 count) {
  auto& s = shared_memory<DecodeSmallShared<Value>>();
  constexpr u32 T = DECODE_SMALL_THREADS;
  const u32 tid = thread_index();
  Before b{0, false};
  const u64 sum = warp_sum(sum_lengths<true>(entries, count, tid, T, b.bad));
  b.bad = any(b.bad);
  if (tid % 32 == 0) { s.totals[tid / 32] = sum; s.counts[tid / 32] = b.bad; }
  barrier();
  PFPL_ROLL for (u32 q = 0; q < T / 32; q++) { b.bytes += s.totals[q]; b.bad |= s.counts[q] != 0; }
  return b;
}

template <class Value> PFPL_FN void decode_small(const Launch& launch, const DecodeField& field) {
  using E = Element<Value>; using Code = typename E::Code;
  constexpr u32 T = DECODE_SMALL_THREADS, V = E::CODES / T, SETS = sizeof(Value) / 4;
  using C = Codes<Value, V>;
  auto& s = *shared_at<DecodeSmallShared<Value>>(opaque(shared_address(&shared_memory<DecodeSmallShared<Value>>())));
  const u32 tid = thread_index(), lane = tid % 32, warp = tid / 32, own = block_index();
  if (warp == 0) fill_tables(s, lane);
  const u64 ahead = ((u64)grid_blocks() * tid + own) * LINE;
  if (field.first < E::CODES && ahead < field.bytes) prefetch(field.stream + ahead);        // all blocks together, all of the stream
  await_predecessors();
  if (own >= launch.chunks) { if (tid == 0) judge_only<Value>(field); return; }

  const u32* const stream = (const u32*)field.stream;
  const u64 bytes = field.bytes, chunks = chunks_of<Value>(field.n), index = field.first / E::CODES + own;
  const u64 out = field.field + (index * E::CODES - field.first) * sizeof(Value);
  const u32 low = own ? 0 : (u32)(field.first % E::CODES);
  const u32 high = own + 1 < launch.chunks ? E::CODES : (u32)((field.first + field.count - 1) % E::CODES) + 1;
  const u32 word = warp == 1 && lane < WIDE_HEADER / 4 && 4 * lane + 4 <= bytes ? stream[lane] : 0;
  u64 table = table_offset(takes_wide_header(chunks));
  u32 begin;                                    // where the coded bytes are
  PFPL_ROLL while (true) {
    const u64 payload = table + 4 * chunks;
    u64 before = 0;
    u32 entry = 0, form = NOTHING;
    bool bad = false;
    if (index < chunks && payload <= bytes) {
      const u32* const entries = stream + table / 4;
      entry = entries[index];
      if (index <= NEAR && (own || !index)) {
        before = warp_sum((u32)sum_lengths<false>(entries, (u32)index & NEAR, lane, 32, bad));             // wraps only if an entry is bad
      } else {                                  // the chunks before a range are nobody's: its first block looks at their entries too
        const Before b = sum_far<Value>(entries, index);
        before = b.bytes; bad = b.bad;
      }
      const u64 room = bytes - payload, left = before <= room ? room - before : 0;
      form = form_of(entry, left);
      const u32 units = (((u32)(field.stream + payload + before) & 15) + (entry & ~RAW_FLAG) + 15) / 16;
      request(s, field.stream + payload + before, form, entry & ~RAW_FLAG, clamped(left), 0, (units - 1 - tid) % T, tid);     // the first warp the last ones
    }
    begin = shared_address(s.coded[0]) + ((u32)(field.stream + payload + before) & 15);
    if (warp == 1) {
      u32 header[WIDE_HEADER / 4];
      PFPL_UNROLL for (u32 i = 0; i < WIDE_HEADER / 4; i++) header[i] = shuffle(word, i);
      const Layout layout = read_header<Value>(header, bytes, field.n);
      const bool fine = layout.status == OK;
      const u64 room = layout.end - payload;
      const u32 sure = fine && before <= room ? form_of(entry, room - before) : (u32)NOTHING;
      u64 verdict = verdict_of(layout.status, NO_CHUNK);
      if (fine && sure == NOTHING) verdict = verdict_of(BAD_TABLE, (u32)index);
      if (fine && layout.table == table && own == 0 && (bad || before > room)) verdict = verdict_of(BAD_TABLE, first_bad(stream + table / 4, index, room, lane));
      if (lane == 0) {
        s.place.table = fine ? layout.table : table;
        s.job[0].form = sure; s.job[0].chunk = (u32)index; s.job[0].field = 0; s.job[0].closing = 1; s.job[0].bound = layout.bound;
        s.job[0].verdict = verdict; s.job[0].stream_bytes = layout.end;
      }
    }
    copies_wait();
    if (warp == 0) { warp_barrier(); levels(s, form, begin, entry & ~RAW_FLAG, lane); }
    barrier();                                  // B0
    if (s.place.table == table) break;
    table = s.place.table;                      // not where it should be
    barrier();
  }
  const Job& job = s.job[0];
  u32 form = job.form;
  if ((form == CODED || form == ZEROS) && !s.planes) form = NOTHING;
  if (form != NOTHING) {
    level1<CHUNK_BYTES / 8 / T>(s, tid, form);
    barrier();                                  // B1
    if (form == CODED && begin + sum_of<T / 32>(s.counts) != s.kept) form = NOTHING;
  }
  u64 arrived = 0;
  if (tid == 32) arrived = post(launch, OneField{field}, job, form == job.form ? job.verdict : worse(job.verdict, verdict_of(CORRUPT_CHUNK, job.chunk)));
  if (form != NOTHING) {
    u32 r[SETS * V];
    gather_parts(s, begin, r, tid);
    PFPL_UNROLL for (u32 set = 0; set < SETS; set++) words_of_parts<V>(r + set * V, tid % (32 / V));
    Code sum = 0u - V * E::NEGABINARY;
    PFPL_UNROLL for (u32 i = 0; i < V; i++) sum += C::get(r, i);
    const Code upto = scan(sum, lane);
    if (lane == 31) s.totals[warp] = upto;
    barrier();                                  // B2
    values<Value, C>(r, upto - sum + warp_sum(lane < warp ? (Code)s.totals[lane] : 0), 2 * (Value)job.bound, false);
    store_parts<Value, V>(r, shared_address(s.coded[0]), out, low, high, tid);
  }
  if (arrived) conclude(launch, OneField{field}, job, arrived);
}

}  // namespace pfpl
