"""False alarms and delays of the detector, measured on seeded traffic of known truth.

python -m benchmarks.detection [--quick]
"""
