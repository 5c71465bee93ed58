#include "gossamer_test/catch.h"
#include "vectors.h"

using namespace gossamer::compress;
using namespace gossamer::compress::test;

namespace {

std::string refusal(const std::string& spec) {
  try {
    (void)make_codec(spec);
  } catch (const CodecError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a canonical spec reads back as itself") {
  for (const auto& spec : all_specs()) {
    const auto codec = make_codec(spec);
    INFO(spec << " is " << codec->spec());
    REQUIRE(make_codec(codec->spec())->spec() == codec->spec());
    REQUIRE(codec->spec().substr(0, codec->spec().find(':')) == codec->name());
    const Vector v = gaussian(2000, 3);
    REQUIRE(encode(*codec, v) == encode(*make_codec(codec->spec()), v));
  }
  REQUIRE(make_codec("qsgd")->spec() == "qsgd:bits=4,bucket=512,norm=max,coding=packed");
  REQUIRE(make_codec("qsgd:levels=7")->spec() == make_codec("qsgd")->spec());
  REQUIRE(make_codec("qsgd:levels=1")->spec() == make_codec("qsgd:bits=2")->spec());
  REQUIRE(make_codec("qsgd:levels=127")->spec() == make_codec("qsgd:bits=8")->spec());
  REQUIRE(make_codec("qsgd:levels=16,norm=l2")->spec() == "qsgd:levels=16,bucket=512,norm=l2,coding=packed");
  REQUIRE(make_codec("qsgd:levels=sqrt")->spec() == "qsgd:levels=sqrt,bucket=512,norm=max,coding=packed");
  REQUIRE(make_codec("onebit_scaled")->spec() == "onebit_scaled:lambda=1,bound=0.9,bucket=512");
  REQUIRE(make_codec("onebit_scaled:lambda=auto")->spec() ==
          "onebit_scaled:lambda=auto,bound=0.9,bucket=512");
  REQUIRE(make_codec("topk")->spec() == "topk:density=0.01,values=fp32,select=exact,coding=auto");
  REQUIRE(make_codec("terngrad")->spec() == "terngrad:clip=2.5,coding=packed");
  REQUIRE(make_codec("terngrad:clip=none")->spec() == "terngrad:clip=none,coding=packed");
  REQUIRE(make_codec("intq")->spec() == "intq:bits=8,bucket=512,rounding=nearest,coding=packed");
  for (const char* spec : {"qsgd:bits=4,bucket=512,norm=max,coding=packed,random=hash",
                           "terngrad:clip=2.5,coding=packed,random=hash",
                           "intq:bits=8,bucket=512,rounding=stochastic,coding=packed,random=hash"})
    REQUIRE(make_codec(spec)->spec() == spec);
  REQUIRE(make_codec("qsgd:random=philox")->spec() == make_codec("qsgd")->spec());
  REQUIRE(has(refusal("intq:random=hash"), "random"));
  REQUIRE(make_codec("randk")->spec() == "randk:density=0.01,scale=0");
  REQUIRE(make_codec("dense")->spec() == "dense");
}

TEST_CASE("the table shows each codec once with a line of help") {
  std::vector<std::string> names;
  for (const CodecRow& row : codec_table()) {
    REQUIRE(std::find(names.begin(), names.end(), row.name) == names.end());
    names.emplace_back(row.name);
    REQUIRE(std::string(row.help).size() > 10);
    REQUIRE(make_codec(row.name)->name() == row.name);
  }
}

TEST_CASE("a spec that cannot be used is refused with the wrong word and the right ones") {
  const auto offers = [](const char* spec, const std::string& found, const std::string& name) {
    try {
      make_codec(spec);
    } catch (const CodecError& error) {
      return error.found == found &&
             std::find(error.names.begin(), error.names.end(), name) != error.names.end();
    }
    return false;
  };
  REQUIRE(offers("onbit", "onbit", "onebit"));
  REQUIRE(offers("tokp:density=1", "tokp", "topk"));
  REQUIRE(has(refusal(""), "there are dense, fp16"));
  REQUIRE(offers("qsgd:bit=4", "bit", "bits"));
  REQUIRE(offers("onebit_scaled:lamda=1", "lamda", "lambda"));
  REQUIRE(has(refusal("dense:bits=3"), "takes none"));
}

TEST_CASE("a bad value is shown with what was expected") {
  REQUIRE(has(refusal("qsgd:bits=5"), "bits is \"5\", expected 2, 4 or 8"));
  REQUIRE(has(refusal("qsgd:bits=4x"), "expected 2, 4 or 8"));
  REQUIRE(has(refusal("qsgd:norm=l1"), "expected max or l2"));
  REQUIRE(has(refusal("qsgd:bits=5"), "levels=1 to 65535"));
  REQUIRE(has(refusal("qsgd:bits=4,levels=16"), "give one"));
  for (const char* spec : {"qsgd:levels=128,coding=rice", "qsgd:levels=65535,coding=rans",
                           "qsgd:levels=sqrt,bucket=16160,coding=rans"})
    REQUIRE(has(refusal(spec), "more than 127 levels a side"));
  for (const char* levels : {"0", "65536", "-1", "1.5", "root", "99999999999999999999"})
    REQUIRE(has(refusal(std::string("qsgd:levels=") + levels), "from 1 to 65535, or sqrt"));
  for (const char* spec : {"onebit:bucket=0",
                           "onebit:bucket=-32",
                           "onebit:bucket=100",
                           "onebit:bucket=1048608",
                           "onebit:bucket=99999999999999999999",
                           "onebit_scaled:lambda=0",
                           "onebit_scaled:lambda=1.01",
                           "onebit_scaled:lambda=nan",
                           "onebit_scaled:bound=1",
                           "onebit_scaled:bound=0",
                           "onebit_scaled:bound=-inf",
                           "topk:density=0",
                           "topk:density=1.5",
                           "topk:values=fp8",
                           "topk:select=best",
                           "topk:density=",
                           "topk:density",
                           "topk:=1",
                           "topk:,",
                           "onebit_two:bucket=1",
                           "terngrad:clip=0",
                           "terngrad:clip=-1",
                           "terngrad:clip=inf",
                           "intq:bits=3",
                           "intq:rounding=up",
                           "randk:density=0",
                           "randk:density=1.01",
                           "randk:scale=2",
                           "threshold:tau=0",
                           "threshold:tau=inf",
                           "threshold:tau=1e39",
                           "qsgd:bits=4,bits=4",
                           "qsgd:bits=4,,norm=max",
                           "qsgd bits=4",
                           "qsgd:bits= 4"}) {
    INFO(spec);
    REQUIRE(refusal(spec) != "");
  }
}
