// The CUDA kernels, for the executor.
#include "pfpl.cu"

LANES_EARLY

#define BOTH(TYPE, COUNT)                                       \
  LANES_EXPORT(pfpl_encode_##TYPE##_##COUNT, pfpl_encode_##TYPE##_##COUNT) \
  LANES_EXPORT(pfpl_decode_##TYPE##_##COUNT, pfpl_decode_##TYPE##_##COUNT)
#define ALL(TYPE) BOTH(TYPE, small) BOTH(TYPE, 1) BOTH(TYPE, 63) BOTH(TYPE, 511)
// LANES_F32, LANES_F64: only those
#ifndef LANES_F64
ALL(f32)
#endif
#ifndef LANES_F32
ALL(f64)
#endif
