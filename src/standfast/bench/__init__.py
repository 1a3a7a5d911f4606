"""The write-policy benchmark: episodes, runs, grids, leaderboards and reports.

Example:
    Grade two policies on a synthetic episode::

        episode = PricedEpisode(generate(DriftSettings(steps=100), 0))
        for name in ("RecencyBias", "DriftValue"):
            print(name, episode.run(Entrant.parse(name), 1_024).metrics.recall)
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
