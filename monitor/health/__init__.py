"""The pure core: windows, intervals, baselines, verdicts. No I/O and no clock."""
