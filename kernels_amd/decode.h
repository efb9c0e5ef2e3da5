// The decoder: blocks take chunks round robin; the size table says where each is, so that no block waits for another.
//
// Barriers of a chunk:
//   coded bytes -> shared memory
//   0  coded bytes here     levels 4 to 2 of the bitmap, in every wave
//   1  level-2 counts       level 1; the table entries up to this block's next chunk are summed, its coded bytes requested
//   2  level-1 counts       nonzero bytes -> the thread's 64 bytes of the planes, in registers
//   3  coded bytes all read planes -> shared memory
//   4  planes complete      transpose back, undo the difference
//   5  sums here            dequantize; values through the wave's own part of shared memory to the field
//   6  shared memory free
#pragma once
#include "chunk.h"

namespace pfpl {

struct DecodeShared {
  alignas(16) u32 words[CHUNK_WORDS + 8];       // coded bytes, then planes, then values
  Spread table[16];
  u32 runs[32];                                 // by the flags of four bitmap bytes (+ 16: nothing was kept before): byte selector of a running index
  u64 sums[WAVES], totals[WAVES];
  u32 counts[WAVES], counts2[WAVES], parts[WAVES];
};

constexpr u64 BAD_ENTRY = 1ull << 60;           // above every sum of sizes

// A verdict: status above chunk, so that the smallest wins.
constexpr u64 NO_VERDICT = ~0ull;
PFPL_FN u64 verdict(u32 status, u32 chunk) { return (u64)status << 32 | chunk; }
PFPL_FN u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

PFPL_FN void store_outcome(u64 outcome, u64 found, u64 consumed) {
  if (!outcome) return;
  const bool ok = found == NO_VERDICT;
  const u64 bytes = ok ? consumed : 0;
  store_word(outcome, (u32)bytes); store_word(outcome + 4, (u32)(bytes >> 32));
  store_word(outcome + 8, ok ? OK : (u32)(found >> 32)); store_word(outcome + 12, ok ? NO_CHUNK : (u32)found);
}

// The chunks that hold values first .. first + count - 1.
struct ChunkRange { u64 first; u32 count; };
template <class Value> PFPL_FN ChunkRange chunks_touched(u64 first, u64 count) {
  if (count == 0) return {0, 0};
  const u64 from = first / Element<Value>::CODES;
  return {from, (u32)((first + count - 1) / Element<Value>::CODES - from + 1)};
}

// The lowest of the table's first `count` chunks that is bad or ends past `room` bytes; there is one.
PFPL_FN u32 first_bad(u64 table, u64 count, u64 room, u32 lane) {
  u64 sum = 0;
  PFPL_ROLL for (u64 i = 0;; i += WAVE) {
    const bool there = i + lane < count;
    const u32 e = there ? load_word(table + 4 * (i + lane)) : EMPTY_CHUNK_BYTES;
    const bool bad = bad_entry(e);
    const u32 sums = warp_scan(bad ? 0 : e & ~RAW_FLAG);
    const Mask past = ballot(bad || (there && sum + sums > room));
    if (past || i + WAVE >= count) return (u32)i + (past ? lowest_bit(past) : 0);
    sum += lane_value(sums, WAVE - 1);
  }
}

// ---------------------------------------------------------------- coded bytes
struct Coded { Words4 unit[UNITS]; u32 last; };  // unit thread + i * THREADS; of thread 0, the word behind all units
// `length` bytes from the word-aligned address `at`, of which `there` exist: of what lies behind them nothing is read.
PFPL_FN Coded load_coded(u64 at, u32 length, u64 there, u32 thread) {
  Coded c;
  if (there >= (length + 15 & ~15u)) {
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
      const u32 byte = 16 * (thread + i * THREADS);
      if (byte < length) c.unit[i] = load_unit(at + byte);
    }
    if (length > CHUNK_BYTES) c.last = load_word(at + CHUNK_BYTES);
  } else {                                      // the stream's last chunk; the header lies before it, so that `at` - 4 exists
    const u32 whole = (u32)there & ~3u;
    u32 tail = 0;
    PFPL_ROLL for (u32 b = 0; b < (there & 3); b++) tail |= load_byte(at + whole + b) << 8 * b;
    const auto word = [&](u32 byte) { const u32 w = load_word(at - 4 + (byte < whole ? byte + 4 : whole)); return byte < whole ? w : byte == whole ? tail : 0; };
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
      const u32 byte = 16 * (thread + i * THREADS);
      c.unit[i] = {word(byte), word(byte + 4), word(byte + 8), word(byte + 12)};
    }
    c.last = word(CHUNK_BYTES);
  }
  return c;
}

PFPL_FN u32 byte_at(const u32* words, u32 at) { return ((const u8*)words)[at]; }
PFPL_FN u32 word_at(const u32* words, u32 at) { return align_bytes(words[at >> 2], words[(at >> 2) + 1], at); }     // any byte address

// Four bytes of a bitmap by their flags: a flagged byte is the next kept one, another repeats the byte before (0 before the first).
// `kept`: address of the kept bytes, of which `rank` come before these four.
PFPL_FN u32 repeat_bytes(const DecodeShared& s, u32 flags, u32 kept, u32 rank) {
  const u32 at = kept + (rank ? rank - 1 : 0), low = s.words[at >> 2], high = s.words[(at >> 2) + 1];
  return permute_bytes(align_bytes(low, high, at), align_bytes(high, 0, at), s.runs[flags + (rank ? 0 : 16)]);
}
// Of the bytes from the running one on; where there is none, of the bytes to come.
PFPL_FN u32 repeat_selector(u32 flags, bool none) {
  u32 selector = 0, n = 0;
  for (u32 b = 0; b < 4; b++) { n += flags >> b & 1; selector |= (!none ? n : n ? n - 1 : ZERO_BYTE) << 8 * b; }
  return selector;
}

// ---------------------------------------------------------------- codes of a run (FORMAT.md, decoding)
// r: rows of the transpose; then the thread's codes, summed within the thread, as 32-bit words in order.
PFPL_FN u32 sum_words(u32* r, float, u32) {
  using E = Element<float>;
  u32 sum = 0;
  PFPL_UNROLL for (u32 i = 0; i < RUN / 2; i++) { const u32 a = r[i]; r[i] = r[RUN - 1 - i]; r[RUN - 1 - i] = a; }
  PFPL_UNROLL for (u32 e = 0; e < RUN; e++) r[e] = sum += (r[e] ^ E::NEGABINARY) - E::NEGABINARY;
  return sum;
}
PFPL_FN u64 sum_words(u32* r, double, u32 thread) {
  using E = Element<double>;
  const bool odd = thread & 1;
  u64 sum = 0, c[RUN / 2];
  PFPL_UNROLL for (u32 e = 0; e < RUN / 2; e++) {
    const u32 own = r[RUN - 1 - e], other = shuffle_xor<1>(r[RUN / 2 - 1 - e]);      // what the partner holds of this thread's element
    const u64 w = odd ? (u64)other << 32 | own : (u64)own << 32 | other;
    c[e] = sum += (w ^ E::NEGABINARY) - E::NEGABINARY;
  }
  PFPL_UNROLL for (u32 e = 0; e < RUN / 2; e++) { r[2 * e] = (u32)c[e]; r[2 * e + 1] = (u32)(c[e] >> 32); }
  return sum;
}
PFPL_FN void values_of(u32* r, u32 before, float eb2) {
  PFPL_UNROLL for (u32 e = 0; e < RUN; e++) r[e] = bits_of(dequantize<float>(r[e] + before, eb2));
}
PFPL_FN void values_of(u32* r, u64 before, double eb2) {
  PFPL_UNROLL for (u32 e = 0; e < RUN; e += 2) {
    const u64 v = bits_of(dequantize<double>(((u64)r[e + 1] << 32 | r[e]) + before, eb2));
    r[e] = (u32)v; r[e + 1] = (u32)(v >> 32);
  }
}
// Values of a wave's part of the chunk from shared memory to the field; of the chunk, values from .. to - 1 are wanted, the first at `at`.
template <class Value> PFPL_FN void store_values(const u32* words, u32 unit, u64 at, u32 from, u32 to, u32 lane, u32 wave) {
  const bool whole = from == 0 && to == Element<Value>::CODES;
  const u64 base = at - (u64)from * sizeof(Value);                         // of the chunk's value 0, wanted or not
  PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
    const Words4 v = *(const Words4*)(words + unit + i * WAVE * 4);
    const u32 w = (wave * WAVE_UNITS + i * WAVE + lane) * 4;
    if (whole) store_unit(base + 4 * w, v);
    else {
      const u32 low = from * (sizeof(Value) / 4), high = to * (sizeof(Value) / 4), part[4] = {v.x, v.y, v.z, v.w};
      PFPL_UNROLL for (u32 k = 0; k < 4; k++) if (w + k >= low && w + k < high) store_word(base + 4 * (w + k), part[k]);
    }
  }
}

// ---------------------------------------------------------------- the kernel
template <class Value> PFPL_FN void decode(LaunchPointer launch, FieldPointer<DecodeField> fields, DecodeShared& s) {
  using E = Element<Value>;
  using Code = typename E::Code;
  u32 thread = thread_index(), lane = lane_index(), wave = uniform(thread / WAVE);
  const u32 blocks = grid_blocks(THREADS);
  if (thread < 16) s.table[thread] = expansion(thread);
  if (thread < 32) s.runs[thread] = repeat_selector(thread & 15, thread >= 16);

  // Fields of which no chunk is wanted have a verdict too.
  for (u64 i = (u64)block_index() * THREADS + thread; i < launch->fields; i += (u64)blocks * THREADS)
    if (fields[i].count == 0) {
      const Layout l = read_header<Value>(words_at(fields[i].stream), fields[i].bytes, fields[i].n);
      store_outcome(fields[i].outcome, l.status == OK ? NO_VERDICT : verdict(l.status, NO_CHUNK), l.end);
    }

  const Place<Value> place(thread, true);
  const u32 run = swizzle(RUN * thread), unit = swizzle(4 * (wave * WAVE_UNITS + lane));
  FieldPointer<DecodeField> f = fields;
  u32 field = 0, next_first = 0;                // next_first: the first chunk behind the field's
  Layout layout{};
  u64 found = NO_VERDICT; u32 arrived = 0;      // what this block has to report of the field

  // Reports to the field's state; the last block to do so knows the outcome, and leaves the state as it was.
  const auto report = [&] {
    if (thread == 0 && arrived) {
      const u64 state = field_state(launch, field);
      u64 done;
      if (found != NO_VERDICT) { fetch_max(state + 8, ~found); done = fetch_add_ordered(state, arrived); }
      else done = fetch_add(state, arrived);
      if (done + arrived == chunks_touched<Value>(f->first, f->count).count) {
        fence_acquire();
        store_outcome(f->outcome, ~load_relaxed(state + 8), layout.end);
        store_relaxed(state, 0); store_relaxed(state + 8, 0);
      }
    }
    found = NO_VERDICT; arrived = 0;
  };

  // The block's next chunk: its number within the field, and where it is.
  u32 chunk = block_index();
  u64 index = 0, offset = 0;                    // offset: from the stream's start
  u32 entry = 0;
  u64 at = 0;                                   // the field's chunk that `offset` belongs to while the table is summed
  const auto sum_table = [&] {                  // moves to `chunk`; the sizes in between go to s.sums
    if (chunk >= next_first) {
      report();
      field = find_field<DecodeField>(fields, launch->fields, chunk, lane);
      f = fields + field;
      next_first = field + 1 < launch->fields ? fields[field + 1].first_chunk : launch->chunks;
      const Layout l = read_header<Value>(words_at(f->stream), f->bytes, f->n);
      layout.payload = uniform(l.payload); layout.table = uniform(l.table); layout.end = uniform(l.end);
      layout.status = uniform(l.status); layout.bound = value_of(uniform(bits_of(l.bound)));
      if (layout.status != OK) found = verdict(layout.status, NO_CHUNK);
      at = 0; offset = layout.payload;
    }
    index = chunk - f->first_chunk + f->first / E::CODES;
    u64 sum = 0;
    bool bad = false;
    if (layout.status == OK) {
      const u64 table = f->stream + layout.table;
      for (u64 i = at + thread; i < index; i += THREADS) {
        const u32 e = load_word(table + 4 * i);
        bad |= bad_entry(e);
        sum += e & ~RAW_FLAG;
      }
      entry = uniform(load_word(table + 4 * index));
    }
    at = index;
    sum = wave_sum(sum);
    bad = any(bad);
    if (lane == 0) s.sums[wave] = sum + (bad ? BAD_ENTRY : 0);
  };
  bool ok = false; u32 length = 0;
  Coded coded;
  const auto request = [&] {                    // after a barrier: `offset` is the chunk's; its bytes are requested
    const u64 sum = sum_all(s.sums);
    length = entry & ~RAW_FLAG;
    ok = layout.status == OK;
    const bool bad = sum >= BAD_ENTRY;          // found by the block that decodes that chunk, if one does
    offset += sum & (BAD_ENTRY - 1);
    if (ok && (bad || offset > layout.end) && index == f->first / E::CODES)
      found = smaller(found, verdict(BAD_TABLE, first_bad(f->stream + layout.table, index, layout.end - layout.payload, lane)));
    ok = ok && !bad;
    if (ok && (bad_entry(entry) || offset > layout.end || length > layout.end - offset)) { ok = false; found = smaller(found, verdict(BAD_TABLE, (u32)index)); }
    if (ok) coded = load_coded(f->stream + (offset & ~3ull), length + (offset & 3), layout.end - (offset & ~3ull), thread);
  };
  if (chunk < launch->chunks) {
    sum_table();
    barrier();
    request();
  }

  while (chunk < launch->chunks) {
    thread = opaque(thread); lane = opaque(lane); wave = opaque_uniform(wave);     // masks made of them are cheaper to make again than to keep
    // `sum_table` and `request` move on to the next chunk while this one is decoded: what belongs to this one
    const bool good = ok, raw = entry >> 31;
    const u32 e0 = offset & 3, e1 = e0 + length;                           // the chunk is bytes e0 .. e1 - 1 of s.words
    const FieldPointer<DecodeField> here = f;
    const Value eb2 = 2 * (Value)layout.bound;
    const u64 number = index;
    if (good) {
      PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) if (16 * (thread + i * THREADS) < e1) *(Words4*)(s.words + 4 * (thread + i * THREADS)) = coded.unit[i];
      if (thread == 0 && e1 > CHUNK_BYTES) s.words[CHUNK_WORDS] = coded.last;
    }
    barrier();                                  // 0: coded bytes here

    // Levels 4, 3 and 2, from the chunk's end; `end` is where the part not yet explained ends.
    bool intact = good, some = false;           // some: a chunk with nonzero bytes
    u32 end = e1, kept = 0;                     // kept: the thread's level-2 byte, flags of its 8 bitmap bytes
    if (good && !raw) {
      intact = (word_at(s.words, e1 - 2) & 0xffff) == CHUNK_BYTES;
      some = intact && length > EMPTY_CHUNK_BYTES;
    }
    intact = uniform((u32)intact); some = uniform((u32)some);
    if (some) {
      const u32 flags3 = uniform(word_at(s.words, e1 - 6)), i = lane & 31;
      end = e1 - 6;
      u32 n = popcount(flags3);
      if (n > end - e0) intact = some = false;
      else {
        end -= n;
        const u32 rank = popcount(flags3 & (2u << i) - 1);
        const u32 level3 = rank && lane < 32 ? byte_at(s.words, end + rank - 1) : 0;
        const u32 sums = warp_scan(popcount(level3));
        n = lane_value(sums, WAVE - 1);
        if (n > end - e0) intact = some = false;
        else {
          end -= n;
          const bool flag = shuffle(level3, thread >> 3) >> (thread & 7) & 1;
          const u32 before = wave ? lane_value(sums, wave * (WAVE / 8) - 1) : 0;
          const u32 rank2 = before + lanes_below(ballot(flag)) + flag;
          if (rank2) kept = byte_at(s.words, end + rank2 - 1);
        }
      }
    }
    const u32 sums2 = warp_scan(popcount(kept));
    if (lane == WAVE - 1) s.counts2[wave] = sums2;
    const u32 next = chunk + blocks;
    const bool more = next > chunk && next < launch->chunks;
    chunk = more ? next : launch->chunks;
    if (!intact && good) found = smaller(found, verdict(CORRUPT_CHUNK, (u32)number));
    barrier();                                  // 1: level-2 counts here

    u32 flags[2] = {0, 0};
    if (some) {
      const Sums counts = sums_of_waves(s.counts2, lane, wave);
      if (counts.total > end - e0) intact = some = false;
      else {
        end -= counts.total;
        const u32 low = kept & 15;
        u32 rank = counts.before + sums2 - popcount(kept);
        flags[0] = repeat_bytes(s, low, end, rank);
        rank += popcount(low);
        flags[1] = repeat_bytes(s, kept >> 4, end, rank);
      }
    }
    const u32 count = popcount(flags[0]) + popcount(flags[1]), sums1 = warp_scan(count);
    if (lane == WAVE - 1) s.counts[wave] = sums1;
    barrier();                                  // 2: level-1 counts here

    u32 r[RUN];
    PFPL_UNROLL for (u32 k = 0; k < RUN; k++) r[k] = 0;
    if (some) {
      const Sums counts = sums_of_waves(s.counts, lane, wave);
      if (counts.total != end - e0) intact = some = false;
      else {
        u32 position = e0 + counts.before + sums1 - count;
        PFPL_UNROLL for (u32 g = 0; g < 2; g++)
          if (any(flags[g] != 0)) {
            Spread spread[8];
            read_entries(s.table, flags[g], spread);
            PFPL_UNROLL for (u32 k = 0; k < 8; k++) {
              r[8 * g + k] = permute_bytes(word_at(s.words, position), 0, spread[k].selector);
              position += spread[k].advance;
            }
          }
      }
    } else if (good && raw) {
      PFPL_UNROLL for (u32 k = 0; k < RUN; k++) r[k] = word_at(s.words, e0 + 4 * (RUN * thread + k));
    }
    const u32 own_parts = (raw && good) || any((flags[0] | flags[1]) != 0) ? 1u << (wave * 4 / WAVES) : 0;
    if (lane == 0) s.parts[wave] = own_parts;
    if (good && !raw && !intact) found = smaller(found, verdict(CORRUPT_CHUNK, (u32)number));
    arrived++;
    barrier();                                  // 3: coded bytes all read

    const bool half = !(or_all(s.parts) & Parts<Value>::UPPER);
    if (!half || !has_part(Parts<Value>::UPPER, wave)) write_run(s.words, run, r);
    if (more) sum_table();
    barrier();                                  // 4: planes complete
    if (more) request();

    if (half) PFPL_UNROLL for (u32 j = 0; j < 8; j++) r[j] = s.words[place.half_word(j)];
    else PFPL_UNROLL for (u32 j = 0; j < RUN; j++) r[j] = s.words[place.word(j)];
    words_of_planes(r, place, half);
    const Code total = sum_words(r, Value(), thread), sums = warp_scan(total);
    if (lane == WAVE - 1) s.totals[wave] = sums;
    barrier();                                  // 5: sums here, planes all read
    Code before = sums - total;
    PFPL_UNROLL for (u32 w = 0; w + 1 < WAVES; w++) before += w < wave ? (Code)s.totals[w] : 0;
    values_of(r, before, eb2);
    write_run(s.words, run, r);
    warp_barrier();
    const u64 start = number * E::CODES, first = here->first, last = first + here->count;
    const u32 from = start < first ? (u32)(first - start) : 0, to = last - start < E::CODES ? (u32)(last - start) : E::CODES;
    if (good && intact) store_values<Value>(s.words, unit, here->field + (start + from - first) * sizeof(Value), from, to, lane, wave);
    barrier();                                  // 6: shared memory free
  }
  report();
}

}  // namespace pfpl
