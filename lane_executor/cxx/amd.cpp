// The AMD kernels, for the executor.
#include "pfpl.hip"

LANES_EXPORT(pfpl_encode_f32, pfpl_encode_f32)
LANES_EXPORT(pfpl_encode_f64, pfpl_encode_f64)
LANES_EXPORT(pfpl_decode_f32, pfpl_decode_f32)
LANES_EXPORT(pfpl_decode_f64, pfpl_decode_f64)
