// Device codecs against the CPU's: bytes, decoded values and residuals to the bit. Runs on a device, and on
// the emulated one.
#include <limits>

#include "device_memory.h"
#include "device_order.h"
#include "device_specs.h"
#include "gossamer/compress/feedback.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

/// Long vectors only of some kinds, for the emulated device's sake.
std::vector<Named> vectors(std::size_t n) {
  if (n == 0) return {{"empty", {}}};
  std::vector<Named> all = families(n, n + 1);
  const std::vector<std::string> some = {"gaussian", "0.1 % dense", "all exponents"}, one = {"5 % dense"};
  const std::vector<std::string>& kept = n > 10000 ? one : some;
  if (n > 600)
    std::erase_if(all,
                  [&](const Named& f) { return std::find(kept.begin(), kept.end(), f.name) == kept.end(); });
  return all;
}

void require_same(const std::vector<std::byte>& got, const std::vector<std::byte>& expected) {
  REQUIRE(got.size() == expected.size());
  const auto differing = std::mismatch(got.begin(), got.end(), expected.begin()).first;
  if (differing != got.end()) FAIL("byte " << differing - got.begin() << " differs");
}

void check_vector(const Codec& host, const cuda::DeviceCodec& device, DeviceEncoder& encoder,
                  const Vector& v) {
  Bytes expected;
  try {
    expected = encode(host, v, kKey);
  } catch (const EncodeError&) {  // an l2 norm is beyond float's range
    REQUIRE_THROWS_AS(encoder.encode(v), EncodeError);
    return;
  }
  require_same(encoder.encode(v), expected);
  Vector acc = laplacian(v.size(), 5), acc_host = acc;
  decode_add(expected, 0.7f, acc_host);
  decode_add_on_device(device, expected, 0.7f, acc);
  REQUIRE(same_bits(acc, acc_host));
}

void check_feedback(const Codec& host, DeviceEncoder& encoder, const Vector& v) {
  const std::size_t n = v.size();
  Workspace workspace;
  FeedbackState state;
  Bytes out(host.max_bytes(n));
  Vector residual(n, -0.0f);  // to which any g is added to the bit
  encoder.forget_selection();
  for (int round = 0; round < 2; ++round) {
    Vector g = v;
    for (float& x : g) x = round == 0 ? x : 0.5f * x;
    out.resize(host.max_bytes(n));
    encoder.set_vector(g);
    encoder.set_residual(residual);
    encoder.start_feedback();
    try {
      out.resize(host.encode_feedback(g, state, kKey, workspace, out));
    } catch (const EncodeError&) {  // g + residual is beyond float's range
      REQUIRE_THROWS_AS(encoder.payload(), EncodeError);
      return;
    }
    require_same(encoder.payload(), out);
    if (host.name() == "topk") REQUIRE(encoder.selection().threshold == state.selection.threshold);
    residual = encoder.next_residual();
    FeedbackState eager = state;
    eager.materialise();
    REQUIRE(same_bits(residual, eager.residual));
  }
}

/// Momentum correction in place, for three rounds.
void check_momentum(const Codec& host, const cuda::DeviceCodec& device, const Vector& g) {
  const std::size_t n = g.size();
  const MomentumCorrection correction(0.9f);
  Workspace workspace;
  MomentumState state;
  DeviceEncoder encoder(device, n);
  const OnDevice<float> velocity(Vector(n, 0.0f));
  encoder.set_key(kKey);
  encoder.set_vector(g);
  encoder.set_residual(Vector(n, 0.0f));
  for (int round = 0; round < 3; ++round) {
    Bytes out(host.max_bytes(n));
    out.resize(correction.encode(host, g, state, kKey, workspace, out));
    encoder.start_momentum(0.9f, velocity);
    require_same(encoder.payload(), out);
    REQUIRE(same_bits(encoder.residual(), state.unsent));
    REQUIRE(same_bits(velocity.get(), state.velocity));
  }
}

/// Payloads, sums and residuals.
void check_specs(const std::vector<std::string>& specs) {
  if (!device_is_there()) return;
  Drawn drawn(kDrawn);
  for (const std::string& spec : specs) {
    const auto host = make_codec(spec);
    const auto device = cuda::make_device_codec(spec);
    REQUIRE(device->spec() == host->spec());
    for (const std::size_t n :
         {0u, 1u, 2u, 31u, 32u, 33u, 511u, 512u, 513u, 600u, 4095u, 4096u, 4097u, 100003u}) {
      if (!drawn()) continue;
      order_device(n);
      DeviceEncoder encoder(*device, n);
      encoder.set_key(kKey);
      for (const Named& family : vectors(n)) {
        INFO(spec << ", " << n << " entries, " << family.name);
        check_vector(*host, *device, encoder, family.v);
        if (host->traits().feedback() && (n < 600 || family.name == "gaussian"))
          check_feedback(*host, encoder, family.v);
      }
    }
  }
}

}  // namespace

TEST_CASE("momentum correction on the device leaves the CPU's state") {
  if (!device_is_there()) return;
  Drawn drawn(kDrawn);
  for (const std::string& spec : device_specs()) {
    if (!drawn()) continue;
    const auto host = make_codec(spec);
    const auto device = cuda::make_device_codec(spec);
    for (const std::size_t n : {1u, 600u, 5001u}) {
      INFO(spec << ", " << n << " entries");
      check_momentum(*host, *device, laplacian(n, 3));
      check_momentum(*host, *device, sparse(n, 0.05, 3));
    }
  }
}

TEST_CASE("the device's payloads, sums and residuals are the CPU's: floats and signs") {
  check_specs(dense_specs());
}

TEST_CASE("the device's payloads, sums and residuals are the CPU's: levels") { check_specs(level_specs()); }

TEST_CASE("the device's payloads, sums and residuals are the CPU's: topk") { check_specs(topk_specs()); }

TEST_CASE("the device's payloads, sums and residuals are the CPU's: selections") {
  check_specs(selection_specs());
}

TEST_CASE("the device's payloads, sums and residuals are the CPU's: other sparse codecs") {
  check_specs(other_sparse_specs());
}

TEST_CASE("the device's payloads are the CPU's where there are more tiles than a warp looks back over") {
  if (!device_is_there()) return;
  constexpr std::size_t kEntries = 300001;
  for (const char* spec : {"topk:density=0.01", "threshold:tau=2"}) {
    const auto host = make_codec(spec);
    const auto device = cuda::make_device_codec(spec);
    DeviceEncoder encoder(*device, kEntries);
    encoder.set_key(kKey);
    INFO(spec);
    check_vector(*host, *device, encoder, laplacian(kEntries, 5));
  }
}

TEST_CASE("topk keeps its threshold in the caller's device memory") {
  if (!device_is_there()) return;
  for (const char* spec : {"topk:select=reuse", "topk:select=exact", "topk:select=bisect,coding=rice"}) {
    const auto host = make_codec(spec);
    const auto device = cuda::make_device_codec(spec);
    const std::size_t n = 9000;
    DeviceEncoder encoder(*device, n);
    encoder.set_key(kKey);
    Workspace workspace;
    SelectionState state;
    // The fourth has too many entries above the last threshold, the fifth too few.
    for (const float scale : {1.0f, 1.01f, 0.99f, 3.0f, 0.1f}) {
      Vector v = laplacian(n, 8);
      for (float& x : v) x *= scale;
      Bytes out(host->max_bytes(n));
      out.resize(host->encode_selecting(v, state, kKey, workspace, out));
      encoder.set_vector(v);
      encoder.start_selecting();
      INFO(spec << " at " << scale);
      require_same(encoder.payload(), out);
      REQUIRE(encoder.selection().threshold == state.threshold);
    }
    // A vector that is refused leaves it.
    encoder.set_vector(Vector(n, std::numeric_limits<float>::infinity()));
    encoder.start_selecting();
    REQUIRE_THROWS_AS(encoder.payload(), EncodeError);
    REQUIRE(encoder.selection().threshold == state.threshold);
  }
}

TEST_CASE("any order of threads and blocks gives the same bytes") {
  if (!device_is_there()) return;
  const std::size_t n = 20011;
  const Vector v = sparse(n, 0.3, 4);
  Drawn drawn(kDrawn);
  for (const std::string& spec : device_specs()) {
    if (!drawn()) continue;
    const auto device = cuda::make_device_codec(spec);
    const Bytes expected = encode(*make_codec(spec), v, kKey);
    DeviceEncoder encoder(*device, n);
    encoder.set_key(kKey);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      INFO(spec << ", order " << seed);
      order_device(seed);
      require_same(encoder.encode(v), expected);
    }
  }
}

TEST_CASE("a captured graph encodes what stands in memory when it runs") {
  if (!device_is_there()) return;
  const std::size_t n = 5000;
  Drawn drawn(kDrawn);
  for (const std::string& spec : device_specs()) {
    if (!drawn()) continue;
    const auto device = cuda::make_device_codec(spec);
    DeviceEncoder encoder(*device, n);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    encoder.start(stream);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    for (std::uint64_t round = 0; round < 3; ++round) {
      const Vector v = laplacian(n, round);
      const RandomKey key = {.seed = 5, .round = round};
      encoder.set_vector(v);
      encoder.set_key(key);
      REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      INFO(spec << ", round " << round);
      require_same(encoder.payload(), encode(*make_codec(spec), v, key));
    }
    REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  }
}
