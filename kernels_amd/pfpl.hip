// Entry points of the AMD kernels.  Arguments: a Launch, then MAX_FIELDS fields by value, of which Launch.fields count (4000 bytes in all).
#include "encode.h"
#include "decode.h"

namespace pfpl {
constexpr u32 MAX_FIELDS = 62;
template <class Field> struct Fields { Field field[MAX_FIELDS]; };
}  // namespace pfpl
using namespace pfpl;

PFPL_KERNEL(pfpl_encode_f32, THREADS, 3)(Launch launch, Fields<EncodeField> list) {
  PFPL_SHARED(EncodeShared, shared);
  encode<float>(launch_of(launch), fields_of<EncodeField>(launch_of(launch), list), shared);
}
PFPL_KERNEL(pfpl_encode_f64, THREADS, 3)(Launch launch, Fields<EncodeField> list) {
  PFPL_SHARED(EncodeShared, shared);
  encode<double>(launch_of(launch), fields_of<EncodeField>(launch_of(launch), list), shared);
}
PFPL_KERNEL(pfpl_decode_f32, THREADS, 3)(Launch launch, Fields<DecodeField> list) {
  PFPL_SHARED(DecodeShared, shared);
  decode<float>(launch_of(launch), fields_of<DecodeField>(launch_of(launch), list), shared);
}
PFPL_KERNEL(pfpl_decode_f64, THREADS, 3)(Launch launch, Fields<DecodeField> list) {
  PFPL_SHARED(DecodeShared, shared);
  decode<double>(launch_of(launch), fields_of<DecodeField>(launch_of(launch), list), shared);
}
