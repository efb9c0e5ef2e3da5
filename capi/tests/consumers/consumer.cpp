// A C++17 program against the installed library.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <pfpl.h>
#include <vector>

int main() {
  std::vector<double> field(50000), restored(field.size());
  for (std::size_t i = 0; i < field.size(); i++) field[i] = std::sin(1e-3 * static_cast<double>(i));
  std::vector<unsigned char> stream(pfpl_max_stream_bytes(PFPL_F64, field.size()));
  std::uint64_t length = 0;
  const double bound = 1e-6;
  if (pfpl_status status = pfpl_compress_into(PFPL_F64, field.data(), field.size(), bound, stream.data(), stream.size(), &length, nullptr)) {
    std::fprintf(stderr, "%s\n", pfpl_status_string(status));
    return 1;
  }
  if (pfpl_decompress(PFPL_F64, stream.data(), length, restored.data(), restored.size(), nullptr, nullptr, nullptr) != PFPL_OK) return 1;
  for (std::size_t i = 0; i < field.size(); i++)
    if (std::fabs(field[i] - restored[i]) > bound) return 1;
  std::printf("C++: %zu values in %llu bytes\n", field.size(), static_cast<unsigned long long>(length));
}
