#pragma once
// Sparse models as one writes them down first: std::unordered_map, one sample after the other.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "gossamer/optim/sample_stream.h"
#include "gossamer/optim/sparse.h"

namespace gossamer::optim::test {

/// FTRL-proximal of one coordinate (McMahan et al. 2013, algorithm 1).
struct Ftrl {
  float alpha = 0.1f, beta = 1, l1 = 0, l2 = 0;
  void update(float g, float& w, float& z, float& n) const {
    const float next = n + g * g;
    z += g - (std::sqrt(next) - std::sqrt(n)) / alpha * w;
    n = next;
    const float magnitude = std::abs(z) - l1;
    w = magnitude <= 0 ? 0 : -std::copysign(magnitude, z) / ((beta + std::sqrt(n)) / alpha + l2);
  }
};

/// Samples kept in memory: keys as they came.
struct Kept {
  std::vector<std::size_t> begins{0};
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> fields;
  std::vector<float> values, labels;
  bool has_fields = false;
  std::size_t size() const { return labels.size(); }
  Sample at(std::size_t b) const {
    const std::size_t first = begins[b], n = begins[b + 1] - first;
    return {std::span(keys).subspan(first, n),
            has_fields ? std::span(fields).subspan(first, n) : std::span<const std::uint32_t>(),
            std::span(values).subspan(first, n),
            labels[b],
            b,
            b};
  }
};
inline Kept keep(SampleStream& stream) {
  Kept kept;
  for (SparseBatch batch; stream.next(1000, false, batch);) {
    kept.has_fields = kept.has_fields || batch.field_count() > 1;
    for (std::size_t b = 0; b < batch.size(); ++b) {
      for (std::size_t e = batch.begins()[b]; e < batch.begins()[b + 1]; ++e) {
        kept.keys.push_back(batch.keys()[batch.index()[e]]);
        kept.fields.push_back(batch.fields()[e]);
        kept.values.push_back(batch.values()[e]);
      }
      kept.begins.push_back(kept.keys.size());
      kept.labels.push_back(batch.labels()[b]);
    }
  }
  return kept;
}

/// Logistic regression with FTRL, a pass over the samples.
struct PlainLr {
  struct Row {
    float w = 0, z = 0, n = 0;
  };
  std::unordered_map<std::uint64_t, Row> rows;
  Ftrl ftrl;
  void pass(const Kept& data) {
    for (std::size_t b = 0; b < data.size(); ++b) {
      Row& bias = rows[kBiasKey];
      float z = bias.w;
      for (std::size_t e = data.begins[b]; e < data.begins[b + 1]; ++e)
        z += rows[data.keys[e]].w * data.values[e];
      const float kappa = 1 / (1 + std::exp(-z)) - data.labels[b];
      ftrl.update(kappa, bias.w, bias.z, bias.n);
      for (std::size_t e = data.begins[b]; e < data.begins[b + 1]; ++e) {
        Row& row = rows[data.keys[e]];
        ftrl.update(kappa * data.values[e], row.w, row.z, row.n);
      }
    }
  }
};

/// FM and FFM with SGD.
struct PlainVectors {
  explicit PlainVectors(std::size_t factors, std::size_t fields) : k(factors), width(1 + fields * factors) {}
  std::unordered_map<std::uint64_t, std::vector<float>> rows;
  std::size_t k, width;
  std::vector<float>& row(std::uint64_t key) {
    std::vector<float>& r = rows[key];
    if (r.empty()) {
      r.resize(width);
      for (std::size_t i = 1; i < width; ++i)
        r[i] = static_cast<float>((key * 31 + i * 17) % 101) / 1000 - 0.05f;
    }
    return r;
  }
  void fm(const Kept& data) {
    std::vector<float> s(k);
    for (std::size_t b = 0; b < data.size(); ++b) {
      float z = 0, squares = 0;
      std::fill(s.begin(), s.end(), 0.0f);
      for (std::size_t e = data.begins[b]; e < data.begins[b + 1]; ++e) {
        const std::vector<float>& r = row(data.keys[e]);
        z += r[0] * data.values[e];
        for (std::size_t f = 0; f < k; ++f) {
          const float t = r[1 + f] * data.values[e];
          s[f] += t;
          squares += t * t;
        }
      }
      for (std::size_t f = 0; f < k; ++f) z += s[f] * s[f] / 2;
      z -= squares / 2;
      const float kappa = 1 / (1 + std::exp(-z)) - data.labels[b];
      for (std::size_t e = data.begins[b]; e < data.begins[b + 1]; ++e) {
        std::vector<float>& r = row(data.keys[e]);
        const float x = data.values[e], step = 0.01f * kappa * x;
        r[0] -= step;
        for (std::size_t f = 0; f < k; ++f) r[1 + f] -= step * (s[f] - r[1 + f] * x);
      }
    }
  }
  void ffm(const Kept& data) {
    for (std::size_t b = 0; b < data.size(); ++b) {
      float z = 0;
      for (std::size_t i = data.begins[b]; i < data.begins[b + 1]; ++i) {
        z += row(data.keys[i])[0] * data.values[i];
        for (std::size_t j = i + 1; j < data.begins[b + 1]; ++j) {
          const float* v = row(data.keys[i]).data() + 1 + data.fields[j] * k;
          const float* u = row(data.keys[j]).data() + 1 + data.fields[i] * k;
          float dot = 0;
          for (std::size_t f = 0; f < k; ++f) dot += v[f] * u[f];
          z += dot * data.values[i] * data.values[j];
        }
      }
      const float kappa = 1 / (1 + std::exp(-z)) - data.labels[b];
      for (std::size_t i = data.begins[b]; i < data.begins[b + 1]; ++i) {
        row(data.keys[i])[0] -= 0.01f * kappa * data.values[i];
        for (std::size_t j = i + 1; j < data.begins[b + 1]; ++j) {
          float* v = row(data.keys[i]).data() + 1 + data.fields[j] * k;
          float* u = row(data.keys[j]).data() + 1 + data.fields[i] * k;
          const float step = 0.01f * kappa * data.values[i] * data.values[j];
          for (std::size_t f = 0; f < k; ++f) {
            const float kept = v[f];
            v[f] -= step * u[f];
            u[f] -= step * kept;
          }
        }
      }
    }
  }
};

}  // namespace gossamer::optim::test
