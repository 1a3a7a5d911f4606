"""What a thing costs: byte models, byte budgets, and the store that spends them."""
