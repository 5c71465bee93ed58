#pragma once
// prepare turns a job into the parts of a run: data, initial parameters, rounds, workers and replicas.
#include <memory>
#include <string>

#include "aligned.h"
#include "clicks.h"
#include "exchange.h"
#include "gossamer/node/job.h"
#include "gossamer/node/learner.h"
#include "gossamer/optim/course.h"
#include "gossamer/optim/data.h"
#include "member.h"
#include "replica.h"

namespace gossamer::node {

/// A model's layers, how they are coded, and where it starts.
struct Shape {
  optim::ModelSpec model;
  std::vector<optim::Layer> layers;
  SharedFloats initial;  ///< x⁰
  std::shared_ptr<const CodecSchedule> codecs;
};

/// What is common to all peers of a run; made once per process. Copies share what is large.
struct Prepared {
  Job job;           ///< model sizes and the optimiser's length are filled in
  optim::Data data;  ///< where there is a learner, its rows alone
  std::vector<optim::Layer> layers;
  SharedFloats initial;  ///< x⁰
  std::uint64_t rounds = 0;
  std::uint64_t rounds_per_epoch = 1;
  /// Where nobody waits for anybody: of all peers together, as many as `rounds` rounds take; these end the
  /// run, whoever takes them. Else 0: every peer goes through all rounds.
  double total_samples = 0;
  std::size_t parameters = 0;
  std::size_t classes = 0;           ///< that samples are told apart into; 0: none
  SharedList<std::string> names;     ///< of all peers
  HelloBody hello;                   ///< what all peers must agree on; the name is each peer's own
  std::shared_ptr<const Plan> plan;  ///< of peer 0; the others' differ in self alone
  std::shared_ptr<const optim::Split> split;
  std::shared_ptr<const CodecSchedule> codecs;
  [[no_unique_address]] Planted planted{};
  Learner learner{};
  ClickData clicks{};                        ///< of a model of sparse samples
  std::vector<optim::RowHome> homes{};       ///< that the data were dealt to at first; empty: these peers
  std::optional<compress::RowsSpec> rows{};  ///< of the peers' tables are exchanged so
  /// The learner's, of the peer that prepare asked for: what make_objective gives first.
  std::shared_ptr<std::unique_ptr<optim::Objective>> first_objective{};
  PeerId first_peer = 0;
  std::vector<std::shared_ptr<const Shape>> shapes;  ///< by peer; empty where all have the job's shape
  /// Links that carry no parameters, beside those of the plan's graph: between its parts where it falls
  /// apart, so that all hear of all.
  std::vector<std::pair<PeerId, PeerId>> bridges{};

  bool homogeneous() const { return shapes.empty(); }
  const std::vector<optim::Layer>& layers_of(PeerId peer) const {
    return homogeneous() ? layers : shapes[peer]->layers;
  }
  const std::shared_ptr<const CodecSchedule>& codecs_of(PeerId peer) const {
    return homogeneous() ? codecs : shapes[peer]->codecs;
  }
  const SharedFloats& initial_of(PeerId peer) const {
    return homogeneous() ? initial : shapes[peer]->initial;
  }
  /// With whom the peer exchanges frames; ascending.
  std::vector<PeerId> links_of(PeerId peer) const;
};

/// Loads the data, draws or reads the initial parameters. learner: asked for the objective of peer `self` at
/// once. Throws ConfigError (also for an unsound combination), OptimError.
Prepared prepare(Job job, Learner learner = {}, PeerId self = 0);

/// The rows of a job that says where they are; throws as load_data and ConfigError. Null where it learns by
/// key, or in another program.
optim::Data load_rows(const Job& job);

/// Plan, codecs and hello anew, where job, layers or initial parameters were replaced after prepare.
void make_plan(Prepared& prepared);

/// Of the shape that all peers have, or of one peer's; of jobs that say what is learned.
std::unique_ptr<optim::Model> make_model(const Prepared& prepared);
std::unique_ptr<optim::Model> make_model(const Prepared& prepared, PeerId peer);

/// Throws ConfigError where there is none of the name; asked: what names it, in front of the message.
PeerId find_peer(const Job& job, const std::string& name, const std::string& asked);
/// One peer's. model: its model, where others share its scratch memory; null: one of its own. prefetch: a
/// thread reads ahead. course: of the peer's data, where peers come and go; goes on with step first_step.
std::unique_ptr<optim::Objective> make_objective(const Prepared& prepared, PeerId peer,
                                                 std::shared_ptr<optim::Model> model = {},
                                                 bool prefetch = false,
                                                 std::shared_ptr<optim::DataCourse> course = {},
                                                 std::uint64_t first_step = 0);
/// Of one that learns from rows of the data; without teachers.
optim::RowObjectiveParts row_objective_parts(const Prepared& prepared, PeerId peer,
                                             std::shared_ptr<optim::Model> model, bool prefetch,
                                             std::shared_ptr<optim::DataCourse> course,
                                             std::uint64_t first_step);
/// Null where peers do not come and go.
std::shared_ptr<optim::DataCourse> new_course(const Job& job);

/// One peer's.
Plan plan_of(const Prepared& prepared, PeerId self);
/// After which rounds the peers of a job save.
SaveSpec save_spec(const Job& job);
/// keeps: there is a place for checkpoints. leaves: members may change, and who is told to end leaves the
/// others.
void set_saves(WorkerSpec& spec, const Job& job, bool keeps, bool leaves);
/// epoch: drawn by the caller, not 0. session: keeps runs of the same job on the same ports apart.
WorkerSpec worker_spec(const Prepared& prepared, PeerId self, std::uint64_t epoch, std::uint64_t session);
/// Rounds by which the models of members of one side may differ where a view ends.
std::uint64_t rounds_under_way(const Job& job);
/// One peer's control over a run of which that is its first worker. start: as of Seat.
MemberSpec member_spec(const Job& job, PeerId self, std::uint64_t start, const WorkerSpec& first);
/// Of one that joins a run under way, where base's files need not name it: whom it asks first, and by which
/// id the members know the run.
MemberSpec joining_spec(const Prepared& base, const Contact& self, std::uint64_t start, std::uint64_t job_id,
                        const Contact& join);
/// EpochCount adds up the epochs of a run whose views have more rounds to each or fewer.
class EpochCount {
 public:
  /// A view of these peers begins when that share of the run is over: the epochs until then. known: where the
  /// run is known to have had so many.
  double enter(const Prepared& view, double share, std::optional<double> known = {});

 private:
  double share_ = 0, epochs_ = 0;
  std::optional<double> all_;  ///< of the whole run, as the last view has them
};
/// One peer's, in a view that begins when that share of the run is over; prepared: of the view.
WorkerSpec view_worker_spec(const Prepared& prepared, PeerId seat, std::uint64_t epoch, std::uint64_t session,
                            double share);
/// The job's, as the exchange has it.
optim::OptimizerSpec optimizer_of(const Prepared& prepared);
/// What a peer's replica is made of wherever its floats are.
ReplicaBaseParts replica_base_parts(const Prepared& prepared, PeerId self,
                                    std::unique_ptr<optim::Objective> objective, const Buffers& buffers);
/// threads: that share the coding of a large parcel. attack: what the peer does wrong, in a simulation.
/// buffers: in place of those that the job's method keeps. spare: memory for it.
Replica make_replica(const Prepared& prepared, PeerId self, std::unique_ptr<optim::Objective> objective,
                     std::size_t threads = 1, AttackSpec attack = {}, std::optional<Buffers> buffers = {},
                     SpareFloats spare = {});

}  // namespace gossamer::node
