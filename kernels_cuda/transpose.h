// 32x32 bit transposes in registers, both ways: FORMAT.md's bitshuffle for 32-bit words, and for 64-bit words too, whose upper and
// lower halves are transposed each by itself (see encode.h and decode.h for where the planes' words then lie).
//
// A thread holds rows r[0 .. V-1] of V consecutive elements, last element first.  Stages by 16 and 8 are one byte permute a word, those
// by 4, 2 and 1 a shift and a bit select.  FORMAT.md's negabinary is (d + m) ^ m, m = 0xAA..A; its xor is done by the last stage (the
// way back: by the first), which inverts every other plane: so rows go in (come out) as d + m.
#pragma once
#include "platform.h"

namespace pfpl {

constexpr u32 NEGABINARY = 0xAAAAAAAAu;

enum class Invert { NONE, OUT, IN };            // of row b: as it comes out, as it goes in
// One stage on rows a and b, S apart.
template <int S, Invert I> PFPL_FN void transpose_pair(u32& a, u32& b) {
  u32 x, y;
  if constexpr (S == 16) { x = permute(a, b, 0x5410); y = permute(a, b, 0x7632); }
  else if constexpr (S == 8) { x = permute(a, b, 0x6240); y = permute(a, b, 0x7351); }
  else {
    constexpr u32 M = S == 4 ? 0x0F0F0F0Fu : S == 2 ? 0x33333333u : 0x55555555u;
    if constexpr (I == Invert::IN) { x = select_or_not(M, a, b << S); y = select_or_not(M, a >> S, b); }
    else { x = select(M, a, b << S); y = I == Invert::OUT ? select_not(M, a >> S, b) : select(M, a >> S, b); }
  }
  a = x; b = y;
}
template <int S, int N, Invert I = Invert::NONE> PFPL_FN void transpose_stage(u32* r) {
  PFPL_UNROLL for (int i = 0; i < N; i++) if (!(i & S)) transpose_pair<S, I>(r[i], r[i + S]);
}

// 32 elements (r[31-e] = d + m of element e) -> the lowest N planes (r[31-p] = word of plane p, p >= 32-N); N = 8, 16: the others are zero.
template <int N> PFPL_FN void planes_of_words(u32* r) {
  if constexpr (N == 32) { transpose_stage<16, 32>(r); transpose_stage<8, 32>(r); }
  if constexpr (N == 16) {
    PFPL_UNROLL for (int i = 0; i < 16; i++) r[i] = permute(r[i], r[i + 16], 0x5410);
    transpose_stage<8, 16>(r);
  }
  if constexpr (N == 8) {
    PFPL_UNROLL for (int i = 0; i < 8; i++) r[i] = permute(permute(r[i], r[i + 8], 0x0040), permute(r[i + 16], r[i + 24], 0x0040), 0x5410);
  }
  transpose_stage<4, N>(r); transpose_stage<2, N>(r); transpose_stage<1, N, Invert::OUT>(r);
}
// The way back, rows as d + m again.
template <int N> PFPL_FN void words_of_planes(u32* r) {
  transpose_stage<1, N, Invert::IN>(r); transpose_stage<2, N>(r); transpose_stage<4, N>(r);
  if constexpr (N == 32) { transpose_stage<8, 32>(r); transpose_stage<16, 32>(r); }
  if constexpr (N == 16) {
    transpose_stage<8, 16>(r);
    PFPL_UNROLL for (int i = 0; i < 16; i++) { const u32 v = r[i]; r[i] = permute(v, NEGABINARY, 0x7610); r[i + 16] = permute(v, NEGABINARY, 0x7632); }
  }
  if constexpr (N == 8) {
    PFPL_UNROLL for (int i = 0; i < 8; i++) {
      const u32 v = r[i];
      r[i] = permute(v, NEGABINARY, 0x7650); r[i + 8] = permute(v, NEGABINARY, 0x7651);
      r[i + 16] = permute(v, NEGABINARY, 0x7652); r[i + 24] = permute(v, NEGABINARY, 0x7653);
    }
  }
}

// The same for V < 32 elements a thread, 32/V neighbouring lanes sharing 32 elements in order: lane `part` of them holds rows 32-V(1+part)
// and up, of the words and then of the planes, or the way back.  The stages by V and more go through a shuffle.
template <int V, Invert I> PFPL_FN void transpose_parts(u32* r, u32 part) {
  if constexpr (V > 8) transpose_stage<8, V>(r);
  if constexpr (V > 4) transpose_stage<4, V>(r);
  transpose_stage<2, V>(r); transpose_stage<1, V, I>(r);
  PFPL_UNROLL for (u32 s = 16; s >= V; s /= 2) {
    const bool high = !(part & s / V);          // holds the higher row of the pair
    PFPL_UNROLL for (int i = 0; i < V; i++) {
      const u32 other = shuffle_xor(r[i], s / V);
      if (s == 16) r[i] = permute(r[i], other, high ? 0x3276 : 0x5410);
      else if (s == 8) r[i] = permute(r[i], other, high ? 0x3715 : 0x6240);
      else r[i] = select(high ? 0xF0F0F0F0u : 0x0F0F0F0Fu, r[i], funnel_left(other, other, high ? 28 : 4));
    }
  }
}

template <int V> PFPL_FN void planes_of_parts(u32* r, u32 part) { transpose_parts<V, Invert::OUT>(r, part); }
template <int V> PFPL_FN void words_of_parts(u32* r, u32 part) { transpose_parts<V, Invert::IN>(r, part); }

// Sixteen elements of the 32 bits of N planes (for N = 16 the lowest, the others zero): r[8 b + i] has of the pair of planes p, p + 8,
// p = 16 (1 - b) + 7 - i, 16 bits each, p in the upper half, first element at the top -> r[15-e] = d + m of element e.
template <int N> PFPL_FN void words_of_half_planes(u32* r) {
  transpose_stage<1, N / 2, Invert::IN>(r); transpose_stage<2, N / 2>(r); transpose_stage<4, N / 2>(r);
  PFPL_UNROLL for (int i = 0; i < 8; i++) {
    const u32 low = r[i], high = N == 32 ? r[8 + i] : NEGABINARY;
    r[i] = permute(low, high, 0x6420); r[8 + i] = permute(low, high, 0x7531);
  }
}

}  // namespace pfpl
