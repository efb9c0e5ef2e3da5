// One step of diffusion on many square planes of one type: the same operations in the same order as field.rs, so that both give the same
// bits.  Block row y takes plane y.
template <class T> __device__ __forceinline__ void step(const T* const* old_planes, T* const* new_planes, unsigned side) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= side * side) return;
  const T* old = old_planes[blockIdx.y];
  const unsigned row = i / side, column = i % side;
  T value = old[i];
  if (row && column && row < side - 1 && column < side - 1) {
    const T around = (old[i - 1] + old[i + 1]) + (old[i - side] + old[i + side]);
    value = old[i] + (T)0.2 * (around - (T)4 * old[i]);
  }
  new_planes[blockIdx.y][i] = value;
}

extern "C" __global__ void step_f32(const float* const* old_planes, float* const* new_planes, unsigned side) { step(old_planes, new_planes, side); }
extern "C" __global__ void step_f64(const double* const* old_planes, double* const* new_planes, unsigned side) { step(old_planes, new_planes, side); }
