# Every frame between two peers. Unknown fields are ignored; an unsupported major version is refused at the handshake.
@0xd3c1a4f0b7e2965a;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("gossamer::node::wire");

struct Frame {
  version @0 :UInt16;      # of the wire format: major*256 + minor
  sender @1 :UInt32;       # index of the sending peer in the topology
  job @2 :UInt64;          # hash of what the peers agreed on; frames of another job are dropped (hello excepted)
  epoch @3 :UInt64;        # drawn by the sender when it started: a restart is a new epoch
  sequence @4 :UInt64;     # parcels of one link are numbered from 1 and delivered in order; 0 for all else
  received @5 :UInt64;     # highest sequence that the sender of this frame has received in order on this link
  consumed @6 :UInt64;     # … and has used
  checksum @7 :UInt64;     # XXH3 of all that stands in this frame

  union {
    alive @8 :Alive;
    hello @9 :Hello;
    parcel @10 :Parcel;
    places @11 :Places;
    progress @12 :Progress;  # since 1.2, where peers do not wait for each other: an alive that tells of samples too
    swim @13 :Swim;          # since 1.6: who is there, where members come and go; its sender has no index, and goes by name
    want @14 :Want;          # since 1.6: of the state with which a member enters a view; its sender goes by name
    piece @15 :Piece;        # … and the answer
    query @16 :Query;        # since 1.7: for how a peer sees its run, of anyone; of any job, its sender has no index
    status @17 :Status;      # … and the answer
    offer @18 :Offer;        # since 1.7: what can be wanted of the sender, as an answer to a want of state 0
    ask @19 :Ask;            # since 1.7: for the terms of a run, by one who would take part; of whatever job
    terms @20 :Terms;        # … and the answer, over the connection that the question came by
  }
}

struct Alive {
  status @0 :Data;         # what the sender knows of everyone, merged by maximum: runs of peers, each a byte of status and
                           # the number of peers, 7 bits a byte from the lowest on, the highest bit set in all but the last
  saves @1 :Data;          # since 1.5, of runs that keep checkpoints or whose members may leave: after which round all save
                           # next, which was the best, who leaves then, and which each holds for, has taken and has on
                           # disk (saves.h)
}

struct Places {
  places @0 :Data;         # who runs where, as far as the sender knows, while peers join: runs of peers, each a machine (0 = not
                           # known), an allotment of its cores and the number of peers, 32 bits each
  offers @1 :Data;         # since 1.5, of runs that keep checkpoints: from which each peer can go on (offers.h)
}

struct Progress {
  status @0 :Data;         # as in Alive
  samples @1 :Data;        # taken in by peers since their start, of all that the sender knows of or of those with news: peers
                           # ascend, each as the number of peers passed over and its samples, coded as lengths in Alive
  saves @2 :Data;          # as in Alive
}

struct Want {
  state @0 :UInt64;        # XXH3 of the whole; 0: what is there is asked for
  offset @1 :UInt64;       # of the piece, a multiple of 128 KiB
  from @2 :Text;           # name of the sender
}

struct Piece {
  state @0 :UInt64;
  offset @1 :UInt64;
  bytes @2 :Data;          # 128 KiB, less in the last one
}

struct Query {
  number @0 :UInt64;       # that the answer repeats
}

struct Status {
  number @0 :UInt64;
  body @1 :Data;           # status_body.h
  waits @2 :Text;          # since 1.8: for whom, and for how long; empty: it does not
}

struct Offer {
  state @0 :UInt64;        # XXH3 of the whole
  bytes @1 :UInt64;
  share @2 :Float64;       # of the run that was over, in [0, 1]
  from @3 :Text;
}

struct Ask {
  from @0 :Text;           # the name under which the sender would take part, or takes part
  initialAt @1 :UInt64 = 0xffffffffffffffff;  # since 1.10: from which byte on it wants a piece of the initial parameters, too; this one: none
}

struct Terms {
  from @0 :Text;
  refusal @1 :Text;        # why the sender may not take part; empty: it may
  taken @2 :Bool;          # the refusal is that a member of that name lives
  session @3 :UInt64;
  minPeers @4 :UInt64;     # run.min_peers
  jobText @5 :Text;        # these as in Hello
  layers @6 :Text;
  parametersHash @7 :UInt64;
  dataHash @8 :UInt64;
  access @9 :Text;         # since 1.9: who may speak, as keys of a topology file; empty: connections are plain
  initialAt @10 :UInt64;   # since 1.10, where a piece of the initial parameters was asked for: from which byte on
  initial @11 :Data;       # … it is, up to 512 KiB, and of all else but the hash nothing
}

struct Swim {
  body @0 :Data;           # kind, number, names and records (swim_body.h)
  ended @1 :Data;          # since 1.8: which of the records are of members whose process is known to have ended
}

struct Hello {
  oldestVersion @0 :UInt16;    # the sender speaks oldestVersion … Frame.version
  name @1 :Text;
  heardEpoch @2 :UInt64;       # epoch of the receiver as far as heard; 0 = nothing heard from it yet
  jobHash @3 :UInt64;
  jobText @4 :Text;            # the shared keys, one a line, so that a difference can be named
  topologyHash @5 :UInt64;
  layers @6 :Text;             # "fc1:0+200960 fc2:…"
  parametersHash @7 :UInt64;   # of the initial parameters
  dataHash @8 :UInt64;
  status @9 :Data;             # as in Alive
  allreduce @10 :Text;         # since 1.4, by name the algorithm of each parcel's dense all-reduce: "ring 0-1, halving_doubling 2"
}

struct Parcel {
  round @0 :UInt64;
  parcel @1 :UInt32;
  tag @2 :UInt32;          # the exchange method's own: slice, step …
  entries @3 :UInt64;      # parameters that the whole payload stands for
  chunk @4 :UInt32;        # chunks of one payload are sent in order under consecutive sequences
  chunks @5 :UInt32;
  payload @6 :Data;        # 128 KiB of the codec's self-described payload, less in the last chunk; 512 KiB at
                           # most where there is one. Null: it follows as it is, in the message's next part
  digest @7 :UInt64;       # XXH3 of the whole payload; of several chunks, of the hashes of theirs
}
