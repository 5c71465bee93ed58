// Every device codec against the CPU's, then its speed beside what the device's memory allows. Needs nothing
// but a compiler and the CUDA toolkit:
//   cmake -S . -B build/gpu -DGOSSAMER_COMPONENTS=compress && cmake --build build/gpu --target check_device
//   build/gpu/check_device [entries [runs [codec ...]]]
// Ends with 0 where all agree, 1 where something differs, 2 where there is no device, 3 where it fails.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "device_memory.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

constexpr RandomKey kKey = {.seed = 1, .peer = 2, .layer = 3, .round = 4};

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

/// A stream, and how often what is timed runs on it.
class Stream {
 public:
  explicit Stream(int runs) : runs_(runs) { require(cudaStreamCreate(&stream_)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  int runs() const { return runs_; }

 private:
  int runs_;
  cudaStream_t stream_ = nullptr;
};

const std::vector<std::string> kCodecs = {"dense",
                                          "fp16",
                                          "bf16",
                                          "sign_vote",
                                          "onebit",
                                          "onebit_two",
                                          "onebit_scaled",
                                          "qsgd:bits=2",
                                          "qsgd:bits=4",
                                          "qsgd:bits=8",
                                          "qsgd:bits=4,norm=l2",
                                          "qsgd:levels=16,norm=l2",
                                          "intq:bits=4",
                                          "intq:bits=8,rounding=stochastic",
                                          "terngrad",
                                          "topk:density=0.001,coding=rice",
                                          "topk:density=0.01,coding=rice",
                                          "topk:density=0.01",
                                          "topk:density=0.01,coding=elias",
                                          "topk:density=0.01,coding=bitmap",
                                          "topk:density=0.01,values=fp16",
                                          "topk:density=0.01,values=int8",
                                          "topk:density=0.01,values=sign",
                                          "topk:density=0.01,values=two_bit",
                                          "topk:density=0.01,select=sampled",
                                          "topk:density=0.01,select=bisect",
                                          "topk:density=0.01,select=ldte_bs",
                                          "topk:density=0.01,select=reuse",
                                          "threshold:tau=7,coding=rice",
                                          "randk:density=0.01"};

/// Median seconds of what start puts on the stream, run as a graph.
template <class Start>
double seconds_of(const Stream& stream, const Start& start) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t before, after;
  require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  start(stream.get());
  require(cudaStreamEndCapture(stream.get(), &graph));
  require(cudaGraphInstantiate(&executable, graph, 0));
  require(cudaEventCreate(&before));
  require(cudaEventCreate(&after));
  std::vector<double> seconds;
  for (int run = 0; run < stream.runs() + 2; ++run) {
    require(cudaEventRecord(before, stream.get()));
    require(cudaGraphLaunch(executable, stream.get()));
    require(cudaEventRecord(after, stream.get()));
    require(cudaEventSynchronize(after));
    float ms = 0;
    require(cudaEventElapsedTime(&ms, before, after));
    if (run >= 2) seconds.push_back(static_cast<double>(ms) * 1e-3);  // the first ones warm up
  }
  require(cudaEventDestroy(before));
  require(cudaEventDestroy(after));
  require(cudaGraphExecDestroy(executable));
  require(cudaGraphDestroy(graph));
  const auto median = seconds.begin() + stream.runs() / 2;
  std::nth_element(seconds.begin(), median, seconds.end());
  return *median;
}

/// Bytes per second that copying reads and writes.
double copy_bandwidth(const Stream& stream, std::size_t entries) {
  const OnDevice<float> from(entries), to(entries);
  const std::size_t bytes = entries * sizeof(float);
  const double seconds = seconds_of(stream, [&](cudaStream_t s) {
    require(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, s));
  });
  return 2 * static_cast<double>(bytes) / seconds;
}

/// Whether bytes, residual and decoded sum are the CPU's.
bool agrees(const Codec& host, const cuda::DeviceCodec& device, DeviceEncoder& encoder, const Vector& v) {
  Workspace workspace;
  FeedbackState state;
  const Bytes expected = encode(host, v, kKey);
  if (encoder.encode(v) != expected) return false;
  Vector acc(v.size(), 0.25f), acc_host = acc;
  decode_add(expected, 0.5f, acc_host);
  decode_add_on_device(device, expected, 0.5f, acc);
  if (!same_bits(acc, acc_host)) return false;
  if (!host.traits().feedback()) return true;
  Bytes out(host.max_bytes(v.size()));
  out.resize(host.encode_feedback(v, state, kKey, workspace, out));
  state.materialise();
  encoder.set_residual(Vector(v.size(), -0.0f));
  encoder.start_feedback();
  return encoder.payload() == out &&
         same_bits(encoder.next_residual(), Vector(state.residual.begin(), state.residual.end()));
}

struct Speed {
  double seconds, bytes_per_entry;
};

/// GB/s of fp32 entries, and how much of the copy bandwidth the bytes touched make.
void print(Speed speed, std::size_t n, double bandwidth) {
  const double entries = static_cast<double>(n) / speed.seconds;
  std::printf(" %8.0f %4.0f %%", entries * 4e-9, 100 * entries * speed.bytes_per_entry / bandwidth);
}

bool check(const std::string& spec, std::size_t n, const Stream& stream, double bandwidth) {
  const auto host = make_codec(spec);
  const auto device = cuda::make_device_codec(spec);
  DeviceEncoder encoder(*device, n);
  encoder.set_key(kKey);
  const Vector v = laplacian(n, 1);
  const bool right = agrees(*host, *device, encoder, v);
  const Bytes payload = encode(*host, v, kKey);
  const double payload_bytes = static_cast<double>(payload.size()) / static_cast<double>(n);
  const OnDevice<std::byte> payload_dev(payload), workspace(device->workspace_bytes(n));
  const OnDevice<float> acc(v);
  const OnDevice<cuda::DeviceResult> result(1);
  const auto add = [&](cudaStream_t s) {
    device->decode_add(payload_dev.data(), payload.size(), 0.0f, acc.data(), n, workspace.data(),
                       result.data(), s);
  };
  std::printf("%-44s %-7s", spec.c_str(), right ? "same" : "DIFFERS");
  print({seconds_of(stream, [&](cudaStream_t s) { encoder.start(s); }), 4 + payload_bytes}, n, bandwidth);
  if (host->traits().feedback())
    print({seconds_of(stream, [&](cudaStream_t s) { encoder.start_feedback(s); }), 12 + payload_bytes}, n,
          bandwidth);
  else
    std::printf(" %8s %6s", "-", "");
  const double touched =
      payload_bytes < 1 && spec.find("density") != std::string::npos ? 3 * payload_bytes : 8 + payload_bytes;
  print({seconds_of(stream, add), touched}, n, bandwidth);
  std::printf("\n");
  std::fflush(stdout);
  return right;
}

int run(std::size_t n, int runs, const std::vector<std::string>& codecs) {
  std::string why;
  if (!cuda::available(why)) {
    std::fprintf(stderr, "check_device: %s\n", why.c_str());
    return 2;
  }
  const Stream stream(runs);
  const double bandwidth = copy_bandwidth(stream, n);
  std::printf("%zu entries; copying reads and writes %.0f GB/s\n", n, bandwidth * 1e-9);
  std::printf("GB/s of fp32 entries, and the bytes touched in %% of copying\n%-44s %-7s %15s %15s %15s\n",
              "codec", "bytes", "encode", "with feedback", "decode-add");
  bool right = true;
  for (const std::string& spec : codecs) {
    right = check(spec, n, stream, bandwidth) && right;
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size_t{1} << 24,
               argc > 2 ? std::max(1, std::atoi(argv[2])) : 11,
               argc > 3 ? std::vector<std::string>(argv + 3, argv + argc) : kCodecs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "check_device: %s\n", error.what());
    return 3;
  }
}
