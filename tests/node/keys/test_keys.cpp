// Keys and certificates: who may speak, under what name, and what of their files is refused.
#include <sodium.h>
#include <sys/stat.h>
#include <cstring>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "admission.h"
#include "certificate.h"
#include "config_files.h"
#include "gossamer/node/errors.h"
#include "gossamer_test/catch.h"
#include "key_file.h"

using namespace gossamer;
using namespace gossamer::node;
using gossamer::test::Folder;
using gossamer::test::says;

namespace {

constexpr std::int64_t kNow = 1'800'000'000;

template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

std::string text_in(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string secret_text(const KeyPair& pair) {
  std::string text(65, '\0');
  sodium_bin2hex(text.data(), text.size(), pair.secret.bytes().data(), pair.secret.bytes().size());
  text.pop_back();
  return text;
}

TEST_CASE("a key file reads back, is its owner's alone, and is never written over") {
  const Folder folder;
  for (const KeyKind kind : {KeyKind::peer, KeyKind::authority}) {
    const KeyPair pair = make_key_pair(kind, "ada");
    const std::string path = folder.path(std::string(name_of(kind)) + ".key");
    write_key_file(path, pair);
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    const KeyPair back = read_key_file(path);
    CHECK(back.kind == kind);
    CHECK(back.name == "ada");
    CHECK(back.public_key == pair.public_key);
    CHECK(secret_text(back) == secret_text(pair));
    const std::string before = text_in(path);
    CHECK(says(refusal([&] { write_key_file(path, make_key_pair(kind, "eve")); }), "is there already"));
    CHECK(text_in(path) == before);
  }
}

TEST_CASE("key files that are refused, never with a part of the secret") {
  const Folder folder;
  const KeyPair pair = make_key_pair(KeyKind::peer, "ada");
  const std::string path = folder.path("ada.key");
  write_key_file(path, pair);
  const std::string good = text_in(path), secret = secret_text(pair);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    folder.write("wrong.key", text);
    std::filesystem::permissions(folder.path("wrong.key"), std::filesystem::perms(0600));
    const std::string said = refusal([&] { read_key_file(folder.path("wrong.key")); });
    CHECK(said.find(secret.substr(0, 8)) == std::string::npos);
    return said;
  };
  CHECK(says(with("kind = \"peer\"", "kind = \"king\""),
             "the kind is another than \"peer\" and \"authority\""));
  CHECK(says(with("name = \"ada\"\n", ""), "there is no 'name'"));
  CHECK(says(with("name = \"ada\"", "name = \"ada\"\nname = \"eve\""), "wrong.key:4: no line of a key file"));
  CHECK(says(with("secret = \"", "secret = \"0"), "the secret is not 64 hexadecimal digits"));
  CHECK(says(with(secret, secret.substr(0, 63) + "x"), "the secret is not 64 hexadecimal digits"));
  CHECK(says(with("secret = \"" + secret, "secret " + secret), "wrong.key:5: no line of a key file"));
  CHECK(says(with(text_of(pair.public_key), text_of(make_key_pair(KeyKind::peer, "x").public_key)),
             "the public key is not that of the secret one, which is " + text_of(pair.public_key)));
  CHECK(
      says(with("kind = \"peer\"", "kind = \"authority\""), "the public key is not that of the secret one"));
  CHECK(says(with("# A", std::string(5000, '#')), "longer than any key file"));

  for (const unsigned mode : {0640u, 0604u, 0620u, 0644u}) {
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    CHECK(says(refusal([&] { read_key_file(path); }), "expected 0600: chmod 600 "));
  }
  CHECK(says(refusal([&] { read_key_file(folder.path("none.key")); }), "gossamer keys new NAME"));
  CHECK(says(refusal([&] { read_key_file("/dev/null"); }), "not a regular file"));
  CHECK(says(refusal([&] { read_key_file(folder.path("")); }), "not a regular file"));
  CHECK(says(refusal([&] { write_key_file(folder.path("no/where.key"), pair); }), "No such file"));
}

TEST_CASE("a peer's public key is what libsodium's key exchange makes of the secret") {
  const KeyPair a = make_key_pair(KeyKind::peer, "a"), b = make_key_pair(KeyKind::peer, "b");
  std::array<unsigned char, 32> ab{}, ba{};
  REQUIRE(crypto_scalarmult(ab.data(), a.secret.bytes().data(), b.public_key.bytes.data()) == 0);
  REQUIRE(crypto_scalarmult(ba.data(), b.secret.bytes().data(), a.public_key.bytes.data()) == 0);
  CHECK(ab == ba);
}

TEST_CASE("public keys are 64 hexadecimal digits") {
  const PublicKey key = make_key_pair(KeyKind::peer, "a").public_key;
  const std::string text = text_of(key);
  CHECK(text.size() == 64);
  CHECK(public_key_of(text) == key);
  std::string large = text;
  for (char& c : large) c = static_cast<char>(std::toupper(c));
  CHECK(public_key_of(large) == key);
  for (const std::string& wrong : {std::string(), text.substr(1), text + "0", text.substr(0, 63) + "g",
                                   text.substr(0, 63) + " ", std::string(64, ':')})
    CHECK_FALSE(public_key_of(wrong));
}

TEST_CASE("a certificate reads back as bytes, text and file, and holds for its authority alone") {
  const Folder folder;
  const KeyPair authority = make_key_pair(KeyKind::authority, "lab"),
                other = make_key_pair(KeyKind::authority, "lab");
  const PublicKey key = make_key_pair(KeyKind::peer, "ada").public_key;
  for (const std::string& name : {std::string("a"), std::string(Certificate::kMostName, 'n')}) {
    const Certificate c = sign_certificate(authority, name, key, kNow);
    CHECK(is_signed_by(c, authority.public_key));
    CHECK_FALSE(is_signed_by(c, other.public_key));
    CHECK(encode_certificate(c).size() <= Certificate::kMostBytes);
    CHECK(decode_certificate(encode_certificate(c)) == c);
    CHECK(certificate_of(text_of(c)) == c);
    write_certificate_file(folder.path("c.cert"), c);
    CHECK(read_certificate_file(folder.path("c.cert")) == c);
  }
  CHECK(says(refusal([&] { read_certificate_file(folder.path("none.cert")); }), "expected a certificate"));
  folder.write("wrong.cert", "# a\nnothing\n");
  CHECK(says(refusal([&] { read_certificate_file(folder.path("wrong.cert")); }),
             "wrong.cert:2: no certificate"));
  folder.write("empty.cert", "# a\n");
  CHECK(says(refusal([&] { read_certificate_file(folder.path("empty.cert")); }), "holds no certificate"));
}

TEST_CASE("no bit of a certificate can be changed") {
  const KeyPair authority = make_key_pair(KeyKind::authority, "lab");
  const Certificate c =
      sign_certificate(authority, "ada", make_key_pair(KeyKind::peer, "ada").public_key, kNow);
  const auto bytes = encode_certificate(c);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto read = decode_certificate(changed);
    CHECK_FALSE((read && is_signed_by(*read, authority.public_key)));
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_certificate(std::span(bytes).first(size)));
  auto longer = bytes;
  longer.resize(Certificate::kMostBytes + 1);
  CHECK_FALSE(decode_certificate(longer));
}

TEST_CASE("random bytes and lines are no certificates and no keys") {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(draw() % 600);
    for (auto& b : bytes) b = static_cast<std::byte>(draw());
    if (bytes.size() > 8 && draw() % 2) std::memcpy(bytes.data(), "GSMCERT1", 8);
    if (const auto c = decode_certificate(bytes)) CHECK(encode_certificate(*c) == bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    CHECK_FALSE(certificate_of(text));
    CHECK_FALSE(certificate_of("gossamer-certificate:" + std::string(text)));
    CHECK_FALSE(public_key_of(text));
  }
}

TEST_CASE("who is admitted: revoked before listed before certified") {
  const KeyPair authority = make_key_pair(KeyKind::authority, "lab"),
                foreign = make_key_pair(KeyKind::authority, "eve");
  const auto key = [](const char* name) { return make_key_pair(KeyKind::peer, name).public_key; };
  const PublicKey ada = key("ada"), new_ada = key("ada"), bob = key("bob"), eve = key("eve");
  AccessList access;
  access.allowed = {{ada, "ada"}, {new_ada, "ada"}};

  SECTION("by the list alone") {
    CHECK(admit(access, ada).how == Admitted::by_list);
    CHECK(admit(access, ada).name == "ada");
    CHECK(admit(access, new_ada).name == "ada");
    CHECK(admit(access, bob).how == Admitted::no_unlisted);
    CHECK_FALSE(admit(access, bob).admitted());
    access.revoked = {ada};
    CHECK(admit(access, ada).how == Admitted::no_revoked);
    CHECK(admit(access, ada).name.empty());
    CHECK(admit(access, new_ada).admitted());
    const Certificate c = sign_certificate(authority, "bob", bob, kNow);
    CHECK(admit(access, bob, c, kNow).how == Admitted::no_unlisted);  // nobody vouches here
  }
  SECTION("by a certificate") {
    access.authority = authority.public_key;
    CHECK(admit(access, bob).how == Admitted::on_probation);
    CHECK_FALSE(admit(access, bob).admitted());
    const Certificate c = sign_certificate(authority, "bob", bob, kNow);
    const Admission a = admit(access, bob, c, kNow);
    CHECK(a.how == Admitted::by_certificate);
    CHECK(a.name == "bob");
    CHECK(a.until_s == kNow);
    CHECK(admit(access, bob, c, kNow + 1).how == Admitted::no_expired);
    CHECK(admit(access, eve, c, kNow).how == Admitted::no_other_key);
    CHECK(admit(access, bob, sign_certificate(foreign, "bob", bob, kNow), kNow).how == Admitted::no_forged);
    CHECK(admit(access, bob, sign_certificate(authority, "ada", bob, kNow), kNow).how ==
          Admitted::no_other_name);
    Certificate renamed = c;
    renamed.name = "carl";
    CHECK(admit(access, bob, renamed, kNow).how == Admitted::no_forged);
    CHECK(admit(access, ada, c, kNow).how == Admitted::by_list);  // a listed one needs none
    access.revoked = {bob};
    CHECK(admit(access, bob, c, kNow).how == Admitted::no_revoked);
    access.revoked = {authority.public_key};
    CHECK(admit(access, bob, c, kNow).how == Admitted::no_authority);
    CHECK(admit(access, ada, c, kNow).how == Admitted::by_list);
  }
}

TEST_CASE("revoked keys are added to their file once, and a wrong line of it is named") {
  const Folder folder;
  const std::string path = folder.path("revoked");
  const PublicKey a = make_key_pair(KeyKind::peer, "a").public_key,
                  b = make_key_pair(KeyKind::peer, "b").public_key;
  CHECK(revoke(path, a, "lost"));
  CHECK_FALSE(revoke(path, a, "again"));
  CHECK(revoke(path, b, "old"));
  CHECK(read_revocation_file(path) == std::set<PublicKey>{a, b});
  folder.write("revoked", "\n# by hand, without an end of the line\n  " + text_of(a));
  CHECK(revoke(path, b, "old"));
  CHECK(read_revocation_file(path) == std::set<PublicKey>{a, b});
  folder.write("revoked", "\n12ab # who?\n");
  CHECK(says(refusal([&] { read_revocation_file(path); }),
             "revoked:2: found \"12ab\", 4 characters; expected a public key"));
  CHECK(says(refusal([&] { revoke(path, b, "old"); }), "revoked:2:"));
}

}  // namespace
