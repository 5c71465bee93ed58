// What a peer that joins takes of the job that a member tells it of.
#include "gossamer/node/job.h"
#include "gossamer_test/catch.h"
#include "joining.h"

using namespace gossamer::node;

namespace {

/// A member that says more than peers must agree on.
Terms told(const std::string& data, const std::string& more) {
  Terms terms;
  terms.body.from = "peer0";
  terms.body.job_text =
      "peers = 2\n[graph]\nkind = \"ring\"\n[model]\nkind = \"lr\"\n[exchange]\nmethod = \"none\"\n"
      "[optimizer]\nbatch = 32\n[run]\nrounds = 10\n" +
      more + "[data]\nformat = \"libsvm\"\n" + data;
  return terms;
}

}  // namespace

TEST_CASE("a member's word names no command that a peer which joins would run") {
  const std::string command = "command = \"echo 1 1:1\"\n";
  CHECK_THROWS_WITH(job_of_run(told(command, ""), {}),
                    ContainsSubstring("data.path"));  // it needs data of its own
  const std::vector<std::string> own{"data.command=cat mine.svm"};
  CHECK(job_of_run(told(command, ""), own).sparse.samples.command == "cat mine.svm");
}

TEST_CASE("the job that a peer was told leaves batches to optimizer.batch where they are the same") {
  const std::vector<std::string> own{"data.path=mine.svm"};
  const std::string peers =
      "[[peer]]\nname = \"a\"\naddress = \"tcp://h:1\"\nbatch = 32\n[[peer]]\nname = \"b\"\naddress = "
      "\"tcp://h:2\"\nbatch = 5\n";
  Terms terms = told("", peers);
  terms.body.job_text.erase(0, terms.body.job_text.find('[', 0));
  const std::string text = to_toml(job_of_run(terms, own));
  CHECK(text.find("batch = 0") != std::string::npos);
  CHECK(text.find("batch = 5") != std::string::npos);
}

TEST_CASE("what each peer sets for itself is its own when it joins, and the rest is the member's") {
  const std::vector<std::string> own{"data.path=mine.svm"};
  const Job job = job_of_run(told("", "threads = 7\n"), own);
  CHECK(job.run.threads == 0);
  CHECK(job.batch == 32);
}
