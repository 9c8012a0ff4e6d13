"""Deploys vLLM on many nodes over SSH. The stable Python interface is what stands here."""

__version__ = "0.1.0"
