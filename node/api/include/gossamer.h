/* A peer for any language that calls C: a training loop of one's own hands its gradients in and gets the next
 * parameters, while the peer exchanges them with its neighbours on threads of its own. C11.
 *
 *   gs_peer *peer;
 *   if (gs_open("job.toml", NULL, 0, "peer0", tensors, 2, NULL, &peer) != GS_OK) { puts(gs_error()); ... }
 *   gs_status status;
 *   while ((status = gs_wait(peer, -1)) == GS_OK) {    // the round's parameters stand
 *     ... reads gs_parameters(peer, t), writes gs_gradient(peer, t) ...
 *     gs_post(peer, loss, rows);
 *   }
 *   if (status == GS_DONE) gs_save(peer, "model.safetensors");
 *   gs_close(peer);
 *
 * With gs_options.own_steps the program has an optimiser of its own. Where gs_steps_by_mean is 0 it steps
 * gs_changing(peer, t) before gs_post; else after it, by gs_gradient(peer, t), when gs_wait_mean gives GS_OK.
 *
 * A peer belongs to one thread at a time, but for gs_interrupt, gs_report and gs_members, and to the process
 * that opened it: in a forked child every call on it but gs_close, which lets go of nothing there, is
 * GS_MISUSE. Nothing here calls back into the program, and nothing throws. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something that is here changes its meaning or layout. Fields that are added at a structure's end
 * leave it alone: a library takes structures of its own size and of any that older headers had, not larger
 * ones, of headers that are newer than it is. */
#define GS_ABI 2
int gs_abi(void);
/* "0.1.0" */
const char* gs_version(void);

typedef enum gs_status {
  GS_OK = 0,
  GS_DONE = 1,        /* the run is over, as the job says */
  GS_TIMEOUT = 2,     /* the round's parameters do not stand yet */
  GS_BAD_INPUT = 3,   /* a file, key, tensor or combination that cannot be used; peers of different jobs */
  GS_LOST_PEER = 4,   /* another peer went away or never came, or nothing moved for run.stall_timeout */
  GS_DIVERGED = 5,    /* the losses or parameters ran away */
  GS_INTERRUPTED = 6, /* gs_interrupt was called, or others were told to end the run */
  GS_MISUSE = 7,      /* calls in the wrong order, null pointers, numbers out of range */
  GS_FAILED = 8,      /* anything else: memory, sockets, the disk */
  GS_NO_MEAN = 9 /* of gs_wait_mean: members changed or the run is over, as gs_wait says; no step is taken */
} gs_status;

/* What the calling thread's last call that did not give GS_OK, GS_DONE, GS_TIMEOUT or GS_NO_MEAN has to say:
 * what was found, what was expected. Valid until the thread's next call. */
const char* gs_error(void);

/* An array of the model; row-major floats. */
typedef struct gs_tensor {
  const char* name;
  const size_t* shape; /* dimensions of them; may be null for a single number */
  size_t dimensions;
  const float* initial; /* copied by gs_open. Null: zeros. All peers begin with the first one's, or with what
                           a run under way has */
  int state; /* not 0: it has no gradient; the program changes it between gs_wait and gs_post, and the peers
                average what became of it, exactly (running statistics of a batch normalisation) */
} gs_tensor;

/* What may be left out: zeros and null pointers are the defaults. */
typedef struct gs_options {
  size_t size;              /* sizeof(gs_options) */
  uint64_t session;         /* keeps runs of the same job on the same ports apart; the same for all peers */
  uint64_t steps_per_epoch; /* in which the peers together go through all data once; 0: one */
  uint64_t rows;         /* of the data, for all peers together: gs_batch says then, by the job's split, which
                            of them a batch is made of, and steps_per_epoch follows; 0: the program sees to it */
  const int32_t* labels; /* of the rows, from 0 on, which some splits read; null: none */
  const char* checkpoints; /* folder where they go, as run.checkpoint_every says; null: none are made */
  const char* resume;      /* a run's folder, from whose checkpoints this one goes on */
  const char* join;        /* tcp://host:port of a member of a run under way, in which this peer takes part */
  const char* address;     /* of a peer that joins and that the job does not name: where others reach it */
  const char* log;         /* file that lines of the log are added to; "-": standard error; null: none */
  int own_steps; /* not 0: the program steps the parameters; the job's [optimizer] is not read but for the
                    batch. All peers must, or none */
  const gs_tensor* kept; /* arrays of the program's own that checkpoints hold and that are taken over with
                            others' parameters: its optimiser's state. They begin as `initial` says */
  size_t kept_count;
  const char* alike; /* what else of the program all peers must have alike, in words and digests, as the parts
                        of its model that nobody learns; null: nothing */
  const char* alike_steps; /* the same, where gs_steps_by_mean is 1: the rule of the program's optimiser */
} gs_options;

typedef struct gs_peer gs_peer;

/* Reads the job, opens the peer's port and begins to join the others, in the background. overrides: as of
 * `--set`, "exchange.codec=dense". tensors: in the order in which the model uses them. *peer is null where
 * this fails. */
gs_status gs_open(const char* job, const char* const* overrides, size_t overrides_count, const char* name,
                  const gs_tensor* tensors, size_t tensors_count, const gs_options* options, gs_peer** peer);

/* Until the parameters of the next round stand (GS_OK), for so many seconds at most, less than 0: as long as
 * it takes. All other values but GS_TIMEOUT say that the run is over, and why; they are given again from then
 * on. */
gs_status gs_wait(gs_peer* peer, double seconds);
/* Of the tensor, by its place among those that gs_open was given; 0 and null where there is none. Arrays stay
 * where they are until gs_close. The parameters are those of the round between gs_wait and gs_post, and the
 * trained ones once the run is over; the gradient is to be written in between, its first values are zeros. */
size_t gs_floats(const gs_peer* peer, size_t tensor);
const float* gs_parameters(const gs_peer* peer, size_t tensor);
float* gs_gradient(gs_peer* peer, size_t tensor);
/* The parameters, to be changed: of a state between gs_wait and gs_post; with own steps of any tensor, when
 * it steps. */
float* gs_changing(gs_peer* peer, size_t tensor);
/* Of gs_options.kept, to be changed when parameters may be; stays where it is. */
float* gs_kept(gs_peer* peer, size_t array);
/* Of this peer's batches, counted from the run's beginning, the one that is computed, or comes next. */
uint64_t gs_step(const gs_peer* peer);
/* In which the peers together go through all data once, as they are when this one begins. */
uint64_t gs_steps_per_epoch(const gs_peer* peer);
/* Where gs_options.rows is not 0: the rows of such a batch, at most `most` of them; *count: how many it has.
 * Those of batches to come are right as long as members do not change, and to the end of the pass over the
 * peer's rows where they do. */
gs_status gs_batch(const gs_peer* peer, uint64_t step, uint32_t* rows, size_t most, size_t* count);
/* What this peer's checkpoints hold beside the rest from now on, and nobody else has: states of generators,
 * of schedules. Copied; between gs_wait and gs_post, or where gs_steps_by_mean is 1 before the next gs_wait.
 */
gs_status gs_remember(gs_peer* peer, const void* bytes, size_t size);
/* What was given last, also to the peer whose checkpoint this one goes on from, once gs_wait has given GS_OK;
 * null and 0: nothing. Valid until gs_remember. */
const void* gs_remembered(const gs_peer* peer, size_t* size);
/* The tensor's gradient stands and is not written any more in this round: its exchange may begin while those
 * of earlier tensors are computed. Need not be called. */
gs_status gs_ready(gs_peer* peer, size_t tensor);
/* All gradients stand. loss: mean over the batch; where it is NaN or Inf the step is left out
 * (run.skip_limit). rows: samples in it. */
gs_status gs_post(gs_peer* peer, double loss, size_t rows);
/* 1: own steps go by the mean of all peers' gradients, as the job's method averages these; else 0. */
int gs_steps_by_mean(const gs_peer* peer);
/* Where that is 1, after gs_post, for so many seconds at most (as gs_wait): GS_OK when the mean stands in
 * gs_gradient, by which the step is to be taken before anything else, and then gs_wait to be called. */
gs_status gs_wait_mean(gs_peer* peer, double seconds);

/* How it goes, as the peer said last (run.report_every); zeros, and a loss of NaN, before that. */
typedef struct gs_progress {
  uint64_t round; /* finished */
  uint64_t peers; /* that take part, this one included */
  double epoch, share_done, loss, rows_per_second, bytes_out_per_second, bytes_in_per_second, staleness;
  uint64_t skipped_steps, held_back, queued_bytes;
} gs_progress;
/* size: sizeof(gs_progress). From any thread. */
gs_status gs_report(const gs_peer* peer, gs_progress* progress, size_t size);

/* Names of those that train together, this peer among them, a line each; from any thread. Valid until the
 * thread's next call. */
const char* gs_members(const gs_peer* peer);

/* The run ends soon, and gs_wait says so. From any thread. */
gs_status gs_interrupt(gs_peer* peer);
/* Writes the parameters as a safetensors file, beside and then in place of what is there; between gs_wait and
 * gs_post, or once the run is over. */
gs_status gs_save(const gs_peer* peer, const char* path);
/* Ends the run where it still goes on, and says how it ended; the arrays stay. A round that has begun then,
 * and others wait for, ends without this peer's gradient, and all save it (run.grace); where gs_steps_by_mean
 * is 1 the peer ends at once instead. After gs_interrupt, and gs_wait until that says so, there is no such
 * round. */
gs_status gs_end(gs_peer* peer);
/* The same, and frees the peer and its arrays; null: nothing. */
void gs_close(gs_peer* peer);

/* ---- the same program's gradients on a simulated network ---- */

/* A gradient of one of the simulation's peers. parameters[t] is read (that of a state is changed, as between
 * gs_wait and gs_post), gradients[t] is to be written, zeros at first; *loss: mean over the batch. rows: of
 * the batch, by the job's split, where gs_simulation.rows is not 0. Gives the samples in the batch, at most
 * 2^32; less than 0 ends the simulation. */
typedef int64_t (*gs_gradient_function)(void* context, size_t peer, uint64_t step, const uint32_t* rows,
                                        size_t rows_count, float* const* parameters, float* const* gradients,
                                        double* loss);
typedef struct gs_simulation {
  size_t size; /* sizeof(gs_simulation) */
  gs_gradient_function gradient;
  void (*report)(void* context, size_t peer, double seconds, const gs_progress* progress); /* may be null */
  void* context;
  uint64_t seed;  /* of the network's faults and times; 0: 1 */
  uint64_t peers; /* in place of the job's number; 0: that */
  uint64_t steps_per_epoch, rows;
  const int32_t* labels; /* these three as of gs_options */
} gs_simulation;
typedef struct gs_simulated gs_simulated;

/* All peers of the job in virtual time, on the caller's thread ([sim]); deterministic: the same digest for
 * the same gradients. Where the method is synchronous they come to the bits that peers over sockets come to.
 */
gs_status gs_simulate(const char* job, const char* const* overrides, size_t overrides_count,
                      const gs_tensor* tensors, size_t tensors_count, const gs_simulation* simulation,
                      gs_simulated** result);
size_t gs_simulated_peers(const gs_simulated* result);
/* What the peer learned; null and gs_error where there is no such peer or tensor. */
const float* gs_simulated_parameters(const gs_simulated* result, size_t peer, size_t tensor);
typedef struct gs_ending {
  gs_status status; /* as gs_wait would have given it */
  uint64_t rounds, rows;
  double loss; /* over the last epoch */
  uint64_t bytes_out, bytes_in;
  double virtual_seconds; /* of the whole simulation */
  uint64_t digest;        /* of all parameters of all peers */
} gs_ending;
/* How the peer ended; size: sizeof(gs_ending). Gives the status in it. */
gs_status gs_simulated_end(const gs_simulated* result, size_t peer, gs_ending* ending, size_t size);
void gs_simulated_free(gs_simulated* result);

#ifdef __cplusplus
}
#endif
