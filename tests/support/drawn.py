"""Long tables of scripts, as gossamer_test/drawn.h has it for programs."""
import os
import random


def drawn(rows, every):
    """All rows; where GOSSAMER_DRAW is set, one in `every` of them that it draws, in their order."""
    rows, draw = list(rows), os.environ.get("GOSSAMER_DRAW")
    if draw is None:
        return rows
    return [rows[i] for i in sorted(random.Random(int(draw)).sample(range(len(rows)), -(-len(rows) // every)))]
