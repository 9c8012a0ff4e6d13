"""The version of `orc`, which containers carry as the label `orc.version`."""

__version__ = "0.1.0"
