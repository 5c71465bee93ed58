#pragma once
// How far a round of compressed gossip follows what neighbours are known to have: γ of CHOCO-SGD and
// DeepSqueeze.
//
// CHOCO's proof (Koloskova, Stich & Jaggi 2019, theorem 2) bears γ = ρ²δ / (16ρ + ρ² + 4β² + 2ρβ² − 8ρδ), ρ
// the spectral gap, β = ‖I − W‖₂: safe for every codec and vector, and thousands of times smaller than what
// is stable (2e-5·δ on a ring of 32). What decides is how long an entry's estimate x̂ stands still while x
// goes on being pulled by it. Where each round takes in an entry with probability δ, x moves by γβ x̂ in each
// of T rounds between, T geometric, and E (1 − γβT)² < 1, so that x stays bounded in mean square, if and only
// if
//
//   γ < 2δ / ((2 − δ) β).
//
// An unbiased code of relative variance ω, taken the same way, gives 2(1−ω) / ((1+3ω) β), the same with δ =
// (1−ω)/(1+ω). Half of that is CHOCO's default, a third DeepSqueeze's:
//
//   γ = min(cap, 1/2 or 1/3 of 2δ / (2−δ)),    δ = compress::Traits::delta
//       but min(2δ, 1/10) where that is more and the largest entries are taken: what is left out is small
//       × (5/3)/β where β > 5/3 (full and star 1, ring 4/3, torus 8/5, hypercube of 32 5/3, of 64 12/7)
//   γ = 1 where nothing is left out (dense); CHOCO's too where that is little, δ > 0.999 (fp16, bf16).
//
// The cap is ½ for CHOCO, since an estimate that was just told is wrong by all that a sign or a level leaves
// out; and 1/10 for DeepSqueeze, whatever it leaves out: what it mixes is the size of x and not of a
// difference.
//
// That is γ of what is coded. Layers and rounds that go dense (exchange.dense_below, dense_rounds) have 1,
// unless the job states exchange.gamma, which counts for all (Plan::gamma_in): the same at every peer.
//
// Measured by bare averaging from normal, heavy-tailed and sparse starts and with one peer far off, 2000
// rounds: the largest γ, of two a factor of two, at which the consensus distance stayed under twice the first
// and ended lower; the least and the most of the cases (full graph of 8 peers, some on the ring too). That
// every codec's default holds, on ring, full, star and exponential graph of 8 and of 32 peers, is what
// tests/node/setup/table_gamma.cpp shows.
//
//                             CHOCO                   DeepSqueeze
//   codec                     default  stable         default  stable
//   onebit, onebit_scaled     0.5      0.7 … 1        0.1      0.35 … 1
//   qsgd:bits=4, 8            0.5      1              0.1      1
//   intq:bits=2               0.29     0.5 … 1        0.1      0.5 … 0.7
//   intq:bits=2, stochastic   0.059    0.25 … 0.5     0.039    0.25 … 0.5
//   topk 0.1 %                0.002    0.03 … 0.18    0.002    0.008 … 0.25
//   topk 1 %                  0.02     0.044 … 1      0.02     0.044 … 1
//   topk 10 %                 0.1      0.18 … 1       0.1      0.35 … 1
//   randk 1 %                 0.005    0.011 … 0.016  0.003    0.008 … 0.011
//   randk 5 %                 0.026    0.044 … 0.062  0.017    0.031 … 0.062
//   randk 30 %                0.18     0.35 … 0.5     0.1      0.25 … 0.35
#include "gossamer/compress/codec.h"

namespace gossamer::node {

enum class Gossiped {
  differences,  ///< from what the neighbours know already (CHOCO-SGD)
  parameters,   ///< themselves, with error feedback (DeepSqueeze)
};

struct ConsensusStep {
  double usual = 1;  ///< where the job leaves it open
  double most = 1;   ///< up to which every start that was tried was stable
};

/// pull: β, as of topology::largest_pull.
ConsensusStep consensus_step(const compress::Traits& codec, double pull, Gossiped gossiped);

}  // namespace gossamer::node
