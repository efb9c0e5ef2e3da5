// The AMD kernels, for the executor.
#include "pfpl.hip"

#define BOTH(TYPE) LANES_EXPORT(pfpl_encode_##TYPE, pfpl_encode_##TYPE) LANES_EXPORT(pfpl_decode_##TYPE, pfpl_decode_##TYPE)
// LANES_F32, LANES_F64: only those
#ifndef LANES_F64
BOTH(f32)
#endif
#ifndef LANES_F32
BOTH(f64)
#endif
