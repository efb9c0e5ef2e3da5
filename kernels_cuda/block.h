// What the threads of a block leave each other in shared memory.
#pragma once
#include "platform.h"

namespace pfpl {

// Over N words, one of each warp, 16-byte aligned.
template <u32 N> PFPL_FN u32 sum_of(const u32* p) {
  u32 t = 0;
  PFPL_UNROLL for (u32 i = 0; i < N; i += 4) { const Words4 v = *(const Words4*)(p + i); t += v.x + v.y + v.z + v.w; }
  return t;
}
template <u32 N> PFPL_FN u32 sum_below(const u32* p, u32 n) {              // p[0] + .. + p[n-1]
  u32 t = 0;
  PFPL_UNROLL for (u32 i = 0; i < N; i += 4) {
    const Words4 v = *(const Words4*)(p + i);
    if (n > i) t += v.x;
    if (n > i + 1) t += v.y;
    if (n > i + 2) t += v.z;
    if (n > i + 3) t += v.w;
  }
  return t;
}
template <u32 N> PFPL_FN u32 or_of(const u32* p) {
  u32 t = 0;
  PFPL_UNROLL for (u32 i = 0; i < N; i += 4) { const Words4 v = *(const Words4*)(p + i); t |= v.x | v.y | v.z | v.w; }
  return t;
}

// Values lie in rows of 128 bytes, their 16-byte units xored with the row: whole rows, and several units of each thread, are then read and
// written without bank conflicts.
PFPL_FN u32 value_unit(u32 unit) { return unit ^ (unit >> 3 & 7); }

}  // namespace pfpl
