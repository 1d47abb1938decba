"""Tests of vidload; the folders mirror the package's."""
