"""Tests of the models of layers."""
