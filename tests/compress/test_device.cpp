// Device codecs against the CPU's: bytes, decoded values and residuals to the bit. Runs on a device, and on
// the emulated one.
#include <limits>

#include "device_memory.h"
#include "device_order.h"
#include "gossamer/compress/feedback.h"
#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

constexpr RandomKey kKey = {.seed = 0x1234567890abcdefu, .peer = 3, .layer = 7, .round = 11};

bool device_is_there() {
  std::string why;
  if (cuda::available(why)) return true;
  WARN("skipped: " << why);
  return false;
}

std::vector<std::string> dense_specs() {
  return {"dense",
          "fp16",
          "bf16",
          "sign_vote",
          "onebit",
          "onebit:bucket=32",
          "onebit:bucket=96",
          "onebit:bucket=8192",
          "onebit:bucket=16384",
          "onebit_two",
          "onebit_two:bucket=32",
          "onebit_two:bucket=8192",
          "onebit_scaled",
          "onebit_scaled:lambda=auto",
          "onebit_scaled:lambda=0.5,bound=0.95",
          "onebit_scaled:bound=0.3",
          "onebit_scaled:bucket=32",
          "onebit_scaled:bucket=96",
          "onebit_scaled:bucket=8192"};
}

std::vector<std::string> level_specs() {
  return {"qsgd",
          "qsgd:bits=2,bucket=128",
          "qsgd:bits=8",
          "qsgd:bits=4,norm=l2",
          "qsgd:bits=8,norm=l2,bucket=160",
          "qsgd:bits=2,bucket=8192",
          "intq",
          "intq:bits=4,bucket=160",
          "intq:bits=2,rounding=stochastic,bucket=32",
          "intq:rounding=stochastic",
          "qsgd:coding=elias",
          "qsgd:bits=8,coding=elias_dense,norm=l2",
          "qsgd:bits=8,coding=rice,bucket=160",
          "qsgd:coding=rans",
          "qsgd:coding=auto",
          "qsgd:bits=2,norm=l2,coding=auto",
          "intq:coding=auto",
          "intq:bits=4,coding=rans,bucket=96",
          "intq:bits=2,coding=elias,rounding=stochastic",
          "intq:coding=elias_dense",
          "terngrad:coding=elias",
          "terngrad:coding=rans,clip=none",
          "terngrad:coding=auto",
          "terngrad",
          "terngrad:clip=none",
          "terngrad:clip=1"};
}

std::vector<std::string> topk_specs() {
  return {"topk:coding=rice",
          "topk:coding=rice,density=0.3",
          "topk:coding=rice,density=1",
          "topk",
          "topk:density=0.2,values=int8",
          "topk:values=fp16,coding=fixed",
          "topk:density=1,values=fp16",
          "topk:values=int8,coding=packed,density=0.1",
          "topk:values=sign,coding=elias,density=0.1",
          "topk:values=sign,density=1,coding=bitmap",
          "topk:values=two_bit,density=0.3",
          "topk:values=two_bit,coding=runs",
          "topk:coding=elias,density=0.001"};
}

std::vector<std::string> selection_specs() {
  return {"topk:coding=rice,density=0.001,select=trimmed",
          "topk:select=sampled",
          "topk:select=sampled,density=0.2",
          "topk:select=bisect",
          "topk:select=bisect,density=0.001,values=int8",
          "topk:select=ldte_bs,density=0.001",
          "topk:select=ldte_bs,density=0.05",
          "topk:select=ldte_bs,density=0.6",
          "topk:select=reuse,values=sign",
          "topk:select=reuse,density=0.1"};
}

std::vector<std::string> other_sparse_specs() {
  return {"threshold:tau=1",
          "threshold:tau=2,coding=elias",
          "threshold:tau=1,coding=bitmap",
          "threshold:tau=0.5,coding=runs",
          "threshold:tau=3,coding=packed",
          "threshold:tau=1,coding=fixed",
          "threshold:coding=rice,tau=1",
          "threshold:coding=rice,tau=1e-30",
          "randk",
          "randk:density=0.3",
          "randk:density=0.1,scale=1",
          "randk:density=1"};
}

std::vector<std::string> device_specs() {
  std::vector<std::string> all = dense_specs();
  for (const auto& more : {level_specs(), topk_specs(), selection_specs(), other_sparse_specs()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

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
  for (const std::string& spec : specs) {
    const auto host = make_codec(spec);
    const auto device = cuda::make_device_codec(spec);
    REQUIRE(device->spec() == host->spec());
    for (const std::size_t n :
         {0u, 1u, 2u, 31u, 32u, 33u, 511u, 512u, 513u, 600u, 4095u, 4096u, 4097u, 100003u}) {
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
  for (const std::string& spec : device_specs()) {
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
  for (const std::string& spec : device_specs()) {
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

TEST_CASE("the device names the first entry that is not finite") {
  if (!device_is_there()) return;
  for (const std::string& spec : device_specs()) {
    const auto device = cuda::make_device_codec(spec);
    for (const std::size_t n : {33u, 5000u}) {
      DeviceEncoder encoder(*device, n);
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        Vector v = gaussian(n, 1);
        v[n - 1] = v[n / 2] = v[n / 2 + 1] = bad;
        INFO(spec << ", " << n << " entries");
        REQUIRE_THROWS_AS(encoder.encode(v), EncodeError);
        REQUIRE(encoder.result().first_bad == n / 2);
        REQUIRE(encoder.encode(gaussian(n, 2)) == encode(*make_codec(spec), gaussian(n, 2)));
      }
    }
  }
}

TEST_CASE("the device refuses every payload that the CPU refuses") {
  if (!device_is_there()) return;
  std::mt19937_64 random(9);
  for (const std::string& spec : device_specs()) {
    const auto device = cuda::make_device_codec(spec);
    for (const std::size_t n : {1u, 37u, 600u}) {
      const Bytes good = encode(*make_codec(spec), sparse(n, 0.4, n), kKey);
      for (int i = 0; i < 150; ++i) {
        Bytes bytes = good;
        if (i % 3 == 0) bytes.resize(random() % (good.size() + 3));
        const std::size_t changes = i % 3 == 0 ? 0 : 1 + random() % 2;
        for (std::size_t c = 0; c < changes; ++c)
          bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 4 == 0 ? 0xff : random());
        Vector host(n, 0.0f), acc(n, 0.0f);
        bool refused = false;
        try {
          decode_add(bytes, 1.0f, host);
        } catch (const PayloadError&) {
          refused = true;
        }
        INFO(spec << ", " << n << " entries, try " << i);
        bool refused_too = false;
        try {
          decode_add_on_device(*device, bytes, 1.0f, acc);
        } catch (const PayloadError&) {
          refused_too = true;
        }
        if (refused) REQUIRE(refused_too);
        if (!refused_too) REQUIRE(same_bits(acc, host));
      }
    }
  }
}

TEST_CASE("a captured graph encodes what stands in memory when it runs") {
  if (!device_is_there()) return;
  const std::size_t n = 5000;
  for (const std::string& spec : device_specs()) {
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

TEST_CASE("what runs on the host only is refused by name") {
  if (!device_is_there()) return;
  for (const char* spec :
       {"qsgd:random=hash", "terngrad:random=hash", "intq:rounding=stochastic,random=hash"}) {
    INFO(spec);
    REQUIRE_THROWS_WITH(cuda::make_device_codec(spec),
                        ContainsSubstring("runs on the host only; a device takes"));
  }
  REQUIRE_THROWS_AS(cuda::make_device_codec("qsgd:bits=5"), CodecError);
}
