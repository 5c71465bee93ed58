#pragma once
// What the device codecs are tested with.
#include <string>
#include <vector>

#include "gossamer/compress/kernels.h"
#include "gossamer_test/catch.h"
#include "gossamer_test/drawn.h"

namespace gossamer::compress::test {

inline constexpr RandomKey kKey = {.seed = 0x1234567890abcdefu, .peer = 3, .layer = 7, .round = 11};

using gossamer::test::Drawn;
/// One row in so many where long tables are drawn: an emulated device is slow.
constexpr unsigned kDrawn = 8;

inline bool device_is_there() {
  std::string why;
  if (cuda::available(why)) return true;
  WARN("skipped: " << why);
  return false;
}

inline std::vector<std::string> dense_specs() {
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
          "onebit_scaled:bucket=8192",
          "onebit_scaled:lambda=0.8,bound_abs=10",
          "onebit_scaled:bound_abs=1e-30,bucket=96",
          "onebit_scaled:lambda=auto,bound_abs=2,bucket=8192"};
}

inline std::vector<std::string> level_specs() {
  return {"qsgd",
          "qsgd:bits=2,bucket=128",
          "qsgd:bits=8",
          "qsgd:bits=4,norm=l2",
          "qsgd:bits=8,norm=l2,bucket=160",
          "qsgd:bits=2,bucket=8192",
          "qsgd:levels=2",
          "qsgd:levels=3,bucket=160",
          "qsgd:levels=16,norm=l2,bucket=8192",
          "qsgd:levels=40,bucket=96",
          "qsgd:levels=sqrt,norm=l2,bucket=8192",
          "intq",
          "intq:bits=4,bucket=160",
          "intq:bits=2,rounding=stochastic,bucket=32",
          "intq:rounding=stochastic",
          "terngrad",
          "terngrad:clip=none",
          "terngrad:clip=1"};
}

inline std::vector<std::string> topk_specs() {
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

inline std::vector<std::string> selection_specs() {
  return {"topk:coding=rice,density=0.001,select=trimmed",
          "topk:select=sampled",
          "topk:select=sampled,density=0.2",
          "topk:select=bisect",
          "topk:select=bisect,density=0.001,values=int8",
          "topk:select=ldte_bs,density=0.001",
          "topk:select=ldte_bs,density=0.05",
          "topk:select=ldte_bs,density=0.6",
          "topk:select=reuse,values=sign",
          "topk:select=reuse,density=0.1",
          "topk:select=radix"};
}

inline std::vector<std::string> other_sparse_specs() {
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

inline std::vector<std::string> device_specs() {
  std::vector<std::string> all = dense_specs();
  for (const auto& more : {level_specs(), topk_specs(), selection_specs(), other_sparse_specs()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace gossamer::compress::test
