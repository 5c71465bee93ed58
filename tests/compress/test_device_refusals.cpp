// What the device codecs refuse, on a device and on the emulated one.
#include <limits>

#include "device_memory.h"
#include "device_specs.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

TEST_CASE("the device names the first entry that is not finite") {
  if (!device_is_there()) return;
  Drawn drawn(kDrawn);
  for (const std::string& spec : device_specs()) {
    if (!drawn()) continue;
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
  Drawn drawn(kDrawn);
  for (const std::string& spec : device_specs()) {
    if (!drawn()) continue;
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

TEST_CASE("the device refuses single entries of 2^32 and more") {
  if (!device_is_there()) return;
  for (const char* spec : {"topk:density=1", "threshold:tau=1", "randk:density=1"}) {
    const auto device = cuda::make_device_codec(spec);
    const Bytes payload = claiming_2_to_32(*make_codec(spec));
    const OnDevice<std::byte> payload_dev(payload);
    const OnDevice<float> acc(1);  // neither this nor a workspace is touched
    const OnDevice<cuda::DeviceResult> result(1);
    const std::size_t n = std::size_t{1} << 32;
    device->decode_add(payload_dev.data(), payload.size(), 1, acc.data(), n, nullptr, result.data(), nullptr);
    INFO(spec);
    REQUIRE_THROWS_AS(cuda::require_success(result.get()[0], n), PayloadError);
  }
}

TEST_CASE("what runs on the host only is refused by name") {
  if (!device_is_there()) return;
  for (const char* spec : {"qsgd:random=hash", "terngrad:random=hash", "intq:rounding=stochastic,random=hash",
                           "qsgd:coding=rans", "intq:coding=elias", "terngrad:coding=auto"}) {
    INFO(spec);
    REQUIRE_THROWS_WITH(cuda::make_device_codec(spec),
                        ContainsSubstring("runs on the host only; a device takes"));
  }
  for (const char* spec : {"qsgd:levels=128", "qsgd:levels=65535", "qsgd:levels=sqrt,bucket=16160"}) {
    INFO(spec);
    REQUIRE_THROWS_WITH(cuda::make_device_codec(spec),
                        ContainsSubstring("runs on the host only; a device takes levels=1 to 127"));
  }
  REQUIRE_NOTHROW(cuda::make_device_codec("qsgd:levels=sqrt,bucket=16128"));
  REQUIRE_THROWS_AS(cuda::make_device_codec("qsgd:bits=5"), CodecError);
}
