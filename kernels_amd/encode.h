// The encoder: persistent blocks of 256 threads, one chunk at a time, in ticket order.
//
// Barriers of a chunk:
//   values -> shared memory (each wave its own part) -> runs in registers; quantize, difference
//   1  values all read       transpose; plane words -> shared memory
//   2  planes complete       each thread takes 64 consecutive bytes into registers: flags, counts, the bitmap's own flags
//   3  counts here           size known -> published; the next chunk's values are requested; nonzero bytes -> shared memory, whole words
//   4  whole words stored    the bytes at the ends of the runs; meanwhile the sizes of the chunks before this one arrive
//   5  coded bytes complete  -> the stream
//   6  shared memory free
//
// Look-back (notes/amd-lookback.md): every chunk publishes one 64-bit word, the launch's epoch above its coded size.  A block knows the
// offset behind the last chunk it coded, and adds the sizes of the chunks since.
#pragma once
#include "chunk.h"

namespace pfpl {

struct EncodeShared {
  alignas(16) u32 words[CHUNK_WORDS + 4];       // values, then planes, then the coded bytes
  Spread table[16];
  u64 sums[WAVES];
  u64 ticket, epoch;
  alignas(8) Mask changed[WAVES];               // level-3 bitmap
  u32 counts[WAVES], counts3[WAVES], parts[WAVES];
};
constexpr u32 SIZE_BITS = 15;                   // of a published word; a coded size is 2 .. 16384

// ---------------------------------------------------------------- values
// A chunk's values as a wave loads them (unit i of a lane is unit i * WAVE + lane of the wave's part), and the value before the part.
template <class Value> struct Values {
  Words4 unit[UNITS];
  Value before;
};
template <class Value> PFPL_FN Value load_value(u64 at) {
  if constexpr (sizeof(Value) == 4) return value_of(load_word(at));
  else return value_of((u64)load_word(at + 4) << 32 | load_word(at));
}
template <class Value> PFPL_FN Values<Value> load_values(u64 chunk, u64 left, u32 lane, u32 wave) {
  Values<Value> v;
  const u32 first = wave * WAVE_UNITS * (16 / sizeof(Value));            // of the wave
  const u64 at = chunk + (u64)first * sizeof(Value) + lane * 16;
  v.before = 0;
  if (left >= Element<Value>::CODES) {
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) v.unit[i] = load_unit(at + i * WAVE * 16);
  } else {                                      // the field's last chunk: zeros, whose code is 0, fill it up
    const u32 words = (u32)left * (sizeof(Value) / 4);
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
      const u32 w = (wave * WAVE_UNITS + i * WAVE + lane) * 4;
      const auto word = [&](u32 k) { const u32 there = load_word(chunk + 4ull * (w + k < words ? w + k : words - 1)); return w + k < words ? there : 0; };
      v.unit[i] = {word(0), word(1), word(2), word(3)};
    }
  }
  if (wave && first - 1 < left) v.before = load_value<Value>(chunk + (u64)(first - 1) * sizeof(Value));
  return v;
}

// ---------------------------------------------------------------- words of a run (FORMAT.md, coding a chunk, steps 1 to 3)
// Codes of N values, elements 0, 1, .. of `x`: the first try of quantize() for all, two at a time where the machine has packed
// operations; where it does not hold for some value of the wave, both tries.
template <u32 N> PFPL_FN void quantize_group(const float* x, const Step<float>& step, u32* codes) {
  using E = Element<float>;
  bool missed = false;
  float bin = 0;
  PFPL_UNROLL for (u32 e = 0; e < N; e += 2) {
    const Pair v = {x[e], x[e + 1]}, sum = v * step.inv + E::ROUND, q = sum - E::ROUND, d = v - q * step.eb2;
    PFPL_UNROLL for (u32 k = 0; k < 2; k++) {
      missed |= !(magnitude(d[k]) <= step.eb);                             // also where x, and so q, is NaN or infinite
      bin = larger(bin, magnitude(q[k]));
      const i32 sign = (i32)bits_of((float)q[k]) >> 31;
      codes[e + k] = 2 * bits_of((float)sum[k]) - 2 * E::ROUND_BITS ^ (u32)sign;
    }
  }
  if (any(missed | !(bin < E::RADIUS))) PFPL_UNROLL for (u32 e = 0; e < N; e++) codes[e] = quantize(x[e], step);
}
template <u32 N> PFPL_FN void quantize_group(const double* x, const Step<double>& step, u64* codes) {
  using E = Element<double>;
  bool missed = false;
  PFPL_UNROLL for (u32 e = 0; e < N; e++) {
    const double sum = x[e] * step.inv + E::ROUND, q = sum - E::ROUND, d = x[e] - q * step.eb2;
    missed |= !(magnitude(d) <= step.eb) | !(magnitude(q) < E::RADIUS);
    const i64 i = (i64)(bits_of(sum) - E::ROUND_BITS);
    codes[e] = (u64)i << 1 ^ (u64)(i >> 63);
  }
  if (any(missed)) PFPL_UNROLL for (u32 e = 0; e < N; e++) codes[e] = quantize(x[e], step);
}
// r: the thread's values, then its words as rows of the transpose.
PFPL_FN void words_of_values(u32* r, float before, const Step<float>& step, u32) {
  using E = Element<float>;
  u32 c[RUN];
  PFPL_UNROLL for (u32 g = 0; g < RUN; g += 4) {
    const float x[4] = {value_of(r[g]), value_of(r[g + 1]), value_of(r[g + 2]), value_of(r[g + 3])};
    quantize_group<4>(x, step, c + g);
  }
  u32 previous = lane_before(c[RUN - 1], quantize(before, step));
  PFPL_UNROLL for (u32 e = 0; e < RUN; e++) { r[RUN - 1 - e] = (c[e] - previous + E::NEGABINARY) ^ E::NEGABINARY; previous = c[e]; }
}
// Of 64-bit codes the even thread of a pair gets the upper words of both threads' elements, the odd one the lower.
PFPL_FN void words_of_values(u32* r, double before, const Step<double>& step, u32 thread) {
  using E = Element<double>;
  u64 c[RUN / 2];
  PFPL_UNROLL for (u32 g = 0; g < RUN / 2; g += 2) {
    const double x[2] = {value_of((u64)r[2 * g + 1] << 32 | r[2 * g]), value_of((u64)r[2 * g + 3] << 32 | r[2 * g + 2])};
    quantize_group<2>(x, step, c + g);
  }
  const u64 first = quantize(before, step), last = c[RUN / 2 - 1];
  u64 previous = (u64)lane_before((u32)(last >> 32), (u32)(first >> 32)) << 32 | lane_before((u32)last, (u32)first);
  const bool odd = thread & 1;
  PFPL_UNROLL for (u32 e = 0; e < RUN / 2; e++) {
    const u64 w = (c[e] - previous + E::NEGABINARY) ^ E::NEGABINARY;
    previous = c[e];
    const u32 high = (u32)(w >> 32), low = (u32)w;
    r[RUN - 1 - e] = odd ? low : high;                                     // elements 0..7 of 16 in the even thread, 8..15 in the odd one: see Place
    r[RUN / 2 - 1 - e] = shuffle_xor<1>(odd ? high : low);
  }
}

// ---------------------------------------------------------------- compaction (FORMAT.md, step 5)
// Appends flagged bytes at byte `bits / 8` of shared memory.  Whole words are stored as they fill up, by the run that fills them; what a
// run leaves in its last word is stored by finish(), after a barrier: the run that fills that word has stored zeros there.
struct Append {
  u32 start, bits, pending, word_at;            // start and word_at (of the word that is filling up) in bytes
  PFPL_FN explicit Append(u32 at) : start(at), bits(8 * at), pending(0), word_at(at & ~3u) {}
  PFPL_FN void word(u8* bytes, u32 v, const Spread& spread) {
    const u32 front = permute_bytes(v, 0, spread.selector), next = bits + spread.advance;
    pending |= front << (bits & 31);
    if ((next ^ bits) > 31) {
      *(u32*)(bytes + word_at) = pending;
      word_at += 4;
      pending = shift_right(front >> 1, ~bits);
    }
    bits = next;
  }
  PFPL_FN void finish(u8* bytes) const {
    const u32 from = word_at == (start & ~3u) ? start & 3 : 0, to = bits >> 3 & 3;
    PFPL_UNROLL for (u32 b = 0; b < 3; b++) if (b >= from && b < to) bytes[word_at + b] = (u8)(pending >> 8 * b);
  }
};

// Flags of the nonzero bytes among 8 (as 64 bits: eight bitmap bytes, which of them differ from the byte before).
PFPL_FN u32 changed_bytes(u64 bitmap, u32 before) {
  const u64 x = bitmap ^ (bitmap << 8 | before), low = 0x7f7f7f7f7f7f7f7full;
  u64 t = (((x & low) + low) | x) & ~low;
  t = t >> 7; t |= t >> 7; t |= t >> 14; t |= t >> 28;                     // bit 8 k to bit k
  return (u32)t & 0xff;
}
// Flags of the `N` bytes of shared memory from byte `at` of the (swizzled) planes: bit i for byte i.
template <u32 N> PFPL_FN u64 flags_before(const u32* words, u32 at, u32 lane) {
  u64 flags = 0;
  PFPL_UNROLL for (u32 i = 0; i < N; i += WAVE) {
    const u32 b = at + i + (N < WAVE ? lane & (N - 1) : lane);
    flags |= (u64)ballot(((const u8*)(words + swizzle(b >> 2)))[b & 3] != 0) << i;
  }
  return N < 64 ? flags & ((1ull << (N & 63)) - 1) : flags;
}

// ---------------------------------------------------------------- the stream
// `length` bytes of shared memory -> device memory at any alignment.
PFPL_FN void copy_out(const u32* words, u64 to, u32 length, u32 thread) {
  u32 head = (0u - (u32)to) & 3;                                           // bytes before the first whole word
  if (head > length) head = length;
  const u32 units = (length - head) / 16;
  PFPL_ROLL for (u32 u = thread; u < units; u += THREADS) {
    const Words4 v = *(const Words4*)(words + 4 * u);
    const u32 next = words[4 * u + 4];
    store_unit(to + head + 16 * u, Words4{align_bytes(v.x, v.y, head), align_bytes(v.y, v.z, head), align_bytes(v.z, v.w, head), align_bytes(v.w, next, head)});
  }
  const u32 done = head + units * 16, i = thread < 4 ? thread : done + thread - 4;
  if (thread < 20 && (thread < 4 ? i < head : i < length)) store_byte(to + i, ((const u8*)words)[i]);
}

// Header, padding and outcome of a stream whose payload ends at byte `end`.
template <class Value> PFPL_FN void finish_stream(u64 stream, u64 n, u64 capacity, u64 outcome, float bound, bool wide, u64 end) {
  const u64 bytes = (end + 3) & ~3ull, chunks = chunks_of<Value>(n);
  if (bytes <= capacity) PFPL_UNROLL for (u32 i = 0; i < 3; i++) if (end + i < bytes) store_byte(stream + end + i, 0);
  const u32 type = Element<Value>::TYPE_BYTE;
  if (wide && capacity >= WIDE_HEADER) {
    const u64 archive = bytes - WIDE_HEADER;
    const u32 header[8] = {MAGIC_W | type, bits_of(bound), (u32)n, (u32)(n >> 32), (u32)archive, (u32)(archive >> 32), (u32)chunks, (u32)(chunks >> 32)};
    PFPL_UNROLL for (u32 i = 0; i < 8; i++) store_word(stream + 4 * i, header[i]);
  }
  if (!wide && capacity >= NARROW_HEADER) {
    const u32 header[6] = {MAGIC_P | type, (u32)(bytes - NARROW_HEADER), bits_of(bound), (u32)n, (u32)chunks * CHUNK_BYTES, (u32)chunks};
    PFPL_UNROLL for (u32 i = 0; i < 6; i++) if (i < 4 || capacity >= NARROW_HEADER + NARROW_WORDS) store_word(stream + 4 * i, header[i]);
  }
  if (outcome) {
    store_word(outcome, (u32)bytes); store_word(outcome + 4, (u32)(bytes >> 32));
    store_word(outcome + 8, bytes <= capacity ? OK : OVERFLOW_); store_word(outcome + 12, NO_CHUNK);
  }
}

// ---------------------------------------------------------------- the kernel
template <class Value> PFPL_FN void encode(LaunchPointer launch, FieldPointer<EncodeField> fields, EncodeShared& s) {
  using E = Element<Value>;
  u32 thread = thread_index(), lane = lane_index();
  u32 wave = uniform(thread / WAVE);
  const u32 blocks = grid_blocks(THREADS);
  const u64 sizes = chunk_words(launch);        // the published words
  if (thread < 16) s.table[thread] = compaction(thread);
  // Every block reads the epoch before it draws; the draw that ends the launch advances it.
  const auto draw = [&](bool first) {
    const LaunchPointer l = again(launch);
    const u64 ticket = first ? fetch_add_ordered(l->state + TICKET, 1) : fetch_add(l->state + TICKET, 1);
    if (ticket == (u64)l->chunks + blocks - 1) {
      fence_acquire();
      store_relaxed(l->state + TICKET, 0);
      store_relaxed(l->state + EPOCH, s.epoch + 1);
    }
    s.ticket = ticket;
  };
  if (thread == 0) { s.epoch = load_relaxed(launch->state + EPOCH); draw(true); }
  for (u64 f = (u64)block_index() * THREADS + thread; f < launch->fields; f += (u64)blocks * THREADS)
    if (fields[f].n == 0) finish_stream<Value>(fields[f].stream, 0, fields[f].capacity, fields[f].outcome, fields[f].bound, fields[f].wide, table_offset(fields[f].wide));
  barrier();
  const u64 tag = uniform(s.epoch) << SIZE_BITS;
  u64 ticket = uniform(s.ticket);

  const Place<Value> place(thread, false);
  const u32 run = swizzle(RUN * thread), unit = swizzle(4 * (wave * WAVE_UNITS + lane));
  u32 field = 0, next_first = 0;                // next_first: the first chunk behind the field's
  FieldPointer<EncodeField> f = fields;
  u64 left = 0;                                 // values from this chunk on
  Values<Value> values;
  u64 known_offset = 0; u32 known = 0;          // payload bytes of the field's chunks before chunk `known` of the launch
  bool fresh = false;                           // the next chunk is of another field than the one before
  const auto take = [&](u32 chunk) {            // makes `chunk` the next one and requests its values
    fresh = chunk >= next_first;
    if (fresh) {
      field = find_field<EncodeField>(fields, again(launch)->fields, chunk, lane);
      f = fields + field;
      next_first = field + 1 < launch->fields ? fields[field + 1].first_chunk : launch->chunks;
      known = f->first_chunk; known_offset = 0;
    }
    const u64 first = (u64)(chunk - f->first_chunk) * E::CODES;
    left = f->n - first;
    values = load_values<Value>(f->field + first * sizeof(Value), left, lane, wave);
  };
  if (ticket < launch->chunks) take((u32)ticket);

  while (ticket < launch->chunks) {
    const u32 chunk = (u32)ticket;
    thread = opaque(thread); lane = opaque(lane); wave = opaque_uniform(wave);     // masks made of them are cheaper to make again than to keep
    Step<Value> step;
    step.eb = f->bound; step.eb2 = 2 * step.eb; step.inv = (Value)f->inverse;

    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) *(Words4*)(s.words + unit + i * WAVE * 4) = values.unit[i];
    warp_barrier();
    u32 r[RUN];
    read_run(s.words, run, r);
    words_of_values(r, values.before, step, thread);
    const u32 own_parts = parts_of(r, Value());
    if (lane == 0) s.parts[wave] = own_parts;
    barrier();                                  // 1: values all read
    const u32 parts = or_all(s.parts);          // parts of the planes that are not all zero; of the others nothing is read
    const bool half = !(parts & Parts<Value>::UPPER);
    planes_of_words(r, place, half);
    if (half) PFPL_UNROLL for (u32 j = 0; j < 8; j++) s.words[place.half_word(j)] = r[j];
    else PFPL_UNROLL for (u32 j = 0; j < RUN; j++) s.words[place.word(j)] = r[j];
    if (thread == 0) draw(false);
    barrier();                                  // 2: planes complete
    ticket = uniform(s.ticket);

    // Levels 1 to 3: flags of the run's 64 bytes; which of these 8 bitmap bytes differ from the byte before; whether that byte does.
    u64 bitmap_before = 0, byte_before = 0;     // of the 64 bytes before the wave's, and the 8 before those
    if (wave && has_part(parts, wave - 1)) {
      bitmap_before = flags_before<64>(s.words, wave * WAVE * 64 - 64, lane);
      byte_before = flags_before<8>(s.words, wave * WAVE * 64 - 72, lane);
    }
    u32 flags[2] = {0, 0};
    if (has_part(parts, wave)) {
      read_run(s.words, run, r);
      flags[0] = flag_word(r); flags[1] = flag_word(r + 8);
    } else PFPL_UNROLL for (u32 k = 0; k < RUN; k++) r[k] = 0;
    const u32 previous = lane_before(flags[1], (u32)(bitmap_before >> 32));
    const u32 kept = flags_of(flags[0] ^ align_bytes(previous, flags[0], 3), flags[1] ^ align_bytes(flags[0], flags[1], 3)) >> 7;
    const bool change = kept != lane_before(kept, changed_bytes(bitmap_before, (u32)byte_before));
    const Mask changed = ballot(change);
    const u32 count = popcount(flags[0]) + popcount(flags[1]) | popcount(kept) << 16, count_sums = warp_scan(count);
    if (lane == WAVE - 1) { s.counts[wave] = count_sums; s.counts3[wave] = popcount(changed); s.changed[wave] = changed; }
    barrier();                                  // 3: counts here, planes all read

    const Sums counts = sums_of_waves(s.counts, lane, wave), counts3 = sums_of_waves(s.counts3, lane, wave);
    const u32 level3 = ((const u8*)s.changed)[lane & 31];
    const u32 level3_before = lane_before(level3, 0);
    const Mask changed3 = ballot(lane < 32 && level3 != level3_before);
    const u32 nonzero = counts.total & 0xffff, kept2 = nonzero + (counts.total >> 16), kept3 = kept2 + counts3.total, kept4 = kept3 + popcount(changed3);
    const u32 coded = nonzero ? kept4 + 6 : EMPTY_CHUNK_BYTES;
    const bool raw = coded >= CHUNK_BYTES;
    const u32 size = raw ? CHUNK_BYTES : coded;
    FieldPointer<EncodeField> here = again(f);
    if (thread == 0) {
      store_release(sizes + 8ull * chunk, tag | size);
      const u64 entry = table_offset(here->wide) + 4ull * (chunk - here->first_chunk);
      if (entry + 4 <= here->capacity) store_word(here->stream + entry, raw ? CHUNK_BYTES | RAW_FLAG : coded);
    }
    u32 from = known; u64 offset = known_offset;
    known = chunk + 1;
    if (ticket < launch->chunks) take((u32)ticket);

    const u32 before = counts.before + count_sums - count;
    Append nonzeros(before & 0xffff), bitmap(nonzero + (before >> 16));
    if (raw) {
      PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) *(Words4*)(s.words + RUN * thread + 4 * k) = Words4{r[4 * k], r[4 * k + 1], r[4 * k + 2], r[4 * k + 3]};
    } else {
      u8* const bytes = (u8*)s.words;
      PFPL_UNROLL for (u32 g = 0; g < 2; g++)
        if (any(flags[g] != 0)) {
          Spread spread[8];
          read_entries(s.table, flags[g], spread);
          PFPL_UNROLL for (u32 k = 0; k < 8; k++) nonzeros.word(bytes, r[8 * g + k], spread[k]);
        }
      if (any(kept != 0)) {
        const Spread low = s.table[kept & 15], high = s.table[kept >> 4];
        bitmap.word(bytes, flags[0], low); bitmap.word(bytes, flags[1], high);
      }
      if (change) bytes[kept2 + counts3.before + lanes_below(changed)] = (u8)kept;
      if (wave == WAVES - 1) {
        if (nonzero) {
          if ((u64)changed3 >> lane & 1) bytes[kept3 + lanes_below(changed3)] = (u8)level3;
          if (lane < 4) bytes[kept4 + lane] = (u8)((u32)changed3 >> 8 * lane);
        }
        if (lane < 2) bytes[coded - 2 + lane] = (u8)(CHUNK_BYTES >> 8 * lane);
      }
    }
    // The sizes since the last chunk whose offset is known.
    u64 sum = 0;
    for (u32 c = from + thread; c < chunk; c += THREADS) {
      u64 word;
      while ((word = load_relaxed(sizes + 8ull * c) - tag) - 1 >= CHUNK_BYTES) pause();
      sum += word;
    }
    fence_acquire();
    sum = wave_sum(sum);
    if (lane == 0) s.sums[wave] = sum;
    barrier();                                  // 4: whole words stored
    if (!raw) { nonzeros.finish((u8*)s.words); bitmap.finish((u8*)s.words); }
    offset += sum_all(s.sums);
    barrier();                                  // 5: coded bytes complete
    here = again(here);
    const u64 start = table_offset(here->wide) + 4 * chunks_of<Value>(here->n) + offset;
    if (start + size <= here->capacity) copy_out(s.words, here->stream + start, size, thread);
    if (!fresh) known_offset = offset + size;
    if (thread == 0 && (u64)(chunk - here->first_chunk + 1) * E::CODES >= here->n)
      finish_stream<Value>(here->stream, here->n, here->capacity, here->outcome, here->bound, here->wide, start + size);
    barrier();                                  // 6: shared memory free
  }
}

}  // namespace pfpl
