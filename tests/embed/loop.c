/* The same in C, with a loop of its own: y = a·sin(x) + b·cos(x) + c. */
#include <gossamer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 16 };

static double gradient(const float *x, float *g, unsigned *random) {
  double loss = 0;
  for (int k = 0; k < 3; ++k) g[k] = 0;
  for (int row = 0; row < kRows; ++row) {
    *random = *random * 1664525u + 1013904223u;
    const float at = 6.28f * (float)(*random >> 8) / 16777216.0f;
    const float in[] = {sinf(at), cosf(at), 1};
    const float error = (x[0] - 2) * in[0] + (x[1] + 1) * in[1] + (x[2] - 0.5f) * in[2];
    for (int k = 0; k < 3; ++k) g[k] += error * in[k] / kRows;
    loss += 0.5 * error * error / kRows;
  }
  return loss;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: loop JOB NAME-OF-A-PEER\n"), 2;
  const size_t shape[] = {3};
  const gs_tensor tensors[] = {{"abc", shape, 1, NULL, 0}};
  gs_peer *peer;
  if (gs_open(argv[1], NULL, 0, argv[2], tensors, 1, NULL, &peer) != GS_OK)
    return fprintf(stderr, "loop: %s\n", gs_error()), 2;
  const float *x = gs_parameters(peer, 0);
  unsigned random = (unsigned)argv[2][4];
  gs_status status;
  while ((status = gs_wait(peer, -1)) == GS_OK)
    gs_post(peer, gradient(x, gs_gradient(peer, 0), &random), kRows);
  const double distance = sqrt(pow(x[0] - 2, 2) + pow(x[1] + 1, 2) + pow(x[2] - 0.5, 2));
  printf("%s: off by %.2e%s\n", argv[2], distance, status == GS_DONE ? "" : gs_error());
  gs_close(peer);
  return status == GS_DONE && distance < 1e-2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
