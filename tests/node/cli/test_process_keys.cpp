// gossamer keys: from a new key to an admitted and to a revoked one, and what is refused on the way.
#include <filesystem>

#include "gossamer_test/catch.h"
#include "process.h"

namespace gossamer::test {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST_CASE("keys are made, shown, signed and revoked") {
  const Folder folder;
  const auto made = gossamer(folder, {"keys", "new", "ada"});
  REQUIRE(made.status == 0);
  const std::string key = first_line(made.out);
  CHECK(key.size() == 64);
  CHECK(says(made.err, "ada.key"));
  const std::string file = read_text(folder.path("ada.key"));
  const std::size_t at = file.find("secret = \"");
  REQUIRE(at != std::string::npos);
  const std::string secret = file.substr(at + 10, 64);
  const std::string authority =
      first_line(gossamer(folder, {"keys", "new", "lab", "--authority", "--out", "lab.key"}).out);

  const auto shown = gossamer(folder, {"keys", "show", "ada.key", "lab.key"});
  CHECK(shown.status == 0);
  CHECK(shown.out == key + "  peer ada\n" + authority + "  authority lab\n");

  const auto printed = gossamer(folder, {"keys", "sign", "lab.key", key, "--name", "ada"});
  CHECK(printed.out.starts_with("gossamer-certificate:"));
  CHECK(gossamer(folder,
                 {"keys", "sign", "lab.key", "ada.key", "--name", "ada", "--days", "30", "--out", "ada.cert"})
            .status == 0);
  const auto certificate = gossamer(folder, {"keys", "show", "ada.cert", "--json"});
  CHECK(says(certificate.out, "\"expired\": false"));
  CHECK(says(certificate.out, key));

  CHECK(says(gossamer(folder, {"keys", "revoke", "revoked", key, "--why", "laptop lost"}).err, "is revoked"));
  CHECK(says(gossamer(folder, {"keys", "revoke", "revoked", "ada.key"}).err, "was revoked before"));
  CHECK(says(read_text(folder.path("revoked")), "laptop lost"));

  for (const auto& entry : std::filesystem::directory_iterator(folder.path(""))) {
    if (entry.path().filename() == "ada.key") continue;
    CHECK(read_text(entry.path().string()).find(secret) == std::string::npos);
  }
  for (const auto& ended : {made, shown, printed, certificate})
    CHECK((ended.out + ended.err).find(secret) == std::string::npos);
}

TEST_CASE("wrong keys, names and files are refused with status 2") {
  const Folder folder;
  REQUIRE(gossamer(folder, {"keys", "new", "ada"}).status == 0);
  REQUIRE(gossamer(folder, {"keys", "new", "lab", "--authority"}).status == 0);
  folder.write("wrong", "what?\n");
  std::filesystem::copy_file(folder.path("ada.key"), folder.path("open.key"));
  std::filesystem::permissions(folder.path("open.key"), std::filesystem::perms(0644));
  struct Case {
    std::vector<std::string> words;
    std::string says;
  };
  const std::vector<Case> cases{
      {{"keys", "new", "ada"}, "ada.key: is there already"},
      {{"keys", "new", "a b"}, "found \"a b\"; expected a name"},
      {{"keys", "show", "none.key"}, "none.key: No such file"},
      {{"keys", "show", "open.key"}, "open.key: others may use it (mode 0644)"},
      {{"keys", "sign", "ada.key", "ada.key", "--name", "ada"},
       "ada.key: a peer's key; expected an authority's"},
      {{"keys", "sign", "lab.key", "12", "--name", "ada"}, "found \"12\"; expected a public key"},
      {{"keys", "sign", "lab.key", "ada.key"}, "--name is required"},
      {{"keys", "sign", "lab.key", "ada.key", "--name", "ada", "--days", "-1"}, "--days"},
      {{"keys", "revoke", "wrong", "ada.key"}, "wrong:1: found \"what?\""},
      {{"keys", "revoke", "revoked", "ada.key", "--why", "a\nb"}, "--why: expected one line"},
      {{"keys"}, "subcommand"},
  };
  for (const Case& c : cases) {
    const auto ended = gossamer(folder, c.words);
    INFO(c.words.back());
    CHECK(ended.status == 2);
    CHECK(says(ended.err, c.says));
    CHECK(ended.out.empty());
  }
}

}  // namespace
}  // namespace gossamer::test
