"""``python -m standfast.cli``: the command line where its script is not on the path."""

from standfast.cli import main

main(prog_name="standfast")
