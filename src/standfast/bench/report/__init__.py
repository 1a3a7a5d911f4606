"""What came of a grid, for readers: tables, plots, a leaderboard and one page that holds them all."""
