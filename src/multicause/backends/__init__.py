"""The fused inner loops, one folder per kind of device, one file per model: the same names as in `models/`."""
