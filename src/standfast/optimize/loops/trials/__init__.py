"""One optimisation: its arms, its course, its report, and what becomes of it.

trial.py         arms under temporary tags, their runs, their comparison
optimization.py  propose, screen, combine, confirm                          <- START HERE
report.py        OptimizationReport; html.py shows it
apply.py         one compare-and-set, with a way back
"""
